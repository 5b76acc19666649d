//! Writes the three state files that other programs read: `team-state.json`, `session.json`, `agent-state.json`.
//!
//! They are made from what is known at the moment of writing, so the next host mends what a killed one left of them. That
//! one of them cannot be written is said once and stops nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};
use teamster_claude::state::{
    Begin, Model, Op, Pattern, Phase, StateChange, States, Status, TeammateRow,
};
use teamster_fs::{Sync, layout};
use teamster_journal::payload::RunSpec;
use teamster_journal::{HOST, ReviewState, RunState};
use teamster_party::{NewSession, Party, PartyError};
use teamster_types::TeamName;
use teamster_types::flow::{Flow, Outcome, Stage};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::progress::Progress;
use teamster_types::redact::{redact, redact_json};
use teamster_types::task::Task;

use super::context::RunContext;

/// How long others who write `agent-state.json` are waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// No flow has a longer way from one state to another.
const LONGEST_WAY: usize = 12;

/// Keeps the state files true to the run. It holds what was last written, so that nothing is written twice.
#[derive(Debug, Default)]
pub(super) struct Projector {
    team_state: Option<Value>,
    party: Option<Stage>,
    agents: Option<AgentRows>,
    complained: Vec<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct AgentRows {
    phase: &'static str,
    rows: BTreeMap<String, (Status, Option<String>, Option<String>)>,
    progress: Progress,
    over: bool,
}

impl Projector {
    /// Writes the three files where the run has changed since they were last written.
    pub(super) fn project(&mut self, run: &mut RunContext<'_>) {
        let (Some(stage), Ok(tasks)) = (run.state().stage, run.tasks()) else {
            return;
        };
        let done = self.project_team_state(run, stage, &tasks);
        self.complain(run, "team-state.json", done);
        let done = self.project_session(run, stage, &tasks);
        self.complain(run, "session.json", done);
        let done = self.project_agents(run, stage, &tasks);
        self.complain(run, "agent-state.json", done);
    }

    fn complain(&mut self, run: &mut RunContext<'_>, file: &'static str, done: Result<(), String>) {
        if let Err(why) = done
            && !self.complained.contains(&file)
        {
            self.complained.push(file);
            run.say(&format!("{file} is not up to date: {why}"));
        }
    }

    fn project_team_state(
        &mut self,
        run: &RunContext<'_>,
        stage: Stage,
        tasks: &[Task],
    ) -> Result<(), String> {
        let mut current = team_state(run.state(), stage, tasks);
        current["team"] = json!(run.team());
        redact_json(&mut current);
        if self.team_state.as_ref() == Some(&current) {
            return Ok(());
        }
        let mut written = current.clone();
        written["updatedAt"] = json!(run.store().now());
        let mut bytes = serde_json::to_vec_pretty(&written).map_err(|error| error.to_string())?;
        bytes.push(b'\n');
        let [first, second] = layout::OUR_STATE;
        let dir = run
            .env()
            .project
            .child_or_create(first)
            .and_then(|dir| dir.child_or_create(second))
            .map_err(|error| error.to_string())?;
        dir.replace(layout::TEAM_STATE, &bytes, Sync::Fast)
            .map_err(|error| error.to_string())?;
        self.team_state = Some(current);
        Ok(())
    }

    fn project_session(
        &mut self,
        run: &RunContext<'_>,
        stage: Stage,
        tasks: &[Task],
    ) -> Result<(), String> {
        if self.party == Some(stage) {
            return Ok(());
        }
        let party = Party::make(run.env().project).map_err(|error| error.to_string())?;
        // A damaged one is nobody's.
        let session = party.session().ok().flatten();
        // A run that was taken up after it had failed is another session: a failed one is final.
        let is_mine = session.is_some_and(|session| {
            session.team == run.team().as_str() && (session.phase != "FAILED" || is_over(stage))
        });
        if !is_mine {
            begin_session(run, &party, false)?;
        }
        if take_session_to(run, &party, stage, tasks).is_err() {
            // Somebody has put it where no step of ours leads on. It is put aside, not followed.
            begin_session(run, &party, true)?;
            take_session_to(run, &party, stage, tasks)?;
        }
        self.party = Some(stage);
        Ok(())
    }

    fn project_agents(
        &mut self,
        run: &RunContext<'_>,
        stage: Stage,
        tasks: &[Task],
    ) -> Result<(), String> {
        let beats = run.beats().map_err(|error| error.to_string())?;
        let now = agents(stage, tasks, &beats);
        let before = self.agents.clone();
        if before.as_ref() == Some(&now) {
            return Ok(());
        }
        let ops = agent_ops(run.team(), run.spec(), before.as_ref(), &now);
        let change = StateChange::new(format!("run-{}", run.team()), run.store().now(), ops);
        States::of(run.env().layout)
            .apply_or_leave(change, PATIENCE)
            .map_err(|error| error.to_string())?;
        self.agents = Some(now);
        Ok(())
    }
}

/// Returns whether the state files tell of this run, and not of one that came after it.
pub(super) fn is_projected(run: &RunContext<'_>) -> bool {
    let [first, second] = layout::OUR_STATE;
    let dir = run.env().project.child(first).ok().flatten();
    let dir = dir.and_then(|dir| dir.child(second).ok().flatten());
    let read = dir.and_then(|dir| dir.read(layout::TEAM_STATE).ok().flatten());
    let state = read.and_then(|(bytes, _)| serde_json::from_slice::<Value>(&bytes).ok());
    state.is_some_and(|state| state["team"] == run.team().as_str())
}

fn begin_session(run: &RunContext<'_>, party: &Party, force: bool) -> Result<(), String> {
    let members = run.spec().members.iter().map(|member| {
        json!({
            "name": member.name,
            "agent": member.provider,
            "role": member.role.as_deref().unwrap_or("worker"),
        })
    });
    let new = NewSession {
        team: run.team().clone(),
        task: run.spec().task.clone(),
        members: members.collect(),
    };
    let begun = party.begin(&new, run.store().now(), force);
    begun.map(|_| ()).map_err(|error| error.to_string())
}

fn take_session_to(
    run: &RunContext<'_>,
    party: &Party,
    stage: Stage,
    tasks: &[Task],
) -> Result<(), String> {
    if stage == Stage::End(Outcome::Failed) {
        let reason = reason(run.state());
        let failed = party.fail(&reason, run.store().now());
        return failed.map_err(|error| error.to_string());
    }
    let states = stage.party();
    let session = party.must_session().map_err(|error| error.to_string())?;
    if is_over(stage) && states.last() == Some(&session.phase.as_str()) {
        return Ok(());
    }
    for state in states {
        step_to(run, party, state, tasks)?;
    }
    Ok(())
}

/// Returns why the run is where it is.
fn reason(state: &RunState) -> String {
    let last = state.stages.last();
    let reason = last.map_or("", |entered| &entered.reason);
    redact(reason).chars().take(500).collect()
}

/// Takes the session to a state on the shortest way that its flow has, with what each phase on it needs.
fn step_to(
    run: &RunContext<'_>,
    party: &Party,
    target: &str,
    tasks: &[Task],
) -> Result<(), String> {
    let say = |error: PartyError| error.to_string();
    let Some(flow) = Flow::builtin("party") else {
        return Err("there is no flow `party`".to_owned());
    };
    let session = party.must_session().map_err(say)?;
    if session.phase == target {
        return Ok(());
    }
    let way = way(&flow, &session.phase, target)
        .ok_or_else(|| format!("no way leads from {} to {target}", session.phase))?;
    let mut at = session.phase;
    for next in way {
        if let Ok(phase) = teamster_party::Phase::of(&at.to_lowercase()) {
            // Each round finds something of its own.
            let text = finding(&at, run.state(), tasks);
            // As it is written down, so that it is known again.
            let text = redact(&text);
            let known = party.finding_texts().map_err(say)?;
            if !known.iter().any(|(_, known)| known.trim() == text.trim()) {
                let now = run.store().now();
                party.add_finding(phase, &text, HOST, now).map_err(say)?;
            }
        }
        let stepped = party
            .transition(&next, &reason(run.state()), run.store().now())
            .map_err(say)?;
        at = stepped.session.phase;
        if at != next {
            return Err(format!("{at} was entered instead of {next}"));
        }
    }
    Ok(())
}

/// Returns the changes of `agent-state.json` that lead from what was last written to what is so now.
fn agent_ops(
    team: &TeamName,
    spec: &RunSpec,
    before: Option<&AgentRows>,
    now: &AgentRows,
) -> Vec<Op> {
    let phase = Phase::parse(now.phase).unwrap_or(Phase::Plan);
    let mut ops = Vec::new();
    if before.is_none() {
        ops.push(Op::Ensure(Begin {
            team: team.to_string(),
            feature: team.to_string(),
            phase: Some(phase),
            pattern: Some(Pattern::Leader),
            cto: None,
        }));
    }
    ops.push(Op::Phase {
        feature: team.to_string(),
        phase,
    });
    let none = BTreeMap::new();
    let known = before.map_or(&none, |before| &before.rows);
    for (name, (status, task, task_id)) in &now.rows {
        let row = || TeammateRow {
            name: name.clone(),
            role: role_of(spec, name),
            // The contract knows three models; what a worker really uses is in our own data.
            model: Model::Sonnet,
            task: task.clone(),
            task_id: task_id.clone(),
        };
        if !known.contains_key(name) {
            ops.push(Op::Add(row()));
        }
        if known.get(name) != now.rows.get(name) {
            ops.push(Op::Status {
                name: name.clone(),
                status: *status,
                task: task.clone(),
                task_id: task_id.clone(),
            });
        }
    }
    for name in known.keys().filter(|name| !now.rows.contains_key(*name)) {
        ops.push(Op::Status {
            name: name.clone(),
            status: Status::Completed,
            task: None,
            task_id: None,
        });
    }
    ops.push(Op::Progress(now.progress));
    if now.over {
        ops.push(Op::CleanUp);
    }
    ops
}

fn role_of(spec: &RunSpec, name: &str) -> String {
    let member = spec
        .members
        .iter()
        .find(|member| member.name.as_str() == name);
    member
        .and_then(|member| member.role.clone())
        .unwrap_or_else(|| "worker".to_owned())
}

fn is_over(stage: Stage) -> bool {
    matches!(stage, Stage::End(_))
}

/// Returns what viewers see of the team.
fn agents(stage: Stage, tasks: &[Task], beats: &[Heartbeat]) -> AgentRows {
    let subjects: HashMap<&str, &str> = tasks
        .iter()
        .map(|task| (task.id().as_str(), task.subject()))
        .collect();
    let mut rows = BTreeMap::new();
    for beat in beats {
        let task = beat.current_task_id.as_ref().map(ToString::to_string);
        let subject = task
            .as_deref()
            .and_then(|id| subjects.get(id))
            .map(|subject| (*subject).to_owned());
        let status = match beat.status {
            WorkerStatus::Executing => Status::Working,
            WorkerStatus::Quarantined => Status::Failed,
            _ => Status::Idle,
        };
        rows.insert(beat.worker_name.to_string(), (status, subject, task));
    }
    AgentRows {
        phase: stage.pdca(),
        rows,
        progress: Progress::of(tasks),
        over: is_over(stage),
    }
}

/// Returns the fewest steps from one state to another, guards aside.
fn way(flow: &Flow, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways: VecDeque<Vec<String>> = VecDeque::from([vec![from.to_owned()]]);
    let mut seen = vec![from.to_owned()];
    while let Some(way) = ways.pop_front() {
        let here = way.last()?.clone();
        for next in flow.next_states(&here) {
            let mut longer = way.clone();
            longer.push(next.to_owned());
            if next == to {
                return Some(longer.split_off(1));
            }
            // What is cancelled or has failed is no way to anywhere else.
            let is_way = !matches!(next, "CANCELLED" | "FAILED" | "DONE" | "ROLLED_BACK");
            if is_way && longer.len() < LONGEST_WAY && !seen.iter().any(|seen| seen == next) {
                seen.push(next.to_owned());
                ways.push_back(longer);
            }
        }
    }
    None
}

fn team_state(run: &RunState, stage: Stage, tasks: &[Task]) -> Value {
    let spec = run.spec.as_ref();
    let history: Vec<Value> = run
        .stages
        .iter()
        .map(|entered| {
            json!({
                "stage": entered.stage.staged(),
                "enteredAt": entered.at,
                "reason": entered.reason,
            })
        })
        .collect();
    let over = is_over(stage);
    let ended = run.stages.last().filter(|_| over).map(|entered| entered.at);
    json!({
        "active": !over,
        "team": "",
        "task": spec.map(|spec| spec.task.as_str()),
        "agents": spec.map(|spec| spec.agents.as_str()),
        "stage": stage.staged(),
        "stageHistory": history,
        "fixLoop": {
            "attempt": run.round,
            "maxAttempts": spec.map_or(3, |spec| spec.max_fix),
        },
        "planPath": spec.and_then(|spec| spec.plan.as_deref()),
        "workers": spec.map_or_else(Vec::new, |spec| {
            spec.members.iter().map(|member| member.name.to_string()).collect::<Vec<_>>()
        }),
        "progress": Progress::of(tasks),
        "awaitingApproval": stage == Stage::Approval,
        "outcome": run.finished.as_ref().map(|finished| finished.end.word()),
        "startedAt": run.begun,
        "completedAt": ended.filter(|_| stage != Stage::End(Outcome::Cancelled)),
    })
}

/// Returns what a phase found, as the engine writes it.
fn finding(phase: &str, state: &RunState, tasks: &[Task]) -> String {
    let spec = state.spec.as_ref();
    let mut text = match phase {
        "ANALYZING" => format!(
            "# What is asked for\n\n{}\n",
            spec.map_or("", |spec| spec.task.as_str())
        ),
        "PLANNING" => "# The plan\n\n".to_owned(),
        "EXECUTING" => "# What was done\n\n".to_owned(),
        _ => "# What the checks say\n\n".to_owned(),
    };
    match phase {
        "PLANNING" | "EXECUTING" => {
            for task in tasks {
                let state = if task.is_failed() {
                    "failed"
                } else {
                    task.status().as_str()
                };
                let _ = writeln!(text, "- {} ({state}): {}", task.id(), task.subject());
            }
            if tasks.is_empty() {
                text += "No task yet.\n";
            }
        }
        "REVIEWING" => {
            for checked in &state.checks {
                let _ = writeln!(text, "- {}: {}", checked.command, checked.verdict.words());
            }
            if state.checks.is_empty() {
                text += "Nothing was verified.\n";
            }
            text += &review_finding(state);
        }
        _ => {}
    }
    text
}

/// Returns what the reviewer of the merged work found, with everything that was said about it.
fn review_finding(state: &RunState) -> String {
    let head = state.head.as_deref().unwrap_or_default();
    let Some(review) = state.review_of(head).and_then(ReviewState::finished) else {
        return String::new();
    };
    let mut text = format!(
        "\n# What the reviewer says\n\n{} {}.\n",
        review.reviewer,
        review.verdict.words()
    );
    for finding in &review.findings {
        let place = match finding.place().as_str() {
            "" => String::new(),
            place => format!(" {place}"),
        };
        let (severity, claim) = (finding.severity.as_str(), &finding.claim);
        let _ = write!(text, "\n- {severity}{place}: {}\n", one_line(claim));
        for (heading, said) in [
            ("shown by", &finding.evidence),
            ("to do", &finding.suggestion),
        ] {
            if !said.trim().is_empty() {
                let _ = writeln!(text, "  - {heading}: {}", one_line(said));
            }
        }
    }
    if review.dropped > 0 {
        let _ = writeln!(text, "\nFindings that were dropped: {}", review.dropped);
    }
    text
}

/// Returns a text of others on one line, so that it can be taken for nothing but what was said.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

//! Writes the three state files that other programs read: `team-state.json`, `session.json`, `agent-state.json`.
//!
//! They are made from the present state, so the next host repairs files that a killed one has left outdated. An error
//! of writing a file is reported once and does not stop the run.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teamster_claude::state::{
    Begin, Model, Op, Pattern, Phase, StateChange, StateFiles, Status, TeammateRow,
};
use teamster_fs::{Durability, layout};
use teamster_journal::RunState;
use teamster_journal::payload::RunSpec;
use teamster_types::TeamName;
use teamster_types::flow::{FlowKind, Outcome, Stage};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::progress::Progress;
use teamster_types::redact::redact_json;
use teamster_types::task::Task;

use super::context::RunContext;
use super::session::SessionProjection;

/// How long to wait for other writers of `agent-state.json`.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// How often `agent-state.json` is written even if nothing has changed: viewers judge by its age whether the run is
/// alive, and expect an update at least once a minute.
const REFRESH: Duration = Duration::from_secs(20);

/// Keeps the state files up to date. It remembers the last written content, so that nothing is written twice.
#[derive(Debug, Default)]
pub(super) struct Projector {
    team_state: Option<Value>,
    session: SessionProjection,
    agents: Option<AgentRows>,
    /// When `agent-state.json` was last written.
    refreshed: Option<Instant>,
    reported: Vec<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct AgentRows {
    phase: String,
    rows: BTreeMap<String, (Status, Option<String>, Option<String>)>,
    progress: Progress,
    over: bool,
}

impl Projector {
    /// Writes those of the three files whose content has changed.
    pub(super) fn project(&mut self, run: &mut RunContext<'_>) {
        // They describe workers and a person's session, which merging finished tasks does not change.
        if run.spec().collects {
            return;
        }
        let (Some(stage), Ok(tasks)) = (run.state().stage, run.tasks()) else {
            return;
        };
        let done = self.project_team_state(run, stage, &tasks);
        self.report_once(run, "team-state.json", done);
        let done = self.session.project(run, stage, &tasks);
        self.report_once(run, "session.json", done.map_err(|error| error.to_string()));
        let done = self.project_agents(run, stage, &tasks);
        self.report_once(run, "agent-state.json", done);
    }

    /// Returns the projection of the session.
    pub(super) fn session(&mut self) -> &mut SessionProjection {
        &mut self.session
    }

    fn report_once(
        &mut self,
        run: &mut RunContext<'_>,
        file: &'static str,
        done: Result<(), String>,
    ) {
        if let Err(why) = done
            && !self.reported.contains(&file)
        {
            self.reported.push(file);
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
        dir.replace(layout::TEAM_STATE, &bytes, Durability::Fast)
            .map_err(|error| error.to_string())?;
        self.team_state = Some(current);
        Ok(())
    }

    fn project_agents(
        &mut self,
        run: &mut RunContext<'_>,
        stage: Stage,
        tasks: &[Task],
    ) -> Result<(), String> {
        let beats = run.heartbeats().map_err(|error| error.to_string())?;
        let now = agents(pdca_phase(run.state(), stage), stage, tasks, &beats);
        let before = self.agents.clone();
        let at = run.now();
        let is_recent = |written: Instant| at.saturating_duration_since(written) < REFRESH;
        let is_due = !now.over && !self.refreshed.is_some_and(is_recent);
        let letters = run.take_messages();
        if before.as_ref() == Some(&now) && letters.is_empty() && !is_due {
            return Ok(());
        }
        let mut ops = agent_ops(run.team(), run.spec(), before.as_ref(), &now);
        // Messages must be added before the session ends.
        let rest = ops.iter().position(|op| matches!(op, Op::CleanUp));
        let rest = ops.split_off(rest.unwrap_or(ops.len()));
        ops.extend(letters);
        ops.push(Op::Touch);
        ops.extend(rest);
        let change = StateChange::new(format!("run-{}", run.team()), run.store().now(), ops);
        StateFiles::of(run.env().layout)
            .apply_or_leave(change, LOCK_TIMEOUT)
            .map_err(|error| error.to_string())?;
        self.agents = Some(now);
        self.refreshed = Some(at);
        Ok(())
    }
}

/// Returns whether the state files describe this run, and not a later one.
pub(super) fn is_projected(run: &RunContext<'_>) -> bool {
    let [first, second] = layout::OUR_STATE;
    let dir = run.env().project.child(first).ok().flatten();
    let dir = dir.and_then(|dir| dir.child(second).ok().flatten());
    let read = dir.and_then(|dir| dir.read(layout::TEAM_STATE).ok().flatten());
    let state = read.and_then(|(bytes, _)| serde_json::from_slice::<Value>(&bytes).ok());
    state.is_some_and(|state| state["team"] == run.team().as_str())
}

/// Returns the changes of `agent-state.json` from the last written content to the present one.
fn agent_ops(
    team: &TeamName,
    spec: &RunSpec,
    before: Option<&AgentRows>,
    now: &AgentRows,
) -> Vec<Op> {
    let phase = Phase::parse(&now.phase).unwrap_or(Phase::Plan);
    let mut ops = Vec::new();
    if before.is_none() {
        ops.push(Op::Ensure(Begin {
            team: team.to_string(),
            feature: team.to_string(),
            phase: Some(phase),
            pattern: Some(Pattern::Leader),
            ..Begin::default()
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
            // The format knows three models; the real model of a worker is in our own state.
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

pub(super) fn is_over(stage: Stage) -> bool {
    matches!(stage, Stage::End(_))
}

/// Returns the phase that `agent-state.json` shows. The file has no phase for the end, so `act` is shown instead.
fn pdca_phase(run: &RunState, stage: Stage) -> &str {
    let follows = run.spec.as_ref().map(RunSpec::flow_kind) == Some(FlowKind::Pdca);
    let entered = run.phases.last().filter(|_| follows);
    match entered.map(|entered| entered.phase.as_str()) {
        Some(phase) if Phase::parse(phase).is_some() => phase,
        _ => stage.pdca(),
    }
}

/// Returns the state of the team for viewers.
fn agents(phase: &str, stage: Stage, tasks: &[Task], beats: &[Heartbeat]) -> AgentRows {
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
        phase: phase.to_owned(),
        rows,
        progress: Progress::of(tasks),
        over: is_over(stage),
    }
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

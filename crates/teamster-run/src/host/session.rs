//! Writes the session in `.party`: its phase, the findings of each phase, and a ticket for each task.
//!
//! A run of the flow `party` depends on these files: a phase can be left only with its finding and when its tickets are
//! done, and [`SessionProjection::unmet`] checks that before a stage is entered. For a run of another flow the session
//! is just another view, and has no tickets.

use std::fmt::Write;

use serde_json::json;
use teamster_fs::{OrTrace as _, layout};
use teamster_journal::payload::RunSpec;
use teamster_journal::{HOST, ReviewState, RunState};
use teamster_party::{
    NewSession, Party, PartyError, PartyErrorKind, Phase, TaskTicket, TicketStatus,
};
use teamster_types::TaskId;
use teamster_types::flow::{Flow, FlowFacts, FlowKind, Outcome, Stage, StepError};
use teamster_types::redact::redact;
use teamster_types::task::{Status, Task};
use teamster_types::text::one_line;

use super::context::RunContext;
use super::projector::is_over;
use super::task_progress::{hopeless, waits_for_merge};
use crate::leader::LEADER;

/// The longest reason of a step, in characters.
const LONGEST_REASON: usize = 500;
/// Phases in which new tasks get a ticket. A task from another phase gets its ticket in the next one of these.
const WITH_NEW_TICKETS: [&str; 2] = ["PLANNING", "EXECUTING"];

/// Why the session could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// The folder of sessions refused it.
    #[error(transparent)]
    Party(#[from] PartyError),
    /// The session is in a state from which no step leads to the target.
    #[error("{0}")]
    Lost(String),
}

impl SessionError {
    /// Returns whether the flow refused a step because of an unmet condition.
    fn is_guard(&self) -> bool {
        matches!(self, Self::Party(error) if error.kind == PartyErrorKind::Conflict)
    }
}

type Result<T> = std::result::Result<T, SessionError>;

/// Keeps the session up to date with the run. It remembers the last written content, so that nothing is written twice.
#[derive(Debug, Default)]
pub(super) struct SessionProjection {
    /// The stage, and the number of phases that were entered by then.
    shown: Option<(Stage, usize)>,
    /// The tickets, and whether missing ones were made.
    tickets: Option<(bool, Vec<TaskTicket>)>,
    spawned: Vec<String>,
}

impl SessionProjection {
    /// Moves the session to the phase of the run.
    pub(super) fn project(
        &mut self,
        run: &RunContext<'_>,
        stage: Stage,
        tasks: &[Task],
    ) -> Result<()> {
        let now = (stage, run.state().phases.len());
        if self.shown != Some(now) {
            let party = Party::make_for(run.env().project, run.team())?;
            own_session(run, &party, stage)?;
            match take_session_to(run, &party, stage, tasks) {
                Ok(()) => {}
                // The flow itself refuses the step, and the run follows the flow.
                Err(error) if error.is_guard() && run.spec().flow_kind() == FlowKind::Party => {
                    return Err(error);
                }
                Err(_) => {
                    // Another program has moved the session to a state from which no step leads on. It is replaced, not
                    // followed.
                    begin_session(run, &party, true)?;
                    self.tickets = None;
                    take_session_to(run, &party, stage, tasks)?;
                }
            }
            self.shown = Some(now);
        }
        self.project_tickets(run, tasks)?;
        self.project_progress(run, stage)
    }

    /// Returns what is missing before a phase may be left for another, after everything known about it was written.
    pub(super) fn unmet(
        &mut self,
        run: &RunContext<'_>,
        tasks: &[Task],
        from: &str,
        to: &str,
    ) -> Result<Option<StepError>> {
        let party = Party::make_for(run.env().project, run.team())?;
        own_session(run, &party, run.state().stage.unwrap_or(Stage::Plan))?;
        // Changes of others to the tickets do not count.
        self.tickets = None;
        self.project_tickets(run, tasks)?;
        add_finding(run, &party, from, tasks)?;
        let facts = FlowFacts {
            // The run counts its rounds itself.
            max_attempts: u32::MAX,
            ..party.facts()?
        };
        let Some(flow) = Flow::builtin(FlowKind::Party.name()) else {
            return Ok(None);
        };
        let unmet = flow.step(from, to, &facts).err();
        Ok(unmet.filter(|error| !error.unmet().is_empty()))
    }

    /// Brings the tickets up to date with the tasks.
    fn project_tickets(&mut self, run: &RunContext<'_>, tasks: &[Task]) -> Result<()> {
        if run.spec().flow_kind() != FlowKind::Party || is_run_over(run) {
            return Ok(());
        }
        let hopeless = hopeless(tasks);
        let tickets = tasks
            .iter()
            .map(|task| ticket(task, hopeless.contains(task.id())));
        let phase = run.state().phase().unwrap_or_default();
        let now = (WITH_NEW_TICKETS.contains(&phase), tickets.collect());
        if self.tickets.as_ref() != Some(&now) {
            let (may_create, tickets) = &now;
            let party = Party::make_for(run.env().project, run.team())?;
            party.follow_tasks(tickets, *may_create, run.store().now())?;
            self.tickets = Some(now);
        }
        Ok(())
    }

    /// Records the started workers, and at the end the report and the commit.
    fn project_progress(&mut self, run: &RunContext<'_>, stage: Stage) -> Result<()> {
        let beats = run
            .heartbeats()
            .ok_or_trace("read which workers were started");
        let beats = beats.unwrap_or_default();
        let mut spawned: Vec<String> = beats
            .iter()
            .map(|beat| beat.worker_name.to_string())
            .collect();
        spawned.extend(self.spawned.iter().cloned());
        spawned.sort();
        spawned.dedup();
        if spawned == self.spawned && !is_over(stage) {
            return Ok(());
        }
        let mut artifacts = Vec::new();
        if is_over(stage) {
            let report = layout::report_folders(run.team()).join("/");
            artifacts
                .push(json!({ "kind": "report", "path": format!("{report}/{}", layout::REPORT) }));
            if let Some(head) = &run.state().head {
                artifacts.push(json!({ "kind": "commit", "id": head }));
            }
        }
        let party = Party::make_for(run.env().project, run.team())?;
        party.note_progress(&spawned, &artifacts, run.store().now())?;
        self.spawned = spawned;
        Ok(())
    }
}

fn is_run_over(run: &RunContext<'_>) -> bool {
    run.state().stage.is_some_and(is_over)
}

/// Begins a session, unless the existing one belongs to this run.
fn own_session(run: &RunContext<'_>, party: &Party, stage: Stage) -> Result<()> {
    // A damaged session belongs to no run.
    let session = party.session().ok().flatten();
    // A run that is resumed after a failure gets a new session, because a failed session is final.
    let is_mine = session.is_some_and(|session| {
        session.team == run.team().as_str() && (session.phase != "FAILED" || is_over(stage))
    });
    if is_mine {
        return Ok(());
    }
    begin_session(run, party, false)
}

fn begin_session(run: &RunContext<'_>, party: &Party, force: bool) -> Result<()> {
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
        max_attempts: run.spec().max_fix,
    };
    party.begin(&new, run.store().now(), force)?;
    Ok(())
}

fn take_session_to(
    run: &RunContext<'_>,
    party: &Party,
    stage: Stage,
    tasks: &[Task],
) -> Result<()> {
    if stage == Stage::End(Outcome::Failed) {
        return Ok(party.fail(&reason(run.state()), run.store().now())?);
    }
    let entered = run.state().phases.last();
    let entered = entered.map(|entered| entered.phase.as_str());
    let phases: Vec<&str> = match (run.spec().flow_kind(), entered) {
        (FlowKind::Party, Some(phase)) => vec![phase],
        _ => stage.party().to_vec(),
    };
    let session = party.must_session()?;
    // A phase that an earlier host has entered is not entered again: the only way back leads through all others.
    let entered = phases.iter().position(|phase| *phase == session.phase);
    let next = entered.map_or(0, |at| at + 1);
    for phase in &phases[next..] {
        step_to(run, party, phase, tasks)?;
    }
    Ok(())
}

/// Returns why the run is in its present stage.
fn reason(state: &RunState) -> String {
    let last = state.stages.last();
    let reason = last.map_or("", |entered| &entered.reason);
    redact(reason).chars().take(LONGEST_REASON).collect()
}

/// Moves the session to a state on the shortest path of its flow, and writes the findings that each phase requires.
fn step_to(run: &RunContext<'_>, party: &Party, target: &str, tasks: &[Task]) -> Result<()> {
    let lost = |why: String| SessionError::Lost(why);
    let Some(flow) = Flow::builtin(FlowKind::Party.name()) else {
        return Err(lost("there is no flow `party`".to_owned()));
    };
    let session = party.must_session()?;
    if session.phase == target {
        return Ok(());
    }
    let way = flow.path(&session.phase, target).ok_or_else(|| {
        lost(format!(
            "there is no path from {} to {target}",
            session.phase
        ))
    })?;
    let mut at = session.phase;
    for next in way {
        if at == "PLANNING" && !analysis(run.state()).is_empty() {
            // In a run of another flow, this phase is entered before the leader has looked at anything.
            add_finding(run, party, "ANALYZING", tasks)?;
        }
        add_finding(run, party, &at, tasks)?;
        let stepped = party.transition(&next, &reason(run.state()), run.store().now())?;
        at = stepped.session.phase;
        if at != next {
            return Err(lost(format!("{at} was entered instead of {next}")));
        }
    }
    Ok(())
}

/// Writes the finding of a phase, unless it exists already. Each round has its own.
fn add_finding(run: &RunContext<'_>, party: &Party, state: &str, tasks: &[Task]) -> Result<()> {
    let Ok(phase) = Phase::of(state) else {
        return Ok(());
    };
    let (text, author) = finding(state, run.spec(), run.state(), tasks);
    // The text is compared in its redacted form, in which it is stored.
    let text = redact(&text);
    let known = party.finding_texts()?;
    if !known.iter().any(|(_, known)| known.trim() == text.trim()) {
        party.add_finding(phase, &text, author, run.store().now())?;
    }
    Ok(())
}

/// Returns the ticket of a task. A task that will never be done is blocked; a failed one that another task has replaced
/// is closed.
fn ticket(task: &Task, is_hopeless: bool) -> TaskTicket {
    let status = match task.status() {
        _ if is_hopeless => TicketStatus::Blocked,
        _ if task.is_failed() => TicketStatus::Done,
        Status::Completed if waits_for_merge(task) => TicketStatus::InProgress,
        Status::Completed => TicketStatus::Done,
        Status::InProgress => TicketStatus::InProgress,
        Status::Pending if task.block().is_some() || !task.blocked_by().is_empty() => {
            TicketStatus::Blocked
        }
        Status::Pending => TicketStatus::Todo,
    };
    TaskTicket {
        task: task.id().to_string(),
        title: task.subject().to_owned(),
        description: task.description().to_owned(),
        assignee: task.owner().map(str::to_owned),
        status,
    }
}

/// Returns the key of the leader's note about a phase: a separate one for each time that the phase was entered.
pub(super) fn phase_key(state: &RunState, phase: &str) -> String {
    let times = state.phases.iter().filter(|entered| entered.phase == phase);
    format!("{}@{}", phase.to_lowercase(), times.count())
}

/// Returns the finding of a phase, and its author.
fn finding(
    phase: &str,
    spec: &RunSpec,
    state: &RunState,
    tasks: &[Task],
) -> (String, &'static str) {
    let mut text = match phase {
        "ANALYZING" => format!("# What is asked for\n\n{}\n", spec.task),
        "PLANNING" => "# The plan\n\n".to_owned(),
        "EXECUTING" => "# What was done\n\n".to_owned(),
        _ => "# What the checks say\n\n".to_owned(),
    };
    let mut author = HOST.as_str();
    match phase {
        "ANALYZING" => {
            let analysis = analysis(state);
            if !analysis.is_empty() {
                author = LEADER;
                text += &analysis;
            }
        }
        "PLANNING" => text += &planned(tasks),
        "EXECUTING" => {
            text += &done(tasks);
            let notes = state.leader.phase_notes.get(&phase_key(state, phase));
            if let Some(notes) = notes.filter(|notes| !notes.is_empty()) {
                author = LEADER;
                text += "\n# What the leader says\n\n";
                for note in notes {
                    let _ = writeln!(text, "- {}", one_line(note));
                }
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
    (text, author)
}

/// Returns the leader's analysis, with its assumptions and the risks; empty when there is none.
fn analysis(state: &RunState) -> String {
    let Some(plan) = state.planning.last().map(|last| &last.proposed.plan) else {
        return String::new();
    };
    let mut text = String::new();
    if !plan.analysis.trim().is_empty() {
        let _ = write!(
            text,
            "\n# What the leader found\n\n{}\n",
            plan.analysis.trim()
        );
    }
    for (heading, lines) in [
        ("What it takes for granted", &plan.assumptions),
        ("What could go wrong", &plan.risks),
        ("What it asks", &plan.questions),
    ] {
        if !lines.is_empty() {
            let _ = write!(text, "\n# {heading}\n\n");
        }
        for line in lines {
            let _ = writeln!(text, "- {}", one_line(line));
        }
    }
    text
}

/// Returns the tasks with their owners, dependencies and acceptance criteria.
fn planned(tasks: &[Task]) -> String {
    let mut text = String::new();
    for task in tasks {
        let _ = write!(text, "- {}: {}", task.id(), one_line(task.subject()));
        let after: Vec<&str> = task.blocked_by().iter().map(TaskId::as_str).collect();
        if !after.is_empty() {
            let _ = write!(text, " (after {})", after.join(", "));
        }
        text.push('\n');
        for criterion in task.accept() {
            let _ = writeln!(text, "  - done when: {}", one_line(&criterion));
        }
    }
    if tasks.is_empty() {
        text += "No task yet.\n";
    }
    text
}

/// Returns the result of each task, in its worker's words.
fn done(tasks: &[Task]) -> String {
    let mut text = String::new();
    for task in tasks {
        let state = if task.is_failed() {
            "failed"
        } else {
            task.status().as_str()
        };
        let _ = writeln!(
            text,
            "- {} ({state}): {}",
            task.id(),
            one_line(task.subject())
        );
        let result = task.result().unwrap_or_default();
        let summary = result.summary.iter().map(|said| ("summary", said));
        let handover = result.handover.iter().map(|said| ("handed over", said));
        let problems = result.problems.iter().map(|said| ("open", said));
        for (heading, said) in summary.chain(handover).chain(problems) {
            if !said.trim().is_empty() {
                let _ = writeln!(text, "  - {heading}: {}", one_line(said));
            }
        }
    }
    if tasks.is_empty() {
        text += "No task yet.\n";
    }
    text
}

/// Returns the findings of the reviewer of the merged work, with all details.
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

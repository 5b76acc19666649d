//! The gate: a person decides about one commit, once, and the decision is carried out.

use std::time::Instant;

use serde_json::json;
use teamster_journal::payload::{
    Approve, GateAnswer, GateDecided, GateOpened, GateShown, MergeAdopted, RunEnd, RunSpec,
};
use teamster_journal::{EventActor, EventKind, Gate, GateDecision, NewEvent, RunState};
use teamster_party::{ApprovalDecision, NewApproval, Party, PartySession};
use teamster_store::{OutgoingMessage, Recipient};
use teamster_types::flow::{DecisionChannel, MAX_REVISIONS, Stage};
use teamster_types::json::Object;
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Task, TaskNotes};
use teamster_types::text::clip;

use super::auto_approval::{self, open_problem, unanswered_request};
use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::landing::{LandingOutcome, land};
use super::task_progress::{not_merged_words, open, to_merge};
use super::waker::wake_for_revision;
use super::{GateExit, HostCommand, HostExit, POLL_INTERVAL, Result, render};
use crate::verify::compare_with_base;

/// Asks a person about the merged work, and carries out the decision.
#[derive(Debug, Default)]
pub(super) struct ApprovalGate {
    /// The gate that was shown to the observer.
    shown: Option<String>,
    /// When the repository was last checked while the gate was open.
    looked: Option<Instant>,
    /// Whether an approved commit could not land because the user's branch had moved.
    has_not_landed: bool,
}

/// The next step at an open gate.
#[derive(Debug, PartialEq)]
enum GateStep {
    /// There is a decision about this gate.
    Decide(GateDecision),
    /// The host waits for a decision.
    Wait,
    /// The host does not wait: it leaves the gate open, for a reason that is also given in words.
    Leave(GateExit, String),
}

impl ApprovalGate {
    /// Notes that a stage was entered: the gate has to be shown again.
    pub(super) fn note_stage_entered(&mut self) {
        self.shown = None;
    }

    /// Opens the gate for the merged work, and returns the commands that follow from a decision about it.
    pub(super) fn step(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &mut IntegrationGuard,
    ) -> Result<Vec<HostCommand>> {
        if self.shown.is_none() {
            // The gate opens only after all workers stopped: they could change the work, or decide themselves.
            run.stop_workers("the gate opens")?;
        }
        // A decision is carried out, however far a killed host got with it.
        if let Some(decision) = run.state().decision.clone() {
            return self.carry_out(run, guard, &decision);
        }
        let mut answered = None;
        let now = run.now();
        let is_fresh = |at: Instant| now.saturating_duration_since(at) < POLL_INTERVAL;
        if let (Some(shown), Some(gate)) = (&self.shown, run.state().gate.clone())
            && *shown == gate.id
            && run.waits_for_answer()
            && self.looked.is_some_and(is_fresh)
        {
            // The answer is polled often, the repository only once a second.
            answered = take_decision(run, &gate);
            if answered.is_none() {
                return Ok(vec![HostCommand::Wait]);
            }
        }
        self.looked = Some(now);
        let is_open = if run.spec().collects {
            // The decision applies to the work that was shown, whatever workers have finished since.
            if let Some(gate) = run.state().gate.clone() {
                answered = answered.or_else(|| take_decision(run, &gate));
            }
            answered.is_none() && !to_merge(&run.tasks()?).is_empty()
        } else {
            !open(&run.tasks()?).is_empty()
        };
        if is_open {
            let reason = PhraseCode::TasksToDoAgain;
            return Ok(vec![HostCommand::enter(Stage::Execute, reason)]);
        }
        adopt_added_commits(run, guard)?;
        let commit = match guard.head_at_gate(run, self.shown.is_some())? {
            Some(head) => head.to_string(),
            None => String::new(),
        };
        let base = run.spec().base.as_ref().map(|base| base.commit.as_str());
        if guard.is_active() && Some(commit.as_str()) == base {
            let end = end_unchanged(run.spec(), run.state());
            let is_good = matches!(end, HostCommand::Complete(_));
            let is_settled =
                open_problem(run)?.is_none() && unanswered_request(run.state()).is_none();
            if !is_good || is_settled {
                return Ok(vec![end]);
            }
        }
        if !run.spec().verify.is_empty() && run.state().checked.as_deref() != Some(commit.as_str())
        {
            // The merged work was changed after it was verified.
            let reason = PhraseCode::MergedWorkNotVerified;
            return Ok(vec![HostCommand::enter(Stage::Verify, reason)]);
        }
        let opened = run.state().gate.clone();
        let gate = if let Some(gate) = opened.filter(|gate| gate.commit == commit) {
            gate
        } else {
            if let Some(back) = guard.merge_missing(run, &commit)? {
                return Ok(vec![back]);
            }
            open_gate(run, &commit, None)?
        };
        let not_auto = match run.spec().approve {
            Approve::Auto => auto_approval::objection(run, &gate)?,
            Approve::Ask | Approve::Never => None,
        };
        let is_asked = run.spec().approve != Approve::Auto || not_auto.is_some();
        if is_asked && self.shown.as_ref() != Some(&gate.id) {
            self.shown = Some(gate.id.clone());
            let text = render::gate_page(run, &gate)?;
            run.observer().open_gate(&text);
        }
        let answered = answered.or_else(|| take_decision(run, &gate));
        let (approve, waits) = (run.spec().approve, run.waits_for_answer());
        let step = next_step(
            &gate,
            answered,
            approve,
            not_auto,
            waits,
            self.has_not_landed,
        );
        Ok(match step {
            GateStep::Decide(decision) => {
                record_decision(run, &decision)?;
                Vec::new()
            }
            GateStep::Wait => vec![HostCommand::Wait],
            GateStep::Leave(GateExit::Waiting, why) => {
                let lost = run.spec().collects.then(|| run.tasks()).transpose()?;
                let lost = lost.and_then(|tasks| not_merged_words(&tasks));
                let (exit, why) = match lost {
                    Some(lost) => (GateExit::TasksFailed, lost.to_string()),
                    None => (GateExit::Waiting, why),
                };
                vec![leave(&gate.commit, exit, why)]
            }
            GateStep::Leave(exit, why) => vec![leave(&gate.commit, exit, why)],
        })
    }

    fn carry_out(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &mut IntegrationGuard,
        decision: &GateDecision,
    ) -> Result<Vec<HostCommand>> {
        let commit = &decision.commit;
        match &decision.answer {
            GateAnswer::Approve => Ok(match land(run, guard, commit)? {
                LandingOutcome::Done(words) => vec![HostCommand::Complete(words)],
                LandingOutcome::Retry => Vec::new(),
                LandingOutcome::Back(command) => vec![command],
                LandingOutcome::Behind(commands) => {
                    self.has_not_landed = true;
                    commands
                }
                LandingOutcome::Refused(why) => {
                    // The gate is opened again for another decision.
                    open_gate(run, commit, Some(&why))?;
                    vec![leave(commit, GateExit::NotLanded, why.to_string())]
                }
            }),
            GateAnswer::Reject { rollback, text } => {
                let why = match text.as_str() {
                    "" => PhraseCode::PersonRejected.into(),
                    text => Phrase::verbatim(text),
                };
                if !rollback {
                    return Ok(vec![HostCommand::finish(RunEnd::Rejected, why)]);
                }
                guard.roll_back(run)?;
                Ok(vec![HostCommand::finish(RunEnd::RolledBack, why)])
            }
            GateAnswer::Revise { text } => {
                let may_revise = run.state().revisions < MAX_REVISIONS;
                if may_revise && wake_for_revision(run, guard, &decision.gate, text)? {
                    return Ok(Vec::new());
                }
                if may_revise && !open(&run.tasks()?).is_empty() {
                    // The leader has created tasks for the changes.
                    let wanted = Phrase::verbatim(text);
                    return Ok(vec![HostCommand::enter(Stage::Revise, wanted)]);
                }
                let (state, task) = (run.state(), &run.spec().task);
                Ok(revise(state, &run.tasks()?, &decision.gate, text, task))
            }
        }
    }
}

/// Returns the next step at an open gate: from a decision, or from the approval mode of the run without one. `not_auto`
/// is why the work cannot be approved automatically.
fn next_step(
    gate: &Gate,
    answered: Option<GateDecision>,
    approve: Approve,
    not_auto: Option<(GateExit, String)>,
    waits_for_answer: bool,
    has_not_landed: bool,
) -> GateStep {
    if let Some(decision) = answered {
        if decision.gate == gate.id {
            return GateStep::Decide(decision);
        }
        let why = "what would land now is not what the decision was about: look at it again";
        return GateStep::Leave(GateExit::NotLanded, why.to_owned());
    }
    match (approve, not_auto) {
        (Approve::Auto, None) => {
            GateStep::Decide(answer(gate, GateAnswer::Approve, DecisionChannel::Flag))
        }
        (Approve::Auto, Some((exit, why))) => GateStep::Leave(exit, why),
        (Approve::Ask, _) if waits_for_answer => GateStep::Wait,
        _ if has_not_landed => {
            let why = "it has not landed, and needs another decision";
            GateStep::Leave(GateExit::NotLanded, why.to_owned())
        }
        _ => GateStep::Leave(GateExit::Waiting, "waiting for your decision".to_owned()),
    }
}

fn leave(commit: &str, exit: GateExit, why: String) -> HostCommand {
    HostCommand::Leave(HostExit::AtGate {
        commit: commit.to_owned(),
        exit,
        why,
    })
}

/// Adopts commits that were added to the work while the gate is open. No worker runs then, so a person made them: they
/// become part of the work, which is verified and shown again.
fn adopt_added_commits(run: &mut RunContext<'_>, guard: &IntegrationGuard) -> Result<()> {
    // Workers without a run may be running, and a commit of theirs is not a person's decision.
    if run.spec().collects {
        return Ok(());
    }
    let known = run.state().head.as_ref().and_then(|head| head.parse().ok());
    let (Some(integration), Some(repo), Some(known), true) = (
        guard.integration(),
        run.repo(),
        known,
        run.state().gate.is_some(),
    ) else {
        return Ok(());
    };
    let head = integration.head()?;
    if head == known || !repo.is_ancestor(&known, &head)? {
        return Ok(());
    }
    let files = repo.changed_files(&known, &head)?;
    let adopted = MergeAdopted {
        commit: head.to_string(),
        merge: Some(head.to_string()),
        files,
    };
    run.record(NewEvent::new(
        EventActor::Person,
        EventKind::MergeAdopted(adopted),
    ))
}

/// Returns the end of a run that changed nothing: there is nothing to approve, but the targets among the checks must
/// pass.
fn end_unchanged(spec: &RunSpec, state: &RunState) -> HostCommand {
    let report = compare_with_base(&spec.verify, &state.base, &state.checks);
    if spec.verify.is_empty() || report.all_passed() {
        return HostCommand::Complete(PhraseCode::NothingChanged.into());
    }
    let why = PhraseCode::NothingChangedAndFails;
    HostCommand::finish(RunEnd::Unverified, why)
}

/// Opens the gate for a commit; once more, if the commit could not land.
fn open_gate(run: &mut RunContext<'_>, commit: &str, refused: Option<&Wording>) -> Result<Gate> {
    let report = compare_with_base(&run.spec().verify, &run.state().base, &run.state().checks);
    let verified = run.state().checked.as_deref() == Some(commit) && report.all_passed();
    let words = match (verified, run.spec().verify.is_empty()) {
        (true, _) => PhraseCode::GateVerified,
        (false, true) => PhraseCode::GateNothingVerified,
        (false, false) => PhraseCode::GateNotVerified,
    };
    let (words, words_codes) = Wording::from(words).into_parts();
    let id = teamster_fs::random_hex();
    // The content of the gate is journalled first, so that no client sees the question without it.
    let shown = GateShown {
        gate: id.clone(),
        shown: render::gate_content(run, commit)?,
    };
    run.journal(EventKind::ApprovalShown(shown))?;
    let base = run.spec().base.clone();
    run.journal(EventKind::ApprovalRequested(GateOpened {
        gate: id.clone(),
        commit: commit.to_owned(),
        base,
        verified,
        words,
        words_codes,
        refused: refused.map(Wording::to_string),
        refused_codes: refused.map(Wording::codes).cloned().unwrap_or_default(),
    }))?;
    Ok(Gate {
        id,
        commit: commit.to_owned(),
        verified,
    })
}

/// Returns the decision of the observer, or of a command that was run elsewhere. A command's decision about a different
/// commit or an earlier gate is dropped.
fn take_decision(run: &mut RunContext<'_>, gate: &Gate) -> Option<GateDecision> {
    if let Some(reply) = run.observer().answer() {
        let mut answered = answer(gate, reply.answer, reply.via);
        if let Some(of) = reply.gate {
            answered.gate = of;
        }
        return Some(answered);
    }
    let fits = |given: &GateDecision| given.gate == gate.id && given.commit == gate.commit;
    run.take_answers().into_iter().find(fits)
}

/// Journals a decision, and notifies other programs and the leader.
fn record_decision(run: &mut RunContext<'_>, answered: &GateDecision) -> Result<()> {
    let GateDecision {
        gate,
        commit,
        answer,
        via,
    } = answered;
    let (by, by_codes) = Wording::from(decider(*via)).into_parts();
    let decided = GateDecided {
        by_codes,
        ..GateDecided::new(gate, commit, *via, Some(&by), answer)
    };
    let (what, decision, text) = match answer {
        GateAnswer::Approve => (
            EventKind::ApprovalGiven(decided),
            ApprovalDecision::Approved,
            "",
        ),
        GateAnswer::Reject { text, .. } => (
            EventKind::ApprovalRefused(decided),
            ApprovalDecision::Rejected,
            text.as_str(),
        ),
        GateAnswer::Revise { text } => (
            EventKind::ApprovalRevised(decided),
            ApprovalDecision::Revision,
            text.as_str(),
        ),
    };
    run.record(NewEvent::new(EventActor::Person, what))?;
    publish_decision(run, decision, text, answered);
    Ok(())
}

/// Writes the record beside the session, and a message to the leader. Nothing reads them back, so nothing depends on
/// them.
fn publish_decision(
    run: &mut RunContext<'_>,
    decision: ApprovalDecision,
    text: &str,
    answered: &GateDecision,
) {
    let now = run.store().now();
    let base = run.spec().base.as_ref().map(|base| base.commit.clone());
    let follows = run.spec().collects;
    let team = run.team().clone();
    let recorded = Party::make_for(run.env().project, run.team()).and_then(|party| {
        let session = party.session()?;
        // A session that people lead by hand may wait for the same decision.
        let is_waiting = |session: &PartySession| {
            follows && session.team == team.as_str() && session.is_awaiting_approval()
        };
        if session.as_ref().is_some_and(is_waiting) {
            party.transition(decision.phase(), text, now)?;
        }
        let session = session.map(|session| session.id);
        party.record_approval(
            &NewApproval {
                decision,
                commit: answered.commit.clone(),
                base: base.unwrap_or_default(),
                session_id: session.unwrap_or_default(),
                via: answered.via,
                reason: text.to_owned(),
            },
            now,
        )
    });
    if let Err(error) = recorded {
        run.say(&format!("the decision has no record: {error}"));
    }
    let word = match decision {
        ApprovalDecision::Approved => "approved",
        ApprovalDecision::Rejected => "rejected",
        ApprovalDecision::Revision => "to be revised",
    };
    let mut extra = Object::new();
    extra.insert("commit".into(), json!(answered.commit));
    let sent = run.store().send(
        run.team(),
        &OutgoingMessage {
            from: "user".to_owned(),
            to: Recipient::Lead,
            kind: "approval".to_owned(),
            content: format!("{word}: {text}").trim_end_matches(": ").to_owned(),
            extra,
        },
    );
    if let Err(error) = sent {
        run.say(&format!("the leader was not told: {error}"));
    }
}

/// Returns the commands when a person wants the work changed: a task for it, or the end of a run with too many
/// revisions.
fn revise(
    state: &RunState,
    tasks: &[Task],
    gate: &str,
    text: &str,
    task: &str,
) -> Vec<HostCommand> {
    if state.revisions >= MAX_REVISIONS {
        let why = Phrase::new(PhraseCode::TooManyRevisions, [("count", &MAX_REVISIONS)]);
        return vec![HostCommand::finish(RunEnd::Unverified, why)];
    }
    let mut commands = Vec::new();
    let is_made = |task: &Task| task.revision() == Some(gate);
    if !tasks.iter().any(is_made) {
        commands.push(HostCommand::add_task(revision_task(gate, text, task)));
    }
    commands.push(HostCommand::enter(Stage::Revise, Phrase::verbatim(text)));
    commands
}

/// Returns who decided, for people.
fn decider(via: DecisionChannel) -> PhraseCode {
    match via {
        DecisionChannel::Flag => PhraseCode::ByChecks,
        DecisionChannel::Studio => PhraseCode::ByPersonInStudio,
        DecisionChannel::Terminal => PhraseCode::ByPersonAtTerminal,
    }
}

fn answer(gate: &Gate, answer: GateAnswer, via: DecisionChannel) -> GateDecision {
    GateDecision {
        gate: gate.id.clone(),
        commit: gate.commit.clone(),
        answer,
        via,
    }
}

/// Returns the task to revise the work as the person asked.
fn revision_task(gate: &str, text: &str, task: &str) -> NewTask {
    let first = text.trim().lines().next().unwrap_or_default();
    NewTask {
        subject: clip(&format!("Revise: {first}"), SUBJECT_LIMIT - 1),
        description: format!(
            "A person has looked at the team's merged work and wants this changed before it is taken:\n\n{}\n\nThe work \
             was: {}",
            clip(text, 6_000),
            clip(task, 2_000)
        ),
        notes: TaskNotes {
            revision: Some(gate.to_owned()),
            ..TaskNotes::default()
        },
        ..NewTask::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate {
            id: "g2".to_owned(),
            commit: "c0ffee".to_owned(),
            verified: true,
        }
    }

    #[test]
    fn open_gate_is_decided_waited_for_or_left() {
        let gate = gate();
        let approved = answer(&gate, GateAnswer::Approve, DecisionChannel::Terminal);
        let about_another = GateDecision {
            gate: "g1".to_owned(),
            ..approved.clone()
        };
        let unverified = (GateExit::Unverified, "why".to_owned());
        let by_flag = answer(&gate, GateAnswer::Approve, DecisionChannel::Flag);
        let is_left = |step: &GateStep, exit: GateExit| matches!(step, GateStep::Leave(why, _) if *why == exit);
        let step = |answered, approve, not_auto, waits, not_landed| {
            next_step(&gate, answered, approve, not_auto, waits, not_landed)
        };
        let some = Some(approved.clone());
        assert_eq!(
            step(some, Approve::Never, None, false, false),
            GateStep::Decide(approved)
        );
        let next = step(Some(about_another), Approve::Auto, None, true, false);
        assert!(is_left(&next, GateExit::NotLanded));
        assert_eq!(
            step(None, Approve::Auto, None, true, true),
            GateStep::Decide(by_flag)
        );
        let not_auto = Some(unverified);
        let next = step(None, Approve::Auto, not_auto, true, false);
        assert!(is_left(&next, GateExit::Unverified));
        for (approve, waits, not_landed, exit) in [
            (Approve::Ask, true, true, None),
            (Approve::Ask, true, false, None),
            (Approve::Ask, false, true, Some(GateExit::NotLanded)),
            (Approve::Ask, false, false, Some(GateExit::Waiting)),
            (Approve::Never, true, true, Some(GateExit::NotLanded)),
            (Approve::Never, true, false, Some(GateExit::Waiting)),
        ] {
            let next = step(None, approve, None, waits, not_landed);
            match exit {
                None => assert_eq!(next, GateStep::Wait),
                Some(exit) => assert!(is_left(&next, exit), "{approve:?}: {next:?}"),
            }
        }
    }

    #[test]
    fn revision_is_one_task_and_has_a_limit() {
        let mut state = RunState::default();
        let commands = revise(&state, &[], "g2", "make it blue", "a shop");
        assert!(matches!(
            commands.as_slice(),
            [
                HostCommand::AddTask(_),
                HostCommand::Enter {
                    stage: Stage::Revise,
                    ..
                }
            ]
        ));
        state.revisions = MAX_REVISIONS;
        let commands = revise(&state, &[], "g2", "make it blue", "a shop");
        assert!(matches!(
            commands.as_slice(),
            [HostCommand::Finish {
                end: RunEnd::Unverified,
                ..
            }]
        ));
    }
}

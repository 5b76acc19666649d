//! The gate: a person decides about one commit, once, and what they decided is carried out.

use std::time::Instant;

use serde_json::json;
use teamster_isolate::git::Integration;
use teamster_journal::payload::{
    Approve, GateAnswer, GateDecided, GateOpened, GateShown, MergeAdopted, RunEnd,
};
use teamster_journal::{EventKind, Gate, GateDecision, NewEvent};
use teamster_party::{Decision, NewApproval, Party, Via};
use teamster_store::{Outgoing, Recipient};
use teamster_types::flow::{MAX_REVISIONS, Stage};
use teamster_types::json::Object;
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Task};

use super::merging::short;
use super::task_progress::{hopeless, needs_review, open};
use super::{Host, HostExit, LOOK_AGAIN, Next, Result};
use crate::exit;
use crate::verify::compare_with_base;

impl Host<'_> {
    pub(super) fn gate(&mut self) -> Result<Next> {
        if self.gate_shown.is_none() {
            // Before anybody is asked: who still runs could change what is asked about, or answer.
            self.run.stop_workers("the gate opens")?;
        }
        // A decision that was made is carried out, whatever a killed host has left of what it was about.
        if let Some(decision) = self.run.state().decision.clone() {
            return self.carry_out(&decision);
        }
        let mut answered = None;
        if let (Some(shown), Some(gate)) = (self.gate_shown.clone(), self.run.state().gate.clone())
            && shown == gate.id
            && self.run.waits_for_answer()
            && self.gate_looked.is_some_and(|at| at.elapsed() < LOOK_AGAIN)
        {
            // Somebody may answer at any moment; what they are asked about is looked at once a second.
            answered = self.heard(&gate);
            if answered.is_none() {
                return Ok(Next::Wait);
            }
        }
        self.gate_looked = Some(Instant::now());
        if !open(&self.run.tasks()?).is_empty() {
            self.gate_shown = None;
            self.enter(Stage::Execute, "there are tasks to do again")?;
            return Ok(Next::GoOn);
        }
        self.adopt_a_persons_work()?;
        let commit = match self.own_head_at_gate()? {
            Some(head) => head.to_string(),
            None => String::new(),
        };
        let base = self
            .run
            .spec()
            .base
            .as_ref()
            .map(|base| base.commit.clone());
        if self.merges() && Some(&commit) == base.as_ref() {
            return self.nothing_changed();
        }
        if !self.run.spec().verify.is_empty()
            && self.run.state().checked.as_deref() != Some(commit.as_str())
        {
            // Somebody has changed the merged work since it was verified.
            self.gate_shown = None;
            self.enter(Stage::Verify, "the merged work is not what was verified")?;
            return Ok(Next::GoOn);
        }
        let is_open = |gate: &Gate| gate.commit == commit;
        if !self.run.state().gate.as_ref().is_some_and(is_open) && self.merges_missing(&commit)? {
            return Ok(Next::GoOn);
        }
        let gate = match &self.run.state().gate {
            Some(gate) if gate.commit == commit => gate.clone(),
            _ => self.open_gate(&commit, None)?,
        };
        let not_auto = match self.run.spec().approve {
            Approve::Auto => self.why_not_auto(&gate)?,
            Approve::Ask | Approve::Never => None,
        };
        let is_asked = self.run.spec().approve != Approve::Auto || not_auto.is_some();
        if is_asked && self.gate_shown.as_ref() != Some(&gate.id) {
            self.gate_shown = Some(gate.id.clone());
            let text = self.gate_text(&gate);
            self.run.observer().open_gate(&text);
        }
        let left = |exit_code: u8, why: &str| {
            Next::Leave(HostExit::AtGate {
                commit: gate.commit.clone(),
                exit_code,
                why: why.to_owned(),
            })
        };
        match answered.or_else(|| self.heard(&gate)) {
            Some(answered) if answered.gate == gate.id => {
                self.decide(&answered)?;
                return Ok(Next::GoOn);
            }
            Some(_) => {
                let why = "what was decided on is not what would land now: look at it again";
                return Ok(left(exit::CONFLICT, why));
            }
            None => {}
        }
        Ok(match self.run.spec().approve {
            Approve::Auto => match not_auto {
                None => {
                    let answered = answer(&gate, GateAnswer::Approve, "flag");
                    self.decide(&answered)?;
                    Next::GoOn
                }
                Some((code, why)) => left(code, &why),
            },
            Approve::Ask if self.run.waits_for_answer() => Next::Wait,
            _ if self.not_landed => left(
                exit::CONFLICT,
                "it has not landed, and is asked about again",
            ),
            _ => left(exit::COMPLETE, "the work waits for a person"),
        })
    }

    /// While the gate is open nobody of the team runs, so commits that were added to the work are a person's: they belong
    /// to it, and it is verified and asked about again.
    fn adopt_a_persons_work(&mut self) -> Result<()> {
        let known = self
            .run
            .state()
            .head
            .as_ref()
            .and_then(|head| head.parse().ok());
        let (Some(integration), Some(repo), Some(known), true) = (
            &self.integration,
            self.run.repo(),
            known,
            self.run.state().gate.is_some(),
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
        self.run
            .record(NewEvent::new("user", EventKind::MergeAdopted(adopted)))
    }

    /// There is nothing to ask about; but what was to pass must pass.
    fn nothing_changed(&mut self) -> Result<Next> {
        let report = compare_with_base(&self.run.state().base, &self.run.state().checks);
        if self.run.spec().verify.is_empty() || report.all_passed() {
            return self.complete("nothing was changed");
        }
        let why = "nothing was changed, and not every check passes";
        self.finish(RunEnd::Unverified, why)?;
        Ok(Next::GoOn)
    }

    /// Asks about a commit; again, if it could not land.
    pub(super) fn open_gate(&mut self, commit: &str, refused: Option<&str>) -> Result<Gate> {
        let report = compare_with_base(&self.run.state().base, &self.run.state().checks);
        let verified = self.run.state().checked.as_deref() == Some(commit) && report.all_passed();
        let words = match (verified, self.run.spec().verify.is_empty()) {
            (true, _) => "verified: every check passed",
            (false, true) => "NOTHING WAS VERIFIED: no command was given, and none was found",
            (false, false) => "not every check passed",
        };
        let id = teamster_fs::random_hex();
        // First what the decision rests on, so that nobody sees a question without it.
        let shown = GateShown {
            gate: id.clone(),
            shown: self.to_show(commit),
        };
        self.run.journal(EventKind::ApprovalShown(shown))?;
        self.run.journal(EventKind::ApprovalRequested(GateOpened {
            gate: id.clone(),
            commit: commit.to_owned(),
            base: self.run.spec().base.clone(),
            verified,
            words: words.to_owned(),
            refused: refused.map(str::to_owned),
        }))?;
        Ok(Gate {
            id,
            commit: commit.to_owned(),
            verified,
        })
    }

    /// What somebody wants: whoever sits before the run, or a command that was given elsewhere. An answer to anything
    /// but this opening of the gate, for this commit, is none.
    fn heard(&mut self, gate: &Gate) -> Option<GateDecision> {
        if let Some(said) = self.run.observer().answer() {
            let mut answered = answer(gate, said.answer, said.via);
            if let Some(of) = said.gate {
                answered.gate = of;
            }
            return Some(answered);
        }
        let fits = |given: &GateDecision| given.gate == gate.id && given.commit == gate.commit;
        self.run.take_answers().into_iter().find(fits)
    }

    /// Why nobody but a person can approve this.
    fn why_not_auto(&self, gate: &Gate) -> Result<Option<(u8, String)>> {
        let tasks = self.run.tasks()?;
        let failed = hopeless(&tasks).len();
        if failed > 0 {
            let why = format!("{failed} tasks failed for good or wait for one that did");
            return Ok(Some((exit::TASKS_FAILED, why)));
        }
        if !gate.verified {
            let why = if self.run.spec().verify.is_empty() {
                "nothing was verified, so it was not approved"
            } else {
                "not every check passed, so it was not approved"
            };
            return Ok(Some((exit::UNVERIFIED, why.to_owned())));
        }
        let outside: Vec<&str> = tasks
            .iter()
            .filter(|task| needs_review(task))
            .map(|task| task.id().as_str())
            .collect();
        if !outside.is_empty() {
            let why = format!(
                "task {} changed files that it had not reserved, so a person has to look",
                outside.join(", ")
            );
            return Ok(Some((exit::UNVERIFIED, why)));
        }
        if let Some(first) = self.new_replacements().first() {
            let why = format!("{first} was added during the run, so a person has to look");
            return Ok(Some((exit::UNVERIFIED, why)));
        }
        let changed = self.changed_rules();
        if !changed.is_empty() {
            let why = format!(
                "{} of git changed during the run, so a person has to look",
                changed.join(", ")
            );
            return Ok(Some((exit::UNVERIFIED, why)));
        }
        Ok(None)
    }

    fn decide(&mut self, answered: &GateDecision) -> Result<()> {
        let GateDecision {
            gate,
            commit,
            answer,
            via,
        } = answered;
        let decided = GateDecided::new(gate, commit, via, Some(by(via)), answer);
        let (what, decision, text) = match answer {
            GateAnswer::Approve => (EventKind::ApprovalGiven(decided), Decision::Approved, ""),
            GateAnswer::Reject { text, .. } => (
                EventKind::ApprovalRefused(decided),
                Decision::Rejected,
                text.as_str(),
            ),
            GateAnswer::Revise { text } => (
                EventKind::ApprovalRevised(decided),
                Decision::Revision,
                text.as_str(),
            ),
        };
        self.run.record(NewEvent::new("user", what))?;
        self.tell_decision(decision, text, answered);
        Ok(())
    }

    /// The record beside the session, and a message to the leader. Nothing reads them back, so nothing depends on them.
    fn tell_decision(&mut self, decision: Decision, text: &str, answered: &GateDecision) {
        let now = self.run.store().now();
        let base = self
            .run
            .spec()
            .base
            .as_ref()
            .map(|base| base.commit.clone());
        let recorded = Party::make(self.run.env().project).and_then(|party| {
            let session = party.session()?.map(|session| session.id);
            party.record_approval(
                &NewApproval {
                    decision,
                    commit: answered.commit.clone(),
                    base: base.unwrap_or_default(),
                    session_id: session.unwrap_or_default(),
                    via: match answered.via.as_str() {
                        "studio" => Via::Studio,
                        "flag" => Via::Flag,
                        _ => Via::Terminal,
                    },
                    reason: text.to_owned(),
                },
                now,
            )
        });
        if let Err(error) = recorded {
            self.run
                .say(&format!("the decision has no record: {error}"));
        }
        let word = match decision {
            Decision::Approved => "approved",
            Decision::Rejected => "rejected",
            Decision::Revision => "to be revised",
        };
        let mut extra = Object::new();
        extra.insert("commit".into(), json!(answered.commit));
        let sent = self.run.store().send(
            self.run.team(),
            &Outgoing {
                from: "user".to_owned(),
                to: Recipient::Lead,
                kind: "approval".to_owned(),
                content: format!("{word}: {text}").trim_end_matches(": ").to_owned(),
                extra,
            },
        );
        if let Err(error) = sent {
            self.run.say(&format!("the leader was not told: {error}"));
        }
    }

    fn carry_out(&mut self, decision: &GateDecision) -> Result<Next> {
        match &decision.answer {
            GateAnswer::Approve => self.land(&decision.commit),
            GateAnswer::Reject { rollback, text } => {
                let why = match text.as_str() {
                    "" => "a person rejected it",
                    text => text,
                };
                self.reject(*rollback, why)
            }
            GateAnswer::Revise { text } => self.revise(&decision.gate, text),
        }
    }

    fn reject(&mut self, rollback: bool, why: &str) -> Result<Next> {
        if !rollback {
            self.finish(RunEnd::Rejected, why)?;
            return Ok(Next::GoOn);
        }
        // A host that was killed meanwhile has not opened what is to be taken back, and takes it back all the same.
        let team = self.run.team().clone();
        if let Some(repo) = self.run.repo()
            && !self.run.spec().in_place
            && let Some(name) = self
                .run
                .in_background(|_| Integration::roll_back(repo, &team))??
        {
            // All that workers had is in there; what is not, is kept.
            self.clear_away()?;
            self.integration = None;
            let on = match repo.resolve(&name)? {
                Some(commit) => repo.branches_with(&commit)?,
                None => Vec::new(),
            };
            self.run.say(&if on.is_empty() {
                format!("what was made is kept as {name}, and is on no branch")
            } else {
                format!(
                    "what was made is kept as {name}, and is also on {}, which teamster did not change",
                    on.join(", ")
                )
            });
        }
        self.finish(RunEnd::RolledBack, why)?;
        Ok(Next::GoOn)
    }

    fn revise(&mut self, gate: &str, text: &str) -> Result<Next> {
        if self.run.state().revisions >= MAX_REVISIONS {
            let why = format!("a person asked for more than {MAX_REVISIONS} revisions");
            self.finish(RunEnd::Unverified, &why)?;
            return Ok(Next::GoOn);
        }
        let is_made = |task: &Task| task.ours("revision") == Some(&json!(gate));
        if !self.run.tasks()?.iter().any(is_made) {
            self.add_task(revising(gate, text, &self.run.spec().task))?;
        }
        self.gate_shown = None;
        self.enter(Stage::Revise, text)?;
        Ok(Next::GoOn)
    }
}

/// Who decided, for people.
fn by(via: &str) -> &'static str {
    match via {
        "flag" => "the checks (--approve auto)",
        "studio" => "a person in Studio",
        _ => "a person at a terminal",
    }
}

fn answer(gate: &Gate, answer: GateAnswer, via: &str) -> GateDecision {
    GateDecision {
        gate: gate.id.clone(),
        commit: gate.commit.clone(),
        answer,
        via: via.to_owned(),
    }
}

fn revising(gate: &str, text: &str, task: &str) -> NewTask {
    let first = text.trim().lines().next().unwrap_or_default();
    let mut notes = Object::new();
    notes.insert("revision".into(), json!(gate));
    NewTask {
        subject: short(&format!("Revise: {first}"), SUBJECT_LIMIT - 1),
        description: format!(
            "A person has looked at the team's merged work and wants this changed before it is taken:\n\n{}\n\nThe work \
             was: {}",
            short(text, 6_000),
            short(task, 2_000)
        ),
        notes,
        ..NewTask::default()
    }
}

//! A run, as its events tell it. What is not there is shown as not there.

use serde_json::Value;
use teamster_types::TaskId;
use teamster_journal::Event;

use super::{number, text, texts};
use crate::model::cost::Budget;
use crate::model::run::{
    Answer, Approval, Base, Finished, Merge, MergeState, Plan, PlanTask, Run, RunMember, Stage,
    Verification, VerificationState, VerifyCommand,
};

/// Verifications and merges that are kept in mind, the newest.
const MOST: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    pub(super) run: Option<Run>,
    pub(super) approval: Option<Approval>,
    pub(super) verifications: Vec<Verification>,
    pub(super) merges: Vec<Merge>,
    /// What is to be shown at the gate that opens next.
    shown: Option<Event>,
}

impl Runs {
    pub(super) fn tell(&mut self, event: &Event) {
        match event.kind.as_str() {
            "run.started" => self.started(event),
            "run.stage" => self.stage(event),
            "run.plan" => self.run().plan = Some(plan(event)),
            "run.resumed" => {
                let run = self.run();
                run.resumed_at = Some(event.ts);
                run.finished = None;
            }
            "run.finished" => self.finished(event),
            "verify.started" => self.verification(VerificationState::Running, event),
            "verify.passed" => self.verification(VerificationState::Passed, event),
            "verify.failed" => self.verification(VerificationState::Failed, event),
            "verify.flaky" => self.verification(VerificationState::Flaky, event),
            "merge.predicted" => self.merge(MergeState::Predicted, event),
            "merge.merged" => self.merge(MergeState::Merged, event),
            "merge.lost" => self.merge(MergeState::Lost, event),
            "task.unchanged" => self.merge(MergeState::Unchanged, event),
            "merge.conflict" => self.merge(MergeState::Conflict, event),
            "approval.shown" => self.shown = Some(event.clone()),
            "approval.requested" => self.gate(event),
            "approval.answered" => self.answer(event, word(event, "answer"), false),
            "approval.given" => self.answer(event, "approve".to_owned(), true),
            "approval.refused" => self.answer(event, "reject".to_owned(), true),
            "approval.revised" => self.answer(event, "revise".to_owned(), true),
            _ => {}
        }
    }

    fn run(&mut self) -> &mut Run {
        self.run.get_or_insert_with(Run::default)
    }

    fn started(&mut self, event: &Event) {
        let value = |key: &str| event.data.get(key);
        let members = value("members").and_then(Value::as_array);
        let verify = value("verify").and_then(Value::as_array);
        *self = Self {
            run: Some(Run {
                task: word(event, "task"),
                agents: word(event, "agents"),
                members: members
                    .into_iter()
                    .flatten()
                    .map(|member| RunMember {
                        name: inner(member, "name").unwrap_or_default(),
                        provider: inner(member, "provider"),
                        role: inner(member, "role"),
                        model: inner(member, "model"),
                    })
                    .collect(),
                base: value("base").and_then(|base| {
                    Some(Base {
                        commit: inner(base, "commit")?,
                        branch: inner(base, "branch"),
                    })
                }),
                verify: verify
                    .into_iter()
                    .flatten()
                    .filter_map(|command| {
                        Some(VerifyCommand {
                            command: inner(command, "command")?,
                            source: inner(command, "source"),
                        })
                    })
                    .collect(),
                approve: text(event, "approve").map(str::to_owned),
                max_fix: number(event, "maxFix"),
                flow: text(event, "flow").map(str::to_owned),
                leader: text(event, "leader").map(str::to_owned),
                in_place: value("inPlace") == Some(&Value::Bool(true)),
                budget: value("budget")
                    .filter(|budget| budget.is_object())
                    .map(|budget| {
                        let figure = |key: &str| budget.get(key).and_then(Value::as_f64);
                        Budget {
                            tokens: budget.get("tokens").and_then(Value::as_u64),
                            usd: figure("usd"),
                            minutes: figure("minutes"),
                        }
                    }),
                uncommitted: number(event, "uncommitted").unwrap_or(0),
                started_at: Some(event.ts),
                ..Run::default()
            }),
            ..Self::default()
        };
    }

    fn stage(&mut self, event: &Event) {
        let stage = Stage {
            stage: word(event, "to"),
            at: event.ts,
            seq: event.seq,
            reason: word(event, "reason"),
            round: number(event, "round").unwrap_or(0),
        };
        let run = self.run();
        run.round = stage.round;
        run.stage = Some(stage.stage.clone());
        run.stages.push(stage);
    }

    fn finished(&mut self, event: &Event) {
        if let Some(gate) = &mut self.approval {
            gate.waits = false;
        }
        self.run().finished = Some(Finished {
            outcome: word(event, "outcome"),
            exit_code: event.data.get("exitCode").and_then(Value::as_i64),
            reason: word(event, "reason"),
            commit: text(event, "commit").map(str::to_owned),
            at: event.ts,
        });
    }

    fn verification(&mut self, state: VerificationState, event: &Event) {
        let mut now = Verification {
            seq: event.seq,
            on: word(event, "on"),
            commit: word(event, "commit"),
            command: word(event, "command"),
            round: number(event, "round").unwrap_or(0),
            state,
            exit_code: event.data.get("exitCode").and_then(Value::as_i64),
            seconds: event.data.get("seconds").and_then(Value::as_f64),
            timed_out: event.data.get("timedOut") == Some(&Value::Bool(true)),
            last: lines(event, "last"),
            log: text(event, "log").map(str::to_owned),
            charged: event.data.get("charged") != Some(&Value::Bool(false)),
            started_at: None,
            ended_at: None,
        };
        if state == VerificationState::Running {
            now.started_at = Some(event.ts);
            self.verifications.push(now);
            shorten(&mut self.verifications);
            return;
        }
        now.ended_at = Some(event.ts);
        let is_it = |before: &&mut Verification| {
            before.state == VerificationState::Running
                && before.on == now.on
                && before.command == now.command
        };
        match self.verifications.iter_mut().rev().find(is_it) {
            Some(before) => {
                now.started_at = before.started_at;
                now.seq = before.seq;
                *before = now;
            }
            None => self.verifications.push(now),
        }
        shorten(&mut self.verifications);
    }

    fn merge(&mut self, state: MergeState, event: &Event) {
        let commit = word(event, "commit");
        let place = self.merges.iter().rposition(|merge| {
            merge.commit == commit && (event.task_id.is_none() || merge.task_id == event.task_id)
        });
        if place.is_none() {
            self.merges.push(Merge {
                seq: event.seq,
                task_id: event.task_id.clone(),
                worker: None,
                commit,
                state,
                predicted: None,
                merge: None,
                files: Vec::new(),
                times: 0,
                is_final: false,
                fix_task: None,
                at: event.ts,
            });
            shorten(&mut self.merges);
        }
        let newest = self.merges.len() - 1;
        let merge = &mut self.merges[place.unwrap_or(newest)];
        merge.state = state;
        merge.at = event.ts;
        match state {
            MergeState::Predicted => merge.predicted = text(event, "result").map(str::to_owned),
            MergeState::Merged => {
                merge.merge = text(event, "merge").map(str::to_owned);
                merge.worker = text(event, "worker").map(str::to_owned);
            }
            MergeState::Lost => merge.merge = None,
            MergeState::Unchanged => merge.worker = text(event, "worker").map(str::to_owned),
            MergeState::Conflict => {
                merge.files = texts(event, "files").map(str::to_owned).collect();
                merge.times = number(event, "times").unwrap_or(1);
                merge.is_final = event.data.get("final") == Some(&Value::Bool(true));
                merge.fix_task = text(event, "fixTask").and_then(|id| id.parse().ok());
            }
        }
    }

    fn gate(&mut self, event: &Event) {
        let base = |key: &str| inner(event.data.get("base")?, key);
        let is_its = |shown: &Event| word(shown, "gate") == word(event, "gate");
        let shown = self.shown.take().filter(is_its);
        let shown = shown.and_then(|shown| serde_json::from_value(Value::Object(shown.data)).ok());
        self.approval = Some(Approval {
            seq: event.seq,
            gate: word(event, "gate"),
            commit: word(event, "commit"),
            base: base("commit"),
            branch: base("branch"),
            verified: event.data.get("verified") == Some(&Value::Bool(true)),
            words: lines(event, "words"),
            refused: text(event, "refused").map(str::to_owned),
            shown,
            asked_at: event.ts,
            waits: true,
            answer: None,
        });
    }

    /// What somebody says counts once the run has taken it: until then the gate is still open.
    fn answer(&mut self, event: &Event, answer: String, taken: bool) {
        let gate = word(event, "gate");
        let Some(approval) = self.approval.as_mut().filter(|open| open.gate == gate) else {
            return;
        };
        if taken {
            approval.waits = false;
        } else if !approval.waits {
            return;
        }
        approval.answer = Some(Answer {
            answer,
            taken,
            by: match word(event, "by").as_str() {
                "" => event.actor.clone(),
                by => by.to_owned(),
            },
            rollback: event.data.get("rollback") == Some(&Value::Bool(true)),
            text: word(event, "text"),
            at: event.ts,
        });
    }
}

fn shorten<T>(list: &mut Vec<T>) {
    if list.len() > MOST {
        list.drain(..list.len() - MOST);
    }
}

fn plan(event: &Event) -> Plan {
    let tasks = event.data.get("tasks").and_then(Value::as_array);
    Plan {
        source: word(event, "source"),
        path: text(event, "path").map(str::to_owned),
        tasks: tasks
            .into_iter()
            .flatten()
            .map(|task| PlanTask {
                label: inner(task, "label").unwrap_or_default(),
                id: inner(task, "id").and_then(|id| id.parse::<TaskId>().ok()),
                subject: inner(task, "subject").unwrap_or_default(),
                blocked_by: task
                    .get("blockedBy")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(|label| label.as_str().map(str::to_owned))
                    .collect(),
            })
            .collect(),
    }
}

fn word(event: &Event, key: &str) -> String {
    text(event, key).unwrap_or_default().to_owned()
}

fn inner(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

/// One text, or the lines of one.
fn lines(event: &Event, key: &str) -> String {
    match event.data.get(key) {
        Some(Value::Array(lines)) => {
            let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
            lines.join("\n")
        }
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    }
}

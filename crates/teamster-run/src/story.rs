//! Where a run is, told by its journal alone. Whoever reads the same events knows the same, before a crash and after it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use teamster_isolate::git::Refs;
use teamster_journal::Event;
use teamster_types::flow::{Outcome, Stage};
use teamster_types::{TaskId, Time};

use crate::cost::Costs;
use crate::order::Order;
use crate::verify::Checked;

/// The actor of everything that a host does.
pub const HOST: &str = "lead";

/// A stage that was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// Which.
    pub stage: Stage,
    /// When.
    pub at: Time,
    /// Why.
    pub reason: String,
}

/// The gate, opened for one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Names this opening of the gate. It is drawn when nobody of the team runs any more, so no agent can know it.
    pub id: String,
    /// What would land.
    pub commit: String,
    /// Whether checks ran on it and all passed.
    pub verified: bool,
}

/// What a person wants at the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// It may land.
    Approve,
    /// It may not.
    Reject {
        /// What was made is taken back.
        #[serde(default)]
        rollback: bool,
        /// Why not.
        #[serde(default)]
        text: String,
    },
    /// Something is to be changed first.
    Revise {
        /// What.
        #[serde(default)]
        text: String,
    },
}

/// An answer to one opening of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Which opening.
    pub gate: String,
    /// For which commit.
    pub commit: String,
    /// What is wanted.
    pub answer: Answer,
    /// How it was given: `terminal`, `studio`, `flag`.
    pub via: String,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The stage it ended in.
    pub outcome: Outcome,
    /// The word for it: `complete`, `rejected`, `rolled_back`, `failed`, `cancelled`, `budget_exhausted`, `tasks_failed`.
    pub word: String,
    /// What the command exits with.
    pub exit_code: u8,
    /// Why, in words.
    pub reason: String,
}

/// What the reason of a run speaks of that has mended as often as it may.
pub(crate) const ROUNDS: &str = "rounds of fixing";

impl Finished {
    /// Whether it had mended as often as it may: with no more rounds it would only end the same way again.
    pub fn needs_more_rounds(&self) -> bool {
        self.reason.contains(ROUNDS)
    }

    /// Whether a run that ended so can be taken up again.
    pub fn is_resumable(&self) -> bool {
        !matches!(
            self.outcome,
            Outcome::Complete | Outcome::Rejected | Outcome::RolledBack
        )
    }
}

/// Where a run is.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// What was ordered.
    pub order: Option<Order>,
    /// When it began, and when it was last taken up.
    pub begun: Option<Time>,
    /// The start of the present host.
    pub hosted_since: Option<Time>,
    /// How long the hosts before it were at work,
    hosted_before: Duration,
    /// as far as the last sign of the team tells.
    last_sign: Option<Time>,
    /// Where it is; `None` before it has begun.
    pub stage: Option<Stage>,
    /// Where it was before it ended.
    before_end: Option<Stage>,
    /// Every stage it was in.
    pub stages: Vec<Entered>,
    /// Replaced objects, grafts and shallow boundaries that the repository had when the run began.
    pub replacements: Vec<String>,
    /// How it was planned: `file`, `leader`, `sentence`.
    pub plan: Option<String>,
    /// Where the host has left the integration branch.
    pub head: Option<String>,
    /// Where the user's branch was when the work was last brought together with it.
    pub tip: Option<String>,
    /// Rounds of fixing that were begun.
    pub round: u32,
    /// Revisions that were asked for.
    pub revisions: u32,
    /// What the checks said before work began.
    pub base: Vec<Checked>,
    /// What they say about the commit below.
    pub checks: Vec<Checked>,
    /// The commit that was last checked.
    pub checked: Option<String>,
    /// The gate, while it is open.
    pub gate: Option<Gate>,
    /// Answers that nobody has judged yet.
    pub answers: Vec<Answered>,
    /// The decision at the gate.
    pub decision: Option<Answered>,
    /// How it ended.
    pub finished: Option<Finished>,
    /// What was used.
    pub spent: Costs,
    /// The launch of a check or a leader that was begun, and of whose end nothing is known.
    pub under_way: Option<String>,
    /// Conflicts that were met: the task, the files, and whether that was the last time.
    pub conflicts: Vec<(TaskId, Vec<String>, bool)>,
    /// How often the work of a task was called merged and was not where it should have been.
    pub lost: BTreeMap<TaskId, u32>,
    /// The references of the user's when the run began, by their full names.
    pub refs: Option<Refs>,
    /// Tasks that others than the host have added since the run began, or let begin anew, in this order.
    pub added: Vec<TaskId>,
}

impl Story {
    /// Takes one event further. What is not about the run changes nothing.
    pub fn apply(&mut self, event: &Event) {
        let text = |key: &str| event.data.get(key).and_then(Value::as_str).unwrap_or("");
        match event.kind.as_str() {
            "verify.started" | "run.asked" => self.under_way = Some(text("launch").to_owned()),
            "verify.passed" | "verify.failed" | "verify.flaky" | "run.plan" | "run.finished" => {
                self.under_way = None;
            }
            _ => {}
        }
        match event.kind.as_str() {
            "run.started" | "run.resumed" => self.hosted(event),
            "run.ordered" => self.ordered(event),
            "run.stage" => {
                if let Ok(stage) = text("to").parse() {
                    self.enter(stage, event.ts, text("reason"));
                }
            }
            "run.plan" => self.plan = Some(text("source").to_owned()),
            "run.finished" => self.finish(event),
            "verify.passed" | "verify.failed" | "verify.flaky" => self.check(event),
            "approval.requested" => {
                self.gate = Some(Gate {
                    id: text("gate").to_owned(),
                    commit: text("commit").to_owned(),
                    verified: event.data.get("verified") == Some(&Value::Bool(true)),
                });
                self.answers.clear();
                self.decision = None;
            }
            "approval.answered" => self.answers.extend(answered(event)),
            "approval.given" | "approval.refused" | "approval.revised" => self.decide(event),
            "merge.merged" | "merge.caught_up" | "merge.adopted" => {
                if let Some(made) = event.data.get("merge").and_then(Value::as_str) {
                    self.head = Some(made.to_owned());
                }
                if event.kind == "merge.caught_up" {
                    self.tip = Some(text("commit").to_owned());
                }
            }
            "merge.lost" => {
                if let Some(id) = &event.task_id {
                    *self.lost.entry(id.clone()).or_default() += 1;
                }
            }
            "run.refs" => {
                let refs = event.data.get("refs").cloned();
                self.refs = refs.and_then(|refs| serde_json::from_value(refs).ok());
            }
            "task.created" | "task.retried" if self.begun.is_some() && event.actor != HOST => {
                self.added.extend(event.task_id.clone());
            }
            "merge.conflict" => {
                let files = event.data.get("files").and_then(Value::as_array);
                let files = files.into_iter().flatten().filter_map(Value::as_str);
                if let Some(id) = &event.task_id {
                    self.conflicts.push((
                        id.clone(),
                        files.map(str::to_owned).collect(),
                        event.data.get("final") == Some(&Value::Bool(true)),
                    ));
                }
            }
            _ => {}
        }
        self.spent.apply(event);
        // What a person or another program does to a run that nobody hosts is no time that the team has used.
        if self.finished.is_none() && !matches!(event.actor.as_str(), "user" | "foreign") {
            self.last_sign = Some(event.ts);
        }
    }

    /// Returns how long the run was at work when its present host has hosted it for `hosted`. The time between two
    /// hosts is not counted. The host measures its own time itself: the wall clock may be set while it runs.
    pub fn worked(&self, hosted: Duration) -> Duration {
        self.hosted_before + hosted
    }

    /// Whether a person was asked and has not been heard.
    pub fn is_at_gate(&self) -> bool {
        self.stage == Some(Stage::Approval) && self.gate.is_some() && self.decision.is_none()
    }

    fn ordered(&mut self, event: &Event) {
        if let Ok(order) = Order::deserialize(Value::Object(event.data.clone())) {
            self.order = Some(order);
        }
    }

    fn hosted(&mut self, event: &Event) {
        self.ordered(event);
        let base = self.order.as_ref().and_then(|order| order.base.as_ref());
        let base = base.map(|base| base.commit.clone());
        self.head = self.head.take().or_else(|| base.clone());
        self.tip = self.tip.take().or(base);
        self.begun.get_or_insert(event.ts);
        if let Some(Value::Array(rules)) = event.data.get("replacements") {
            let rules = rules.iter().filter_map(Value::as_str);
            self.replacements = rules.map(str::to_owned).collect();
        }
        if let (Some(since), Some(last)) = (self.hosted_since, self.last_sign) {
            self.hosted_before += last.since(since);
        }
        self.hosted_since = Some(event.ts);
        if self
            .finished
            .take_if(|finished| finished.is_resumable())
            .is_some()
        {
            self.stage = self.before_end.take();
        }
    }

    fn enter(&mut self, stage: Stage, at: Time, reason: &str) {
        // A person who takes their time at the gate uses none of the team's.
        if self.stage == Some(Stage::Approval)
            && let (Some(since), Some(asked)) = (self.hosted_since, self.stages.last())
        {
            self.hosted_since = Some(since.after(at.since(asked.at.max(since))));
        }
        match stage {
            Stage::Fix => self.round += 1,
            Stage::Revise => {
                self.revisions += 1;
                // What a person asked for is new work, and has its own rounds.
                self.round = 0;
            }
            _ => {}
        }
        if matches!(stage, Stage::Fix | Stage::Revise) {
            // What comes next is other work, even where no commit tells it apart.
            self.checked = None;
        }
        // Nothing that was said before the gate is opened counts at it.
        self.gate = None;
        self.decision = None;
        self.answers.clear();
        self.stage = Some(stage);
        self.stages.push(Entered {
            stage,
            at,
            reason: reason.to_owned(),
        });
    }

    fn check(&mut self, event: &Event) {
        let Ok(checked) = Checked::deserialize(Value::Object(event.data.clone())) else {
            return;
        };
        let commit = event.data.get("commit").and_then(Value::as_str);
        if event.data.get("on").and_then(Value::as_str) == Some("base") {
            self.base.retain(|known| known.command != checked.command);
            self.base.push(checked);
            return;
        }
        if self.checked.as_deref() != commit {
            self.checks.clear();
            self.checked = commit.map(str::to_owned);
        }
        self.checks.retain(|known| known.command != checked.command);
        self.checks.push(checked);
    }

    /// A decision counts for the opening of the gate that it names, and once.
    fn decide(&mut self, event: &Event) {
        let Some(decision) = answered(event) else {
            return;
        };
        let fits = self
            .gate
            .as_ref()
            .is_some_and(|gate| gate.id == decision.gate && gate.commit == decision.commit);
        if fits && self.decision.is_none() {
            self.decision = Some(decision);
        }
    }

    fn finish(&mut self, event: &Event) {
        let text = |key: &str| event.data.get(key).and_then(Value::as_str).unwrap_or("");
        let Ok(Stage::End(outcome)) = text("to").parse() else {
            return;
        };
        let code = event.data.get("exitCode").and_then(Value::as_u64);
        self.finished = Some(Finished {
            outcome,
            word: text("outcome").to_owned(),
            exit_code: code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
            reason: text("reason").to_owned(),
        });
        if !matches!(self.stage, Some(Stage::End(_))) {
            self.before_end = self.stage;
        }
        self.stage = Some(Stage::End(outcome));
        self.stages.push(Entered {
            stage: Stage::End(outcome),
            at: event.ts,
            reason: text("reason").to_owned(),
        });
    }
}

fn answered(event: &Event) -> Option<Answered> {
    let text = |key: &str| {
        let value = event.data.get(key).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    Some(Answered {
        gate: text("gate"),
        commit: text("commit"),
        answer: Answer::deserialize(Value::Object(event.data.clone())).ok()?,
        via: text("via"),
    })
}

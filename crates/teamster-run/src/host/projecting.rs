//! The three state files that others read, kept true to the run: `team-state.json`, `session.json`, `agent-state.json`.
//! They are made from what is known at the moment of asking, so whatever a killed host left of them, the next one
//! mends. That one of them cannot be written is said once and stops nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};
use teamster_claude::state::{Begin, Change, Model, Op, Pattern, Phase, Row, States, Status};
use teamster_fs::{Sync, layout};
use teamster_party::{NewSession, Party, PartyError};
use teamster_types::flow::{Flow, Outcome, Stage};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::progress::Progress;
use teamster_types::task::Task;

use super::Host;
use crate::story::{HOST, Story};

/// How long others who write `agent-state.json` are waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// No flow has a longer way from one state to another.
const LONGEST_WAY: usize = 12;

/// What was last written, so that nothing is written twice.
#[derive(Debug, Default)]
pub(super) struct Projector {
    team_state: Option<Value>,
    party: Option<Stage>,
    agents: Option<Agents>,
    complained: Vec<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Agents {
    phase: &'static str,
    rows: BTreeMap<String, (Status, Option<String>, Option<String>)>,
    progress: Progress,
    over: bool,
}

impl Host<'_> {
    pub(super) fn project(&mut self) {
        let (Some(stage), Ok(tasks)) = (self.story.stage, self.tasks()) else {
            return;
        };
        let done = self.project_team_state(stage, &tasks);
        self.complain("team-state.json", done);
        let done = self.project_session(stage, &tasks);
        self.complain("session.json", done);
        let done = self.project_agents(stage, &tasks);
        self.complain("agent-state.json", done);
    }

    fn complain(&mut self, file: &'static str, done: Result<(), String>) {
        if let Err(why) = done
            && !self.projector.complained.contains(&file)
        {
            self.projector.complained.push(file);
            self.parts
                .desk
                .say(&format!("{file} is not up to date: {why}"));
        }
    }

    fn project_team_state(&mut self, stage: Stage, tasks: &[Task]) -> Result<(), String> {
        let mut current = team_state(&self.story, stage, tasks);
        current["team"] = json!(self.team);
        if self.projector.team_state.as_ref() == Some(&current) {
            return Ok(());
        }
        let mut written = current.clone();
        written["updatedAt"] = json!(self.parts.store.now());
        let mut bytes = serde_json::to_vec_pretty(&written).map_err(|error| error.to_string())?;
        bytes.push(b'\n');
        let [first, second] = layout::OUR_STATE;
        let dir = self
            .parts
            .project
            .child_or_create(first)
            .and_then(|dir| dir.child_or_create(second))
            .map_err(|error| error.to_string())?;
        dir.replace(layout::TEAM_STATE, &bytes, Sync::Fast)
            .map_err(|error| error.to_string())?;
        self.projector.team_state = Some(current);
        Ok(())
    }

    fn project_session(&mut self, stage: Stage, tasks: &[Task]) -> Result<(), String> {
        if self.projector.party == Some(stage) {
            return Ok(());
        }
        let party = Party::make(self.parts.project).map_err(|error| error.to_string())?;
        let session = party.session().map_err(|error| error.to_string())?;
        let now = self.parts.store.now();
        if session.is_none_or(|session| session.team != self.team.as_str()) {
            let members: Vec<Value> = self
                .order
                .members
                .iter()
                .map(|hand| {
                    json!({
                        "name": hand.name,
                        "agent": hand.provider,
                        "role": hand.role.as_deref().unwrap_or("worker"),
                    })
                })
                .collect();
            let new = NewSession {
                team: self.team.clone(),
                task: self.order.task.clone(),
                members,
            };
            party
                .begin(&new, now, false)
                .map_err(|error| error.to_string())?;
        }
        for state in stage.party() {
            self.step_to(&party, state, tasks)?;
        }
        self.projector.party = Some(stage);
        Ok(())
    }

    /// Takes the session to a state on the shortest way that its flow has, with what each phase on it needs.
    fn step_to(&self, party: &Party, target: &str, tasks: &[Task]) -> Result<(), String> {
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
                let known = party.findings().map_err(say)?;
                if !known.contains(&at.to_lowercase()) {
                    let text = finding(&at, &self.story, tasks);
                    let now = self.parts.store.now();
                    party.add_finding(phase, &text, HOST, now).map_err(say)?;
                }
            }
            let reason = self
                .story
                .stages
                .last()
                .map_or("", |entered| &entered.reason);
            let reason: String = reason.chars().take(500).collect();
            let stepped = party
                .transition(&next, &reason, self.parts.store.now())
                .map_err(say)?;
            at = stepped.session.phase;
        }
        Ok(())
    }

    fn project_agents(&mut self, stage: Stage, tasks: &[Task]) -> Result<(), String> {
        let (beats, _) = self
            .parts
            .store
            .heartbeats(&self.team)
            .map_err(|error| error.to_string())?;
        let now = agents(stage, tasks, &beats);
        let before = self.projector.agents.clone();
        if before.as_ref() == Some(&now) {
            return Ok(());
        }
        let ops = self.agent_ops(before.as_ref(), &now);
        let change = Change::new(format!("run-{}", self.team), self.parts.store.now(), ops);
        States::of(self.parts.layout)
            .apply_or_leave(change, PATIENCE)
            .map_err(|error| error.to_string())?;
        self.projector.agents = Some(now);
        Ok(())
    }

    fn agent_ops(&self, before: Option<&Agents>, now: &Agents) -> Vec<Op> {
        let phase = Phase::parse(now.phase).unwrap_or(Phase::Plan);
        let mut ops = Vec::new();
        if before.is_none() {
            ops.push(Op::Ensure(Begin {
                team: self.team.to_string(),
                feature: self.team.to_string(),
                phase: Some(phase),
                pattern: Some(Pattern::Leader),
                cto: None,
            }));
        }
        ops.push(Op::Phase {
            feature: self.team.to_string(),
            phase,
        });
        let none = BTreeMap::new();
        let known = before.map_or(&none, |before| &before.rows);
        for (name, (status, task, task_id)) in &now.rows {
            let row = || Row {
                name: name.clone(),
                role: self.role_of(name),
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

    fn role_of(&self, name: &str) -> String {
        let hand = self
            .order
            .members
            .iter()
            .find(|hand| hand.name.as_str() == name);
        hand.and_then(|hand| hand.role.clone())
            .unwrap_or_else(|| "worker".to_owned())
    }
}

/// What viewers see of the team now.
fn agents(stage: Stage, tasks: &[Task], beats: &[Heartbeat]) -> Agents {
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
    Agents {
        phase: stage.pdca(),
        rows,
        progress: Progress::of(tasks),
        over: matches!(stage, Stage::End(_)),
    }
}

/// The fewest steps from one state to another, guards aside.
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

fn team_state(story: &Story, stage: Stage, tasks: &[Task]) -> Value {
    let order = story.order.as_ref();
    let history: Vec<Value> = story
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
    let over = matches!(stage, Stage::End(_));
    let ended = story
        .stages
        .last()
        .filter(|_| over)
        .map(|entered| entered.at);
    json!({
        "active": !over,
        "team": "",
        "task": order.map(|order| order.task.as_str()),
        "agents": order.map(|order| order.agents.as_str()),
        "stage": stage.staged(),
        "stageHistory": history,
        "fixLoop": {
            "attempt": story.round,
            "maxAttempts": order.map_or(3, |order| order.max_fix),
        },
        "planPath": order.and_then(|order| order.plan.as_deref()),
        "workers": order.map_or_else(Vec::new, |order| {
            order.members.iter().map(|hand| hand.name.to_string()).collect::<Vec<_>>()
        }),
        "progress": Progress::of(tasks),
        "awaitingApproval": stage == Stage::Approval,
        "outcome": story.finished.as_ref().map(|finished| finished.word.as_str()),
        "startedAt": story.begun,
        "completedAt": ended.filter(|_| stage != Stage::End(Outcome::Cancelled)),
    })
}

/// What a phase found, written by the engine.
fn finding(phase: &str, story: &Story, tasks: &[Task]) -> String {
    let order = story.order.as_ref();
    let mut text = match phase {
        "ANALYZING" => format!(
            "# What is asked for\n\n{}\n",
            order.map_or("", |order| order.task.as_str())
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
            for checked in &story.checks {
                let _ = writeln!(text, "- {}: {}", checked.command, checked.verdict.words());
            }
            if story.checks.is_empty() {
                text += "Nothing was verified.\n";
            }
        }
        _ => {}
    }
    text
}

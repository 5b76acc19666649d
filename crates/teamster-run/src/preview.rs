//! Shows a run before it starts: the members, why they were chosen, the tasks, their workers, and the prompt of each
//! agent.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use teamster_journal::payload::{Check, Member, RunSpec};
use teamster_prompts::Prompts;
use teamster_prompts::facts::{
    ChannelFacts, CommonFacts, DoneTask, OtherWorker, RecipientFacts, WorkerPrompt, WorkplaceFacts,
};
use teamster_types::paths::Reservations;
use teamster_types::task::Task;
use teamster_types::{TaskId, Time, WorkerName};
use teamster_workers::briefing;
use unicode_width::UnicodeWidthStr;

use crate::cast::{Cast, misfits};
use crate::plan::Plan;

mod first;

pub use first::{FirstAssignment, first_assignments};

const INDENT: &str = "  ";
const GAP: &str = "  ";
/// The placeholder for the worker of a task while that is unknown.
const SOMEBODY: &str = "NAME";
/// The placeholder for the result of a task.
const NOT_YET: &str = "(what its worker reports at its end)";

/// A run that has not started.
#[derive(Clone, Copy, Debug)]
pub struct Preview<'a> {
    /// The name that the team would have.
    pub team: &'a str,
    /// The task in the words of the user.
    pub task: &'a str,
    /// The team that would work.
    pub cast: &'a Cast,
    /// The plan that it would follow.
    pub plan: &'a Plan,
    /// The specification that the run would have.
    pub spec: &'a RunSpec,
    /// The prompt templates.
    pub prompts: &'a Prompts,
    /// How each member would contact the others.
    pub reach: &'a BTreeMap<WorkerName, ChannelFacts>,
    /// The prompt of the leader; `None` when no agent plans.
    pub leader_prompt: Option<&'a str>,
    /// The source of the plan, in words: `plan.toml`, `the leader codex`.
    pub planned_by: &'a str,
    /// Commands that would verify the result.
    pub verify: &'a [Check],
    /// The flow that the run would follow.
    pub flow: &'a str,
    /// How tasks with overlapping paths are treated.
    pub reservations: Reservations,
    /// The longest prompt, in characters.
    pub longest_prompt: usize,
}

impl Preview<'_> {
    /// Returns the preview for people. It contains untrusted texts unescaped: the caller must sanitize them before
    /// showing them.
    pub fn text(&self) -> String {
        let mut text = format!("team {}: {}\n", self.team, self.cast.agents);
        let _ = writeln!(text, "  {}\n", self.cast.how);
        text.push_str(&self.members());
        let count = self.plan.tasks.len();
        let tasks = if count == 1 { "task" } else { "tasks" };
        let _ = writeln!(
            text,
            "\nplan: {count} {tasks}, from {}; flow: {}\n",
            self.planned_by, self.flow
        );
        text.push_str(&self.tasks());
        for fault in misfits(self.plan, &self.cast.members) {
            let _ = writeln!(text, "  wrong: {}", fault.message);
        }
        text.push_str("\nverification:\n");
        if self.verify.is_empty() {
            text.push_str("  none: the result will not be checked; give a command with --verify\n");
        }
        for check in self.verify {
            let _ = writeln!(text, "  {} ({})", check.command, check.source);
        }
        for member in &self.cast.members {
            if !member.prompt.is_empty() {
                let _ = write!(
                    text,
                    "\n{} is told:\n{}",
                    member.name,
                    set_in(&member.prompt)
                );
            }
        }
        if let Some(prompt) = self.leader_prompt {
            let leader = &self.spec.leader;
            let _ = write!(text, "\nthe leader {leader} is told:\n{}", set_in(prompt));
        }
        let firsts = self.firsts();
        for (place, label) in self.plan.labels.iter().enumerate() {
            let told = set_in(&self.prompt(place, &firsts));
            let _ = write!(text, "\ntask {} ({label}) is told as:\n{told}", place + 1);
        }
        text
    }

    /// Returns the preview for programs.
    pub fn json(&self) -> Value {
        let members = self.cast.members.iter().map(|member| {
            json!({
                "name": member.name,
                "provider": member.provider,
                "role": member.role,
                "model": member.model,
                "capabilities": member.can,
                "prompt": member.prompt,
            })
        });
        let firsts = self.firsts();
        let tasks = self.plan.tasks.iter().zip(&firsts).enumerate();
        let tasks = tasks.map(|(place, (planned, first))| {
            let task = &planned.task;
            json!({
                "id": self.plan.labels[place],
                "number": (place + 1).to_string(),
                "subject": task.subject,
                "description": task.description,
                "owner": task.owner,
                "blockedBy": self.labels(&planned.after),
                "role": self.plan.roles.get(place).cloned().flatten(),
                "capabilities": task.capabilities,
                "paths": task.paths,
                "accept": task.notes.accept,
                "verify": task.verify,
                "first": first.worker().map(ToString::to_string),
                "reason": first.words(&self.plan.labels),
                "prompt": self.prompt(place, &firsts),
            })
        });
        let commands: Vec<&str> = self
            .verify
            .iter()
            .map(|check| check.command.as_str())
            .collect();
        let checks = self.verify.iter();
        let checks =
            checks.map(|check| json!({ "command": check.command, "source": check.source }));
        let wrong = misfits(self.plan, &self.cast.members).into_iter();
        json!({
            "team": self.team,
            "task": self.task,
            "preset": self.cast.preset,
            "agents": self.cast.agents,
            "reason": self.cast.how,
            "flow": self.flow,
            "members": members.collect::<Vec<_>>(),
            "plan": self.planned_by,
            "tasks": tasks.collect::<Vec<_>>(),
            "verify": commands,
            "checks": checks.collect::<Vec<_>>(),
            "problems": wrong.map(|fault| fault.message).collect::<Vec<_>>(),
            "leaderPrompt": self.leader_prompt,
        })
    }

    fn firsts(&self) -> Vec<FirstAssignment> {
        first_assignments(self.plan, &self.cast.members, self.reservations)
    }

    fn labels(&self, places: &[usize]) -> Vec<&str> {
        places
            .iter()
            .map(|place| self.plan.labels[*place].as_str())
            .collect()
    }

    fn members(&self) -> String {
        let mut table = AlignedTable::new(["WORKER", "AGENT", "ROLE", "MODEL", "CAN"]);
        for member in &self.cast.members {
            table.row([
                member.name.as_str(),
                &member.provider,
                member.role.as_deref().unwrap_or("-"),
                member.model.as_deref().unwrap_or("-"),
                &member.can.join(", "),
            ]);
        }
        table.render()
    }

    fn tasks(&self) -> String {
        let mut table = AlignedTable::new(["NR", "ID", "TASK", "AFTER", "NEEDS", "PATHS", "FIRST"]);
        let dash = |list: &[String]| match list {
            [] => "-".to_owned(),
            list => list.join(", "),
        };
        for (place, (planned, first)) in self.plan.tasks.iter().zip(self.firsts()).enumerate() {
            let after: Vec<String> = self
                .labels(&planned.after)
                .into_iter()
                .map(str::to_owned)
                .collect();
            table.row([
                (place + 1).to_string().as_str(),
                &self.plan.labels[place],
                &planned.task.subject,
                &dash(&after),
                &dash(&planned.task.capabilities),
                &dash(&planned.task.paths),
                &first.words(&self.plan.labels),
            ]);
        }
        table.render()
    }

    /// Returns the prompt of a task's agent at the first attempt, without any messages.
    fn prompt(&self, place: usize, firsts: &[FirstAssignment]) -> String {
        let (Some(task), Some(planned)) = (self.planned_task(place), self.plan.tasks.get(place))
        else {
            return String::new();
        };
        let owner = planned.task.owner.as_ref();
        let worker = owner.or_else(|| firsts.get(place).and_then(FirstAssignment::worker));
        let is_at_once = firsts
            .get(place)
            .is_some_and(|first| first.worker().is_some());
        let others = firsts.iter().enumerate().filter_map(|(other, first)| {
            let worker = first.worker().filter(|_| other != place && is_at_once)?;
            let theirs = self.planned_task(other)?;
            Some(OtherWorker {
                worker: worker.to_string(),
                task: theirs.id().to_string(),
                subject: theirs.subject().to_owned(),
                paths: theirs.paths(),
            })
        });
        let done = planned.after.iter().filter_map(|other| {
            let before = self.planned_task(*other)?;
            Some(DoneTask {
                summary: NOT_YET.to_owned(),
                ..briefing::done_task(&before)
            })
        });
        let facts = WorkerPrompt {
            situation: CommonFacts {
                you: self.recipient_facts(worker),
                goal: briefing::goal(self.spec, &task),
                others: others.collect(),
                checks: briefing::checks(Some(self.spec), &[], &task.verify()),
                reach: worker
                    .and_then(|worker| self.reach.get(worker))
                    .or_else(|| self.reach.values().next())
                    .cloned()
                    .unwrap_or_default(),
                place: WorkplaceFacts {
                    is_shared: self.spec.in_place,
                },
                ..CommonFacts::default()
            },
            task: briefing::task_facts(&task),
            builds_on: done.collect(),
        };
        match self.prompts.render(&facts, self.longest_prompt) {
            Ok(rendered) => rendered.text,
            Err(error) => error.to_string(),
        }
    }

    fn recipient_facts(&self, worker: Option<&WorkerName>) -> RecipientFacts {
        let is_it = |member: &&Member| Some(&member.name) == worker;
        let member = self.cast.members.iter().find(is_it);
        RecipientFacts {
            name: worker.map_or_else(|| SOMEBODY.to_owned(), WorkerName::to_string),
            team: self.team.to_owned(),
            role: member.and_then(|member| member.role.clone()),
            meaning: member.map_or_else(String::new, |member| member.prompt.trim().to_owned()),
        }
    }

    /// Returns a task of the plan as it would be created.
    fn planned_task(&self, place: usize) -> Option<Task> {
        let id: TaskId = (place + 1).to_string().parse().ok()?;
        let planned = self.plan.tasks.get(place)?;
        Some(Task::new(id, &planned.task, Time::from_millis(0)))
    }
}

fn set_in(text: &str) -> String {
    let mut set = String::new();
    for line in text.trim_end().lines() {
        let _ = writeln!(set, "{}", format!("    {line}").trim_end());
    }
    set
}

/// A table whose columns stay aligned in any script, indented by two spaces.
pub(crate) struct AlignedTable<const N: usize> {
    lines: Vec<[String; N]>,
}

impl<const N: usize> AlignedTable<N> {
    pub(crate) fn new(headings: [&str; N]) -> Self {
        Self {
            lines: vec![headings.map(str::to_owned)],
        }
    }

    /// Adds a row. A cell is always a single line.
    pub(crate) fn row(&mut self, cells: [&str; N]) {
        let cells = cells.map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" "));
        self.lines.push(cells);
    }

    pub(crate) fn render(&self) -> String {
        let mut widths = [0; N];
        for line in &self.lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.width());
            }
        }
        let mut text = String::new();
        for line in &self.lines {
            let mut row = INDENT.to_owned();
            for (cell, width) in line.iter().zip(widths) {
                row.push_str(cell);
                row.push_str(&" ".repeat(width.saturating_sub(cell.width())));
                row.push_str(GAP);
            }
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests;

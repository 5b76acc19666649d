//! From the order to tasks, and what the checks say before anybody has worked.

use std::path::Path;

use serde_json::json;
use teamster_fs::Dir;
use teamster_journal::EventKind;
use teamster_journal::payload::{Check, LeaderAsked, PlanMade, RunEnd};
use teamster_store::PlannedTask;
use teamster_types::flow::Stage;
use teamster_types::task::Task;

use super::{Host, Next, Result};
use crate::order::nobody_can;
use crate::plan::Plan;

impl Host<'_> {
    pub(super) fn plan(&mut self) -> Result<Next> {
        if self.run.state().stage == Some(Stage::Plan) && self.run.spec().requirements {
            // What is wanted is written into the findings on the way; the engine has nothing to ask.
            self.enter(Stage::Requirements, "they were asked for")?;
            return Ok(Next::GoOn);
        }
        if !self.check_base()? {
            return Ok(Next::Wait);
        }
        let known = self.run.tasks()?;
        if known.is_empty() {
            let made = self.proposed.take().map_or_else(|| self.make_plan(), Ok);
            let (plan, source) = match made {
                Ok(made) => made,
                Err(_) if self.run.must_stop() => {
                    return Ok(Next::Wait);
                }
                Err(why) => return self.cannot_plan(&why),
            };
            if let Some(why) = nobody_can(self.run.spec(), &plan) {
                return self.cannot_plan(&why);
            }
            if self.run.spec().approve_plan {
                match self.run.observer().accept_plan(&plan.tasks) {
                    None => {
                        // Whoever reads the plan uses none of the team's time.
                        self.run.set_waiting(true);
                        self.proposed = Some((plan, source));
                        return Ok(Next::Wait);
                    }
                    Some(true) => self.run.set_waiting(false),
                    Some(false) => {
                        self.finish(RunEnd::Cancelled, "the plan was not accepted")?;
                        return Ok(Next::GoOn);
                    }
                }
            }
            self.add_checks_of(&plan)?;
            let tasks = self.noted(plan.tasks);
            let made = self.run.import_tasks(&tasks)?;
            self.tell_plan(&made, source)?;
        } else if self.run.state().plan.is_none() {
            // A host was killed after it had made them and before it could say so.
            let source = self.source();
            self.tell_plan(&known, source)?;
        }
        self.enter(Stage::Execute, "the plan is made")?;
        Ok(Next::GoOn)
    }

    fn cannot_plan(&mut self, why: &str) -> Result<Next> {
        self.finish(RunEnd::Failed, why)?;
        Ok(Next::GoOn)
    }

    fn source(&self) -> &'static str {
        match (&self.run.spec().plan, self.run.spec().leader.as_str()) {
            (Some(_), _) => "file",
            (None, "engine") => "sentence",
            (None, _) => "leader",
        }
    }

    fn make_plan(&mut self) -> std::result::Result<(Plan, &'static str), String> {
        let source = self.source();
        let plan = match (&self.run.spec().plan, source) {
            (Some(file), _) => {
                let bytes = read(Path::new(file))?;
                Plan::parse(Path::new(file), &bytes).map_err(|faults| faults.to_string())
            }
            (None, "leader") => {
                // A leader plans; what it writes meanwhile is nobody's work.
                let base = self
                    .run
                    .spec()
                    .base
                    .as_ref()
                    .map(|base| base.commit.clone());
                let tree = match base {
                    Some(base) => self.fresh_tree(&base).map_err(|error| error.to_string())?,
                    None => None,
                };
                let folder = match &tree {
                    Some(tree) => tree.work_folder(),
                    None => self.run.env().folder.to_owned(),
                };
                let launch = teamster_fs::random_hex();
                let asked = EventKind::RunAsked(LeaderAsked {
                    leader: self.run.spec().leader.clone(),
                    launch: launch.clone(),
                });
                self.run.journal(asked).map_err(|error| error.to_string())?;
                self.run.ask_leader(&folder, &launch)
            }
            _ => {
                let names: Vec<_> = self
                    .run
                    .spec()
                    .members
                    .iter()
                    .map(|m| m.name.clone())
                    .collect();
                Plan::of_sentence(&self.run.spec().task, &names)
            }
        }?;
        Ok((plan, source))
    }

    /// What single tasks of the plan and the plan itself ask for is checked as well, in the end and on the base.
    fn add_checks_of(&mut self, plan: &Plan) -> Result<()> {
        let mut more: Vec<Check> = Vec::new();
        for command in &plan.verify {
            more.push(Check::new(command, "the plan"));
        }
        for (label, planned) in plan.labels.iter().zip(&plan.tasks) {
            for command in &planned.task.verify {
                more.push(Check::new(command, format!("task {label} of the plan")));
            }
        }
        if self.run.add_checks(more)? {
            self.check_base()?;
        }
        Ok(())
    }

    /// With the note that their work is to be merged.
    fn noted(&self, mut tasks: Vec<PlannedTask>) -> Vec<PlannedTask> {
        if self.merges() {
            for planned in &mut tasks {
                planned.task.notes.insert("merged".into(), json!(false));
            }
        }
        tasks
    }

    fn tell_plan(&mut self, tasks: &[Task], source: &str) -> Result<()> {
        let tasks = tasks
            .iter()
            .map(|task| teamster_journal::payload::PlannedTask {
                id: Some(task.id().clone()),
                label: task
                    .ours("label")
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or_default()
                    .to_owned(),
                subject: task.subject().to_owned(),
                owner: task.owner().map(str::to_owned),
                blocked_by: task.blocked_by().iter().map(ToString::to_string).collect(),
            });
        self.run.journal(EventKind::RunPlan(PlanMade {
            source: source.to_owned(),
            path: self.run.spec().plan.clone(),
            tasks: tasks.collect(),
        }))
    }

    /// Puts one more task before the team.
    pub(super) fn add_task(&mut self, new: teamster_types::task::NewTask) -> Result<()> {
        let planned = self.noted(vec![PlannedTask {
            task: new,
            after: Vec::new(),
        }]);
        self.run.import_tasks(&planned)?;
        self.run.read()
    }
}

/// The plan's file. Links on the way to a file that the user named are the user's own.
fn read(file: &Path) -> std::result::Result<Vec<u8>, String> {
    let missing = || format!("the plan {} is not there any more", file.display());
    let real = file.canonicalize().map_err(|_| missing())?;
    let (Some(folder), Some(name)) = (
        real.parent(),
        real.file_name().and_then(|name| name.to_str()),
    ) else {
        return Err(missing());
    };
    let found = Dir::open_root(folder)
        .and_then(|dir| match dir {
            Some(dir) => dir.read(name),
            None => Ok(None),
        })
        .map_err(|error| error.to_string())?;
    found.map(|(bytes, _)| bytes).ok_or_else(missing)
}

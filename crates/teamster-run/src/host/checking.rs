//! What the checks say: on the base before anybody works, and on the merged work.

use serde_json::{Value, json};
use teamster_isolate::git::{CheckTree, CommitId};
use teamster_journal::payload::{Check, CheckResult, CheckStarted, Checked, RunEnd};
use teamster_journal::{EventKind, ON_BASE};
use teamster_types::flow::Stage;
use teamster_types::json::Object;
use teamster_types::quote::quoted;
use teamster_types::task::{NewTask, SUBJECT_LIMIT};
use teamster_workers::workplace::make_usable;

use super::merging::short;
use super::{Host, Next, Result, RunError};
use crate::verify::{CheckRunner, Place, compare_with_base};

/// So much of what a check printed goes into the task that is to mend it.
const SHOWN: usize = 7_000;

impl Host<'_> {
    /// Runs the checks where the work begins, once; whether that is done.
    pub(super) fn check_base(&mut self) -> Result<bool> {
        let commit = match &self.run.spec().base {
            Some(base) => base.commit.clone(),
            None => String::new(),
        };
        for (number, check) in self.run.spec().verify.clone().iter().enumerate() {
            let known = |checked: &Checked| checked.command == check.command;
            if self.run.state().base.iter().any(known) {
                continue;
            }
            if !self.check(ON_BASE, &commit, number, check)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn verify(&mut self) -> Result<Next> {
        let commit = match self.own_head()? {
            Some(head) => head.to_string(),
            None => String::new(),
        };
        if self.merges_missing(&commit)? {
            return Ok(Next::GoOn);
        }
        for (number, check) in self.run.spec().verify.clone().iter().enumerate() {
            let is_seen = self.merges() || self.checked_here.contains(&check.command);
            let is_known = is_seen
                && self.run.state().checked.as_deref() == Some(commit.as_str())
                && self
                    .run
                    .state()
                    .checks
                    .iter()
                    .any(|checked| checked.command == check.command);
            if !is_known && !self.check("integration", &commit, number, check)? {
                return Ok(Next::Wait);
            }
        }
        let report = compare_with_base(&self.run.state().base, &self.run.state().checks);
        let charged: Vec<Checked> = report
            .regressions
            .iter()
            .map(|checked| (*checked).clone())
            .collect();
        if charged.is_empty() {
            let reason = if self.run.spec().verify.is_empty() {
                "nothing was verified: no command is given, and none was found"
            } else if report.all_passed() {
                "all checks passed"
            } else {
                "the team broke no check"
            };
            let reason = reason.to_owned();
            // Before the gate is near: who still runs could change what is asked about, or answer.
            self.run.stop_workers("the gate opens")?;
            self.enter(Stage::Approval, &reason)?;
            return Ok(Next::GoOn);
        }
        let names: Vec<&str> = charged
            .iter()
            .map(|checked| checked.command.as_str())
            .collect();
        let names = names.join(", ");
        if self.run.state().round >= self.run.spec().max_fix {
            self.run.stop_workers("verification failed")?;
            let why = format!(
                "verification still fails after {} rounds of fixing: {names}",
                self.run.state().round
            );
            self.finish(RunEnd::FixRoundsUsedUp, &why)?;
            return Ok(Next::GoOn);
        }
        self.make_fixes(&charged, &commit)?;
        self.enter(Stage::Fix, &format!("verification failed: {names}"))?;
        Ok(Next::GoOn)
    }

    /// One task for each check that fails. A host that was killed half-way has made some of them already.
    fn make_fixes(&mut self, charged: &[Checked], commit: &str) -> Result<()> {
        let tasks = self.run.tasks()?;
        for checked in charged {
            let fix = json!({
                "round": self.run.state().round + 1,
                "revision": self.run.state().revisions,
                "command": checked.command,
                "exitCode": checked.exit_code,
                "commit": commit,
            });
            if !tasks.iter().any(|task| task.ours("fix") == Some(&fix)) {
                let new = fixing(checked, fix);
                self.add_task(new)?;
            }
        }
        Ok(())
    }

    /// A tree that holds a commit and nothing else; `None` where everybody works in the project's folder.
    pub(super) fn fresh_tree(&mut self, commit: &str) -> Result<Option<CheckTree>> {
        let (Some(repo), true) = (self.run.repo(), self.merges()) else {
            return Ok(None);
        };
        let commit: CommitId = commit.parse().map_err(|_| {
            RunError::refused(
                format!("{commit:?} was to be checked, which is no commit"),
                "look at the team's config.json",
            )
        })?;
        let team = self.run.team().clone();
        Ok(Some(self.run.in_background(|_| {
            CheckTree::make(repo, &team, &commit)
        })??))
    }

    /// Makes a tree usable for a check, if the user accepts at this moment what that takes; false when somebody did not
    /// want to wait for its end.
    fn ready_for_checks(&mut self, tree: &CheckTree) -> Result<bool> {
        let setup = self.run.env().trust.worktree_setup()?;
        let made = self.run.in_background(move |background| {
            let mut say = |text: &str| background.show(text);
            let stopped = || background.is_stopped();
            make_usable(tree.worktree(), || Ok(setup), &stopped, &mut say)
        })?;
        match made {
            Err(_) if self.run.must_stop() => Ok(false),
            made => Ok(made.map(|()| true)?),
        }
    }

    /// Runs one check and records what it says; false when somebody did not want to wait for its end.
    fn check(&mut self, on: &str, commit: &str, number: usize, check: &Check) -> Result<bool> {
        self.run.env().trust.check(check)?;
        let tree = self.fresh_tree(commit)?;
        if let Some(tree) = &tree
            && !self.ready_for_checks(tree)?
        {
            return Ok(false);
        }
        if self.run.must_stop() {
            return Ok(false);
        }
        let round = self.run.state().round;
        let launch = teamster_fs::random_hex();
        self.run.journal(EventKind::VerifyStarted(CheckStarted {
            on: on.to_owned(),
            commit: commit.to_owned(),
            command: check.command.clone(),
            launch: launch.clone(),
            round,
        }))?;
        self.projector.project(&mut self.run);
        let folder = match &tree {
            Some(tree) => tree.work_folder(),
            None => self.run.env().folder.to_owned(),
        };
        let team = self.run.team().clone();
        let runner = CheckRunner {
            machine: self.run.env().machine,
            project: self.run.env().project,
            team: &team,
            folder: &folder,
            limit: self.run.env().check_limit,
            launch: &launch,
        };
        let place = Place { on, round, number };
        let checked = self
            .run
            .in_background(|background| {
                let mut show = |lines: &str| background.show(lines);
                runner.check(check, &place, &mut show, &|| background.is_stopped())
            })?
            .map_err(|error| {
                RunError::refused(
                    error.to_string(),
                    "`teamster run --resume TEAM` tries again",
                )
            })?;
        if let Some(tree) = tree
            && let Err(error) = self.run.in_background(|_| tree.remove())?
        {
            let text = format!("the tree of a check could not be removed: {error}");
            self.run.say(&text);
        }
        self.checked_here.insert(check.command.clone());
        for remark in &checked.remarks {
            self.run.say(remark);
        }
        let one = [checked];
        let charged = on != ON_BASE
            && !compare_with_base(&self.run.state().base, &one)
                .regressions
                .is_empty();
        let [checked] = &one;
        match CheckResult::new(on, commit, round, checked, charged).event() {
            Some(what) => self.run.journal(what).map(|()| true),
            None => Ok(false),
        }
    }
}

fn fixing(checked: &Checked, fix: Value) -> NewTask {
    let how = match (checked.exit_code, checked.signal) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => checked.verdict.words().to_owned(),
    };
    let mut subject = format!("Fix what `{}` finds", checked.command);
    if subject.chars().count() > SUBJECT_LIMIT {
        subject = short(&subject, SUBJECT_LIMIT - 1);
    }
    let lines: Vec<&str> = checked.last.lines().collect();
    let mut last = String::new();
    for line in lines.iter().rev() {
        if last.chars().count() + line.chars().count() > SHOWN {
            break;
        }
        last = format!("{line}\n{last}");
    }
    let description = format!(
        "The team's work is merged, and `{}` fails on it ({how}); it did not fail before. Find out why and mend the \
         cause, not the check. Run it yourself before you are done.\n\nThe last lines it printed:\n\n{}",
        short(&checked.command, 500),
        quoted(&last),
    );
    let mut notes = Object::new();
    notes.insert("fix".into(), fix);
    NewTask {
        subject,
        description,
        notes,
        ..NewTask::default()
    }
}

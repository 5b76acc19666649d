//! Runs the checks: on the base before the work begins, and on the merged work.

use std::collections::BTreeSet;

use teamster_isolate::git::CheckTree;
use teamster_journal::payload::{Check, CheckResult, CheckStarted, Checked, RunEnd, RunSpec};
use teamster_journal::{EventKind, ON_BASE, RunState, on_candidate};
use teamster_types::TaskId;
use teamster_types::flow::Stage;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::task::{NewTask, SUBJECT_LIMIT, Task, TaskFix, TaskNotes};
use teamster_types::text::{clip, quoted};
use teamster_workers::workplace::make_usable;

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::projector::Projector;
use super::task_progress::to_merge;
use super::{HostCommand, Result, RunError};
use crate::verify::{CheckPlace, CheckRunner, compare_with_base};

/// The number of characters of a check's output in the task that fixes it.
const SHOWN_OUTPUT: usize = 7_000;

/// Runs the checks on the merged work.
#[derive(Debug, Default)]
pub(super) struct Verifier {
    /// The checks that this host has run since the stage was entered. Without commits nothing else identifies what they
    /// checked.
    checked_here: BTreeSet<String>,
}

impl Verifier {
    /// Notes that a stage was entered: earlier results are no longer known to be valid.
    pub(super) fn note_stage_entered(&mut self) {
        self.checked_here.clear();
    }

    /// Runs the checks on the base, each once; returns whether all have run.
    pub(super) fn check_base(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        projector: &mut Projector,
    ) -> Result<bool> {
        let commit = match &run.spec().base {
            Some(base) => base.commit.clone(),
            None => String::new(),
        };
        for (number, check) in run.spec().verify.clone().iter().enumerate() {
            let known = |checked: &Checked| checked.command == check.command;
            if run.state().base.iter().any(known) {
                continue;
            }
            let place = CheckPlace {
                on: ON_BASE,
                round: run.state().round,
                number,
            };
            if !self.check(run, guard, projector, &place, &commit, check)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs the checks on the result of one task alone, each once; returns whether all have run.
    pub(super) fn check_candidate(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        projector: &mut Projector,
        task: &TaskId,
        commit: &str,
    ) -> Result<bool> {
        let on = on_candidate(task);
        for (number, check) in run.spec().verify.clone().iter().enumerate() {
            let known = |checked: &Checked| checked.command == check.command;
            let checks = run.state().candidates.get(task);
            if checks.is_some_and(|checks| checks.iter().any(known)) {
                continue;
            }
            let place = CheckPlace {
                on: &on,
                round: run.state().round,
                number,
            };
            if !self.check(run, guard, projector, &place, commit, check)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs the missing checks on the merged work, and returns the next commands.
    pub(super) fn step(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        projector: &mut Projector,
    ) -> Result<Vec<HostCommand>> {
        if run.spec().collects && !to_merge(&run.tasks()?).is_empty() {
            let reason = PhraseCode::MoreIsFinished;
            return Ok(vec![HostCommand::enter(Stage::Execute, reason)]);
        }
        let commit = match guard.head(run)? {
            Some(head) => head.to_string(),
            None => String::new(),
        };
        if let Some(back) = guard.merge_missing(run, &commit)? {
            return Ok(vec![back]);
        }
        for (number, check) in run.spec().verify.clone().iter().enumerate() {
            let is_seen = guard.is_active() || self.checked_here.contains(&check.command);
            let state = run.state();
            let known = |checked: &Checked| checked.command == check.command;
            let is_known = is_seen
                && state.checked.as_deref() == Some(commit.as_str())
                && state.checks.iter().any(known);
            let place = CheckPlace {
                on: "integration",
                round: state.round,
                number,
            };
            if !is_known && !self.check(run, guard, projector, &place, &commit, check)? {
                return Ok(vec![HostCommand::Wait]);
            }
        }
        Ok(after_checks(
            run.spec(),
            run.state(),
            &run.tasks()?,
            &commit,
        ))
    }

    /// Runs one check and records its result; returns false when it was stopped on request.
    fn check(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        projector: &mut Projector,
        place: &CheckPlace<'_>,
        commit: &str,
        check: &Check,
    ) -> Result<bool> {
        run.env().trust.check(check)?;
        let tree = guard.fresh_tree(run, commit)?;
        if let Some(tree) = &tree
            && !ready_for_checks(run, tree)?
        {
            return Ok(false);
        }
        if run.must_stop() {
            return Ok(false);
        }
        let launch = teamster_fs::random_hex();
        run.journal(EventKind::VerifyStarted(CheckStarted {
            on: place.on.to_owned(),
            commit: commit.to_owned(),
            command: check.command.clone(),
            launch: launch.clone(),
            round: place.round,
        }))?;
        projector.project(run);
        let folder = match &tree {
            Some(tree) => tree.work_folder(),
            None => run.env().folder.to_owned(),
        };
        let team = run.team().clone();
        let runner = CheckRunner {
            machine: run.env().machine,
            project: run.env().project,
            team: &team,
            folder: &folder,
            limit: run.env().check_limit,
            launch: &launch,
        };
        let checked = run
            .in_background(|background| {
                let mut show = |lines: &str| background.show(lines);
                runner.check(check, place, &mut show, &|| background.is_stopped())
            })?
            .map_err(|error| {
                RunError::refused(
                    error.to_string(),
                    "`teamster run --resume TEAM` tries again",
                )
            })?;
        if let Some(tree) = tree
            && let Err(error) = run.in_background(|_| tree.remove())?
        {
            run.say(&format!(
                "the tree of a check could not be removed: {error}"
            ));
        }
        self.checked_here.insert(check.command.clone());
        for remark in &checked.remarks {
            run.say(remark);
        }
        let one = [checked];
        let report = compare_with_base(&run.spec().verify, &run.state().base, &one);
        let charged = place.on != ON_BASE && report.to_fix().next().is_some();
        let [checked] = &one;
        match CheckResult::new(place.on, commit, place.round, checked, charged).event() {
            Some(what) => run.journal(what).map(|()| true),
            None => Ok(false),
        }
    }
}

/// Returns the commands after the checks of the merged work: a review and then the gate, tasks that fix failures, or
/// the end.
fn after_checks(
    spec: &RunSpec,
    state: &RunState,
    tasks: &[Task],
    commit: &str,
) -> Vec<HostCommand> {
    let report = compare_with_base(&spec.verify, &state.base, &state.checks);
    if report.to_fix().next().is_none() {
        let reason = if spec.verify.is_empty() {
            PhraseCode::NoCheckFound
        } else if report.all_passed() {
            PhraseCode::AllChecksPassed
        } else {
            PhraseCode::NoCheckBroken
        };
        return vec![HostCommand::Review {
            commit: commit.to_owned(),
            reason,
        }];
    }
    let names: Vec<&str> = report
        .to_fix()
        .map(|checked| checked.command.as_str())
        .collect();
    let names = names.join(", ");
    if state.round >= spec.max_fix {
        let why = if spec.collects {
            Phrase::new(PhraseCode::VerificationFails, [("commands", &names)])
        } else {
            Phrase::new(
                PhraseCode::VerificationStillFails,
                [("count", &state.round), ("commands", &names)],
            )
        };
        return vec![
            HostCommand::StopWorkers("verification failed"),
            HostCommand::finish(RunEnd::FixRoundsUsedUp, why),
        ];
    }
    let mut commands = Vec::new();
    for checked in report.to_fix() {
        let fix = TaskFix {
            round: state.round + 1,
            revision: state.revisions,
            command: checked.command.clone(),
            exit_code: checked.exit_code,
            commit: commit.to_owned(),
            is_target: report.missed_targets.contains(&checked),
        };
        // A host that was killed half-way has created some of them already.
        if !tasks.iter().any(|task| task.fix().as_ref() == Some(&fix)) {
            commands.push(HostCommand::add_task(fix_task(checked, fix)));
        }
    }
    let reason = Phrase::new(PhraseCode::VerificationFailed, [("commands", &names)]);
    commands.push(HostCommand::enter(Stage::Fix, reason));
    commands
}

/// Runs the setup of a worktree for checks, if the user accepts it now; returns false when it was stopped on request.
fn ready_for_checks(run: &mut RunContext<'_>, tree: &CheckTree) -> Result<bool> {
    let setup = run.env().trust.worktree_setup()?;
    let made = run.in_background(move |background| {
        let mut say = |text: &str| background.show(text);
        let stopped = || background.is_stopped();
        make_usable(tree.worktree(), || Ok(setup), &stopped, &mut say)
    })?;
    match made {
        Err(_) if run.must_stop() => Ok(false),
        made => Ok(made.map(|()| true)?),
    }
}

/// Returns the task to fix a failed check.
fn fix_task(checked: &Checked, fix: TaskFix) -> NewTask {
    let since = if fix.is_target {
        "it failed before the work began, and to make it pass is what the work is for"
    } else {
        "it did not fail before"
    };
    let how = match (checked.exit_code, checked.signal) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => checked.verdict.words().to_owned(),
    };
    let subject = format!("Fix what `{}` finds", checked.command);
    let lines: Vec<&str> = checked.last.lines().collect();
    let mut last = String::new();
    for line in lines.iter().rev() {
        if last.chars().count() + line.chars().count() > SHOWN_OUTPUT {
            break;
        }
        last = format!("{line}\n{last}");
    }
    let description = format!(
        "The team's work is merged, and `{}` fails on it ({how}); {since}. Find out why and fix the \
         cause, not the check. Run it yourself before you are done.\n\nThe last lines it printed:\n\n{}",
        clip(&checked.command, 500),
        quoted(&last),
    );
    NewTask {
        subject: clip(&subject, SUBJECT_LIMIT - 1),
        description,
        notes: TaskNotes {
            fix: Some(fix),
            ..TaskNotes::default()
        },
        ..NewTask::default()
    }
}

#[cfg(test)]
mod tests {
    use teamster_journal::payload::CheckVerdict;

    use super::super::reviewer;
    use super::*;

    fn checked(verdict: CheckVerdict) -> Checked {
        Checked {
            command: "make test".to_owned(),
            source: "--verify".to_owned(),
            verdict,
            exit_code: Some(1),
            signal: None,
            seconds: 1.0,
            last: "it broke".to_owned(),
            log: String::new(),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn checks_lead_to_the_gate_a_fix_or_the_end() {
        use CheckVerdict::{Failed, Flaky, Passed};
        let spec = |max_fix: u32| RunSpec {
            verify: vec![Check::new("make test", "--verify")],
            max_fix,
            ..RunSpec::default()
        };
        for (before, now, round, last) in [
            (Passed, Passed, 0, "team enters approval: all checks passed"),
            (
                Passed,
                Flaky,
                0,
                "team enters approval: no new failures; what fails is flaky or failed before \
                 the work began",
            ),
            (
                Failed,
                Failed,
                0,
                "team enters approval: no new failures; what fails is flaky or failed before \
                 the work began",
            ),
            (
                Passed,
                Failed,
                0,
                "team enters fix: verification failed: make test",
            ),
            (Passed, Failed, 2, "end"),
        ] {
            let mut state = RunState::default();
            state.base = vec![checked(before)];
            state.checks = vec![checked(now)];
            state.round = round;
            let commands = after_checks(&spec(2), &state, &[], "c0ffee");
            let told = match commands.last() {
                Some(HostCommand::Review { commit, reason }) => {
                    assert_eq!(commit, "c0ffee");
                    let to_gate = reviewer::gate_commands(*reason);
                    assert!(matches!(to_gate[0], HostCommand::StopWorkers(_)));
                    let [_, HostCommand::Enter { stage, reason }] = to_gate.as_slice() else {
                        panic!("{to_gate:?}")
                    };
                    format!("team enters {}: {reason}", stage.as_str())
                }
                Some(HostCommand::Enter { stage, reason }) => {
                    format!("team enters {}: {reason}", stage.as_str())
                }
                Some(HostCommand::Finish {
                    end: RunEnd::FixRoundsUsedUp,
                    ..
                }) => "end".to_owned(),
                other => panic!("{other:?}"),
            };
            assert_eq!(told, last, "{before:?}, {now:?}, round {round}");
            let stops = matches!(commands[0], HostCommand::StopWorkers(_));
            assert_eq!(stops, last == "end", "{commands:?}");
        }
    }
}

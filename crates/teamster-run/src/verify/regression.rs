//! Distinguishes failures that the team caused from those that existed before.

use teamster_journal::payload::{Check, CheckVerdict, Checked};

/// The checks of a team's work, by what they mean for it. Each check is in exactly one of the lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegressionReport<'a> {
    /// The checks that passed.
    pub passed: Vec<&'a Checked>,
    /// The checks that fail now and did not fail before the work began: these are to be fixed.
    pub regressions: Vec<&'a Checked>,
    /// The checks that fail as they did before the work began, and that the work was to make pass: these are to be fixed, too.
    pub missed_targets: Vec<&'a Checked>,
    /// The checks that fail as they did before the work began, and that the team was not asked to fix.
    pub failed_before: Vec<&'a Checked>,
    /// The checks that fail sometimes.
    pub flaky: Vec<&'a Checked>,
    /// The checks that were stopped and so prove nothing.
    pub stopped: Vec<&'a Checked>,
}

impl<'a> RegressionReport<'a> {
    /// Returns the checks that the team has to fix: those that it broke, and those that it should make pass.
    pub fn to_fix(&self) -> impl Iterator<Item = &'a Checked> + '_ {
        self.regressions.iter().chain(&self.missed_targets).copied()
    }

    /// Returns whether there was at least one check and all of them passed. A flaky check, or one that failed before,
    /// has not passed.
    pub fn all_passed(&self) -> bool {
        let others = [
            &self.regressions,
            &self.missed_targets,
            &self.failed_before,
            &self.flaky,
            &self.stopped,
        ];
        !self.passed.is_empty() && others.iter().all(|others| others.is_empty())
    }

    /// Returns whether there is nothing to fix, and no check was stopped.
    pub fn needs_no_fix(&self) -> bool {
        self.to_fix().next().is_none() && self.stopped.is_empty()
    }
}

/// Compares the present results of the checks with those on the base. `wanted` says which of them are targets of the
/// work.
///
/// Only a command that failed on the base, never passed there, and is no target is excused. If it was flaky or stopped
/// there, or did not run, its failure counts as a regression: one fix too many is better than a failure that goes
/// unnoticed.
pub fn compare_with_base<'a>(
    wanted: &[Check],
    base: &[Checked],
    now: &'a [Checked],
) -> RegressionReport<'a> {
    let is_target = |command: &str| {
        let mut wanted = wanted.iter().filter(|check| check.is_target);
        wanted.any(|check| check.command == command)
    };
    let failed_before = |command: &str| {
        let mut before = base.iter().filter(|checked| checked.command == command);
        let (mut any, mut all) = (false, true);
        before.by_ref().for_each(|checked| {
            any = true;
            all &= checked.verdict.is_failure();
        });
        any && all
    };
    let mut report = RegressionReport::default();
    for checked in now {
        let list = match checked.verdict {
            CheckVerdict::Passed => &mut report.passed,
            CheckVerdict::Flaky => &mut report.flaky,
            CheckVerdict::Stopped => &mut report.stopped,
            CheckVerdict::Failed | CheckVerdict::TimedOut if failed_before(&checked.command) => {
                if is_target(&checked.command) {
                    &mut report.missed_targets
                } else {
                    &mut report.failed_before
                }
            }
            CheckVerdict::Failed | CheckVerdict::TimedOut => &mut report.regressions,
        };
        list.push(checked);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [CheckVerdict; 5] = [
        CheckVerdict::Passed,
        CheckVerdict::Failed,
        CheckVerdict::Flaky,
        CheckVerdict::TimedOut,
        CheckVerdict::Stopped,
    ];

    fn checked(command: &str, verdict: CheckVerdict) -> Checked {
        Checked {
            command: command.to_owned(),
            source: "--verify".to_owned(),
            verdict,
            exit_code: Some(i32::from(verdict.is_failure())),
            signal: None,
            seconds: 1.0,
            last: String::new(),
            log: String::new(),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn a_failure_counts_unless_the_same_command_failed_before() {
        use CheckVerdict::{Failed, Flaky, Passed, Stopped, TimedOut};
        for (before, now, is_regression) in [
            (Some(Passed), Failed, true),
            (Some(Passed), TimedOut, true),
            (Some(Failed), Failed, false),
            (Some(TimedOut), Failed, false),
            (Some(Failed), TimedOut, false),
            // On the base it passes sometimes.
            (Some(Flaky), Failed, true),
            // Its result on the base is unknown.
            (Some(Stopped), Failed, true),
            (None, Failed, true),
            (Some(Passed), Flaky, false),
            (Some(Failed), Passed, false),
            (Some(Passed), Stopped, false),
        ] {
            let base: Vec<Checked> = before
                .into_iter()
                .map(|verdict| checked("x", verdict))
                .collect();
            let now = [checked("x", now)];
            let report = compare_with_base(&[], &base, &now);
            let what = format!("{before:?}, then {:?}", now[0].verdict);
            assert_eq!(
                report.regressions.len(),
                usize::from(is_regression),
                "{what}"
            );
        }
    }

    #[test]
    fn target_that_failed_before_has_to_be_fixed() {
        let wanted = [
            Check::new("x", "--verify").as_target(),
            Check::of_project("y", "Makefile"),
        ];
        let failed = CheckVerdict::Failed;
        let base = [checked("x", failed), checked("y", failed)];
        let now = [checked("x", failed), checked("y", failed)];
        let report = compare_with_base(&wanted, &base, &now);
        assert_eq!(report.missed_targets, [&now[0]]);
        assert_eq!(report.failed_before, [&now[1]]);
        assert_eq!(report.to_fix().collect::<Vec<_>>(), [&now[0]]);
        let now = [checked("x", CheckVerdict::Passed)];
        assert!(compare_with_base(&wanted, &base, &now).all_passed());
    }

    #[test]
    fn another_command_that_failed_excuses_nothing() {
        let base = [checked("cargo test", CheckVerdict::Failed)];
        let now = [checked("cargo test --all", CheckVerdict::Failed)];
        assert_eq!(compare_with_base(&[], &base, &now).regressions, [&now[0]]);
    }

    #[test]
    fn nothing_checked_is_not_passed() {
        assert!(!compare_with_base(&[], &[], &[]).all_passed());
        assert!(compare_with_base(&[], &[], &[checked("x", CheckVerdict::Passed)]).all_passed());
        let now = [
            checked("x", CheckVerdict::Passed),
            checked("y", CheckVerdict::Flaky),
        ];
        assert!(
            !compare_with_base(&[], &[], &now).all_passed(),
            "flaky is not passed, beside others either"
        );
        assert!(compare_with_base(&[], &[], &now).needs_no_fix());
        assert!(
            !compare_with_base(&[], &[], &[checked("x", CheckVerdict::Stopped)]).needs_no_fix()
        );
    }

    fn any_checks() -> impl Strategy<Value = Vec<Checked>> {
        let one = ("[a-c]", prop::sample::select(&ALL[..]))
            .prop_map(|(command, verdict)| checked(&command, verdict));
        prop::collection::vec(one, 0..8)
    }

    proptest! {
        #[test]
        fn every_check_is_in_one_list_and_only_failures_are_regressions(base in any_checks(), now in any_checks()) {
            let report = compare_with_base(&[], &base, &now);
            let lists = [&report.passed, &report.regressions, &report.missed_targets, &report.failed_before, &report.flaky, &report.stopped];
            prop_assert_eq!(lists.iter().map(|list| list.len()).sum::<usize>(), now.len());
            for regression in &report.regressions {
                prop_assert!(regression.verdict.is_failure());
            }
            for excused in &report.failed_before {
                prop_assert!(excused.verdict.is_failure());
                prop_assert!(base.iter().any(|before| before.command == excused.command && before.verdict.is_failure()));
            }
            if report.all_passed() {
                prop_assert!(now.iter().all(|checked| checked.verdict == CheckVerdict::Passed) && !now.is_empty());
            }
        }
    }
}

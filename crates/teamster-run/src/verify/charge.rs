//! What the team has to answer for.

use teamster_journal::payload::{CheckVerdict, Checked};

/// The checks of a team's work, by what they mean for it. Each is in exactly one of the lists, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charge<'a> {
    /// They passed.
    pub passed: Vec<&'a Checked>,
    /// They fail now and did not fail before the work began: these are to be fixed.
    pub charged: Vec<&'a Checked>,
    /// They fail, as they did before the work began.
    pub failed_before: Vec<&'a Checked>,
    /// They fail sometimes.
    pub flaky: Vec<&'a Checked>,
    /// They were stopped and say nothing.
    pub stopped: Vec<&'a Checked>,
}

impl Charge<'_> {
    /// Whether there was something to check and all of it passed. What is flaky, or failed before, has not passed.
    pub fn all_passed(&self) -> bool {
        let others = [
            &self.charged,
            &self.failed_before,
            &self.flaky,
            &self.stopped,
        ];
        !self.passed.is_empty() && others.iter().all(|others| others.is_empty())
    }

    /// Whether there is nothing to fix, and nothing that was not looked at.
    pub fn needs_no_fix(&self) -> bool {
        self.charged.is_empty() && self.stopped.is_empty()
    }
}

/// Compares what the checks say now with what they said on the base.
///
/// Only a command that failed there, and never passed, is excused. One that was flaky there, was stopped, or was not run
/// is charged when it fails now: rather one fix too many than a failure that nobody looks at.
pub fn charge<'a>(base: &[Checked], now: &'a [Checked]) -> Charge<'a> {
    let failed_before = |command: &str| {
        let mut before = base.iter().filter(|checked| checked.command == command);
        let (mut any, mut all) = (false, true);
        before.by_ref().for_each(|checked| {
            any = true;
            all &= checked.verdict.is_failure();
        });
        any && all
    };
    let mut charge = Charge::default();
    for checked in now {
        let list = match checked.verdict {
            CheckVerdict::Passed => &mut charge.passed,
            CheckVerdict::Flaky => &mut charge.flaky,
            CheckVerdict::Stopped => &mut charge.stopped,
            CheckVerdict::Failed | CheckVerdict::TimedOut if failed_before(&checked.command) => {
                &mut charge.failed_before
            }
            CheckVerdict::Failed | CheckVerdict::TimedOut => &mut charge.charged,
        };
        list.push(checked);
    }
    charge
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
        for (before, now, is_charged) in [
            (Some(Passed), Failed, true),
            (Some(Passed), TimedOut, true),
            (Some(Failed), Failed, false),
            (Some(TimedOut), Failed, false),
            (Some(Failed), TimedOut, false),
            // It does pass there, at times.
            (Some(Flaky), Failed, true),
            // Nobody knows what it would have said.
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
            let charge = charge(&base, &now);
            let what = format!("{before:?}, then {:?}", now[0].verdict);
            assert_eq!(charge.charged.len(), usize::from(is_charged), "{what}");
        }
    }

    #[test]
    fn another_command_that_failed_excuses_nothing() {
        let base = [checked("cargo test", CheckVerdict::Failed)];
        let now = [checked("cargo test --all", CheckVerdict::Failed)];
        assert_eq!(charge(&base, &now).charged, [&now[0]]);
    }

    #[test]
    fn nothing_checked_is_not_passed() {
        assert!(!charge(&[], &[]).all_passed());
        assert!(charge(&[], &[checked("x", CheckVerdict::Passed)]).all_passed());
        let now = [
            checked("x", CheckVerdict::Passed),
            checked("y", CheckVerdict::Flaky),
        ];
        assert!(
            !charge(&[], &now).all_passed(),
            "flaky is not passed, beside others either"
        );
        assert!(charge(&[], &now).needs_no_fix());
        assert!(!charge(&[], &[checked("x", CheckVerdict::Stopped)]).needs_no_fix());
    }

    fn any_checks() -> impl Strategy<Value = Vec<Checked>> {
        let one = ("[a-c]", prop::sample::select(&ALL[..]))
            .prop_map(|(command, verdict)| checked(&command, verdict));
        prop::collection::vec(one, 0..8)
    }

    proptest! {
        #[test]
        fn every_check_is_in_one_list_and_only_failures_are_charged(base in any_checks(), now in any_checks()) {
            let charge = charge(&base, &now);
            let lists = [&charge.passed, &charge.charged, &charge.failed_before, &charge.flaky, &charge.stopped];
            prop_assert_eq!(lists.iter().map(|list| list.len()).sum::<usize>(), now.len());
            for charged in &charge.charged {
                prop_assert!(charged.verdict.is_failure());
            }
            for excused in &charge.failed_before {
                prop_assert!(excused.verdict.is_failure());
                prop_assert!(base.iter().any(|before| before.command == excused.command && before.verdict.is_failure()));
            }
            if charge.all_passed() {
                prop_assert!(now.iter().all(|checked| checked.verdict == CheckVerdict::Passed) && !now.is_empty());
            }
        }
    }
}

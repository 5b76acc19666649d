//! The findings of the attack on the built binary, and the tests that prove each of them mended.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// One line of the list of findings.
pub(super) struct Finding {
    /// Its number in the list, or a word for what held from the beginning.
    pub(super) line: &'static str,
    /// What must hold.
    pub(super) holds: &'static str,
    /// Modules (with `::` at the end) or tests of the runner, all of which must have run and passed.
    pub(super) tests: &'static [&'static str],
}

const fn finding(
    line: &'static str,
    holds: &'static str,
    tests: &'static [&'static str],
) -> Finding {
    Finding { line, holds, tests }
}

/// Every line of the list.
pub(super) const FINDINGS: [Finding; 22] = [
    finding(
        "1",
        "a task that is called merged is in what lands, also when the worktree cannot follow",
        &["hostile::merge_train::"],
    ),
    finding(
        "2",
        "a task without a commit is not called merged",
        &["hostile::merge_train::"],
    ),
    finding(
        "3",
        "the setup of worktrees runs only when it was accepted, in every command",
        &["hostile::trust::"],
    ),
    finding(
        "4",
        "the gate reads only what was typed after it was shown",
        &["hostile::gate_input::"],
    ),
    finding(
        "5",
        "what was shown, what was checked and what lands are the same objects",
        &["hostile::landing::"],
    ),
    finding(
        "6",
        "checks run in a tree made fresh from the commit",
        &["hostile::checks::"],
    ),
    finding(
        "7",
        "work that the index hides is not deleted",
        &["hostile::worker_results::"],
    ),
    finding(
        "8",
        "no GIT_ variable of the caller reaches an agent, a check or a setup",
        &["hostile::isolation::"],
    ),
    finding(
        "9",
        "what a worker changed is in its commit, or its task fails",
        &["hostile::worker_results::"],
    ),
    finding(
        "10",
        "checks that were found run only when they were accepted",
        &["hostile::trust::"],
    ),
    finding(
        "11",
        "links into worktrees need trust and cannot reach secrets",
        &["hostile::trust::"],
    ),
    finding(
        "12",
        "branches of the user that an agent moved are told",
        &["hostile::landing::"],
    ),
    finding(
        "13",
        "a refused landing leaves every file as it was",
        &["hostile::landing::"],
    ),
    finding(
        "14",
        "what was accepted is what runs, by content",
        &["hostile::trust::"],
    ),
    finding(
        "15",
        "texts of others are fenced in prompts",
        &["hostile::isolation::"],
    ),
    finding(
        "16",
        "workers cannot create tasks without end",
        &["hostile::worker_results::"],
    ),
    finding(
        "17",
        "budgets and health are looked at in every state of the run",
        &["hostile::merge_train::"],
    ),
    finding(
        "18",
        "a tag named like the branch does not stand in the way",
        &["hostile::landing::"],
    ),
    finding(
        "19",
        "the lock in the project decides what `worktree gc` may remove",
        &["hostile::housekeeping::"],
    ),
    finding(
        "20",
        "stopping works whatever the settings say",
        &["hostile::housekeeping::"],
    ),
    finding(
        "21",
        "paths, races, growth, leaks and slowness of the last line",
        &["hostile::housekeeping::"],
    ),
    finding(
        "held",
        "unusual repositories, git-lfs, clocks, process ids, long inboxes, two versions, limits, signals, damaged journals \
         and races of decisions",
        &[
            "hostile::repositories::",
            "hostile::large_files::",
            "hostile::clocks_and_versions::",
            "hostile::versions::",
            "hostile::long_inboxes::",
            "hostile::limits::",
            "hostile::signals::",
            "hostile::journals::",
            "hostile::decisions::",
            "hostile::security_document::",
        ],
    ),
];

/// How the tests of one finding ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// How many of them ran.
    pub(super) ran: usize,
    /// Those that failed.
    pub(super) failed: Vec<String>,
    /// Those that are named and did not run.
    pub(super) missing: Vec<&'static str>,
}

impl Proof {
    /// Judges a finding by the tests that ran and whether each passed.
    pub(super) fn of(finding: &Finding, results: &BTreeMap<String, bool>) -> Self {
        let mut proof = Self {
            ran: 0,
            failed: Vec::new(),
            missing: Vec::new(),
        };
        for name in finding.tests {
            let is_meant = |test: &str| {
                if name.ends_with("::") {
                    test.starts_with(name)
                } else {
                    test == *name
                }
            };
            let before = proof.ran;
            for (test, passed) in results.iter().filter(|(test, _)| is_meant(test)) {
                proof.ran += 1;
                if !passed {
                    proof.failed.push(test.clone());
                }
            }
            if proof.ran == before {
                proof.missing.push(name);
            }
        }
        proof
    }

    /// Returns what is wrong with it, or `None` when every test ran and passed.
    pub(super) fn failure(&self, line: &str) -> Option<String> {
        let mut text = String::new();
        if !self.failed.is_empty() {
            let _ = write!(text, "; failed: {}", self.failed.join(", "));
        }
        if !self.missing.is_empty() {
            let _ = write!(text, "; did not run: {}", self.missing.join(", "));
        }
        (!text.is_empty()).then(|| format!("finding {line}{text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_whose_test_failed_or_did_not_run_is_a_failure() {
        let results: BTreeMap<String, bool> =
            [("hostile::a::one", true), ("hostile::a::two", false)]
                .map(|(name, passed)| (name.to_owned(), passed))
                .into();
        let of = |tests| Proof::of(&finding("1", "", tests), &results);
        assert_eq!(of(&["hostile::a::one"]).failure("1"), None);
        let failed = of(&["hostile::a::"]).failure("1");
        assert_eq!(
            failed.as_deref(),
            Some("finding 1; failed: hostile::a::two")
        );
        let missing = of(&["hostile::a::on", "hostile::b::"]).failure("1");
        assert_eq!(
            missing.as_deref(),
            Some("finding 1; did not run: hostile::a::on, hostile::b::")
        );
    }

    #[test]
    fn findings_have_every_number_of_the_list() {
        let numbers: Vec<String> = (1..=21).map(|line| line.to_string()).collect();
        let listed: Vec<&str> = FINDINGS.iter().map(|finding| finding.line).collect();
        assert_eq!(listed[..21], numbers);
        assert!(FINDINGS.iter().all(|finding| !finding.tests.is_empty()));
    }
}

//! The hostile findings about the built binary, and the tests that prove that each of them is fixed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Result, bail};

use crate::product::Finished;

/// One line of the list of findings.
pub(super) struct Finding {
    /// The number in the list, or `held` for what held from the beginning.
    pub(super) line: &'static str,
    pub(super) holds: &'static str,
    /// Modules (with `::` at the end) or tests of the runner, all of which must run and pass.
    pub(super) tests: &'static [&'static str],
}

const fn finding(
    line: &'static str,
    holds: &'static str,
    tests: &'static [&'static str],
) -> Finding {
    Finding { line, holds, tests }
}

/// All findings.
pub(super) const FINDINGS: [Finding; 22] = [
    finding(
        "1",
        "a task that is called merged is in what lands, also when the worktree cannot follow",
        &[
            "hostile::merge_train::merge_that_the_worktree_cannot_follow_is_noted_and_lands_after_resume",
            "hostile::merge_train::task_that_was_marked_as_merged_by_its_worker_is_merged_all_the_same",
            "hostile::histories::",
            "hostile::full_disks::run_on_a_full_disk_ends_by_itself_and_loses_nothing",
        ],
    ),
    finding(
        "2",
        "a task without a commit is not called merged",
        &[
            "hostile::merge_train::conflict_resolution_without_a_change_is_not_called_merged",
            "hostile::merge_train::conflict_resolution_with_markers_left_is_not_called_merged",
            "hostile::merge_train::conflict_resolution_that_brings_in_a_part_is_not_called_merged",
            "hostile::merge_train::merge_driver_that_a_worker_set_up_decides_no_merge_and_does_not_run",
            "hostile::merge_train::conflict_resolution_that_changes_something_else_is_not_called_merged",
            "hostile::merge_train::task_without_a_commit_is_completed_without_a_change_and_not_merged",
            "hostile::merge_train::commits_that_change_nothing_are_no_change",
        ],
    ),
    finding(
        "3",
        "the setup of worktrees runs only when it was accepted, in every command",
        &["hostile::trust::setup::"],
    ),
    finding(
        "4",
        "the gate reads only what was typed after it was shown",
        &[
            "hostile::gate_input::lines_typed_before_a_question_is_shown_do_nothing",
            "hostile::gate_input::lines_typed_ahead_in_tmux_do_nothing_and_typing_is_seen",
            "hostile::gate_input::lines_typed_ahead_below_script_do_nothing",
            "hostile::gate_input::lines_in_a_pipe_answer_nothing",
            "hostile::gate_input::line_typed_ahead_trusts_no_project",
        ],
    ),
    finding(
        "5",
        "what was shown, what was checked and what lands are the same objects",
        &[
            "hostile::replaced_objects::",
            "hostile::landing::clone_of_the_landed_branch_is_what_the_gate_has_shown",
        ],
    ),
    finding(
        "6",
        "checks run in a tree made fresh from the commit",
        &["hostile::checks::"],
    ),
    finding(
        "7",
        "work that the index hides is not deleted",
        &[
            "hostile::worker_results::work_hidden_by_flags_rules_and_filters_is_in_what_lands",
            "hostile::worker_results::changed_attributes_of_the_repository_fail_the_task_by_name",
            "hostile::worker_results::worktree_with_hidden_work_is_kept_by_gc",
            "hostile::worker_results::ignore_rule_that_an_earlier_worker_added_hides_nothing_of_a_later_one",
        ],
    ),
    finding(
        "8",
        "no GIT_ variable of the caller reaches an agent, a check or a setup",
        &[
            "hostile::isolation::git_variables_of_the_caller_reach_no_agent_check_or_setup",
            "hostile::isolation::git_variables_of_the_caller_reach_no_leader_pane_or_detached_host",
        ],
    ),
    finding(
        "9",
        "what a worker changed is in its commit, or its task fails",
        &[
            "hostile::worker_results::change_inside_a_submodule_fails_the_task_by_name_and_is_kept",
            "hostile::worker_results::change_outside_a_sparse_checkout_is_in_what_lands",
            "hostile::worker_results::commit_of_a_submodule_that_its_remote_has_lands",
            "hostile::worker_results::commit_of_a_submodule_that_no_remote_has_is_refused_and_kept",
            "hostile::worker_results::link_to_a_commit_that_nobody_has_is_found_before_it_is_merged",
        ],
    ),
    finding(
        "10",
        "checks that were found run only when they were accepted",
        &["hostile::trust::checks::", "hostile::trust::canary::"],
    ),
    finding(
        "11",
        "links into worktrees need trust and cannot reach secrets",
        &["hostile::trust::links::"],
    ),
    finding(
        "12",
        "branches of the user that an agent moved are told",
        &[
            "hostile::landing::branches_that_a_worker_moved_are_told_at_the_gate_and_in_the_report",
            "hostile::landing::users_branch_that_a_worker_moved_is_told_and_what_is_on_it_is_shown",
            "hostile::landing::rollback_says_which_branches_have_the_work",
            "hostile::landing::users_branch_that_a_worker_moved_is_told_where_the_checks_approve",
        ],
    ),
    finding(
        "13",
        "a refused landing leaves every file as it was",
        &[
            "hostile::landing::landing_that_a_filter_stops_half_way_leaves_every_file_as_it_was",
            "hostile::landing::landing_that_stops_half_way_names_what_it_cannot_put_back",
        ],
    ),
    finding(
        "14",
        "what was accepted is what runs, by content",
        &["hostile::trust::scripts::"],
    ),
    finding(
        "15",
        "texts of others are fenced in prompts",
        &["hostile::isolation::text_of_others_cannot_leave_its_marks_in_a_prompt"],
    ),
    finding(
        "16",
        "workers cannot create tasks without end",
        &[
            "hostile::isolation::worker_cannot_add_or_retry_tasks_of_its_run",
            "hostile::isolation::tasks_beyond_the_limit_of_a_run_end_it_by_name",
        ],
    ),
    finding(
        "17",
        "budgets and health are looked at in every state of the run",
        &[
            "hostile::merge_train::minutes_that_are_used_up_stop_a_run_whose_merges_wait",
            "hostile::merge_train::minutes_that_are_used_up_stop_a_check",
            "hostile::merge_train::minutes_that_are_used_up_stop_the_setup_of_a_check",
            "hostile::merge_train::worker_that_dies_while_a_check_runs_is_noticed_at_once",
        ],
    ),
    finding(
        "18",
        "a tag named like the branch does not stand in the way",
        &[
            "hostile::housekeeping::run_with_ambiguous_names_lands_on_the_branch",
            "hostile::housekeeping::run_with_a_base_named_like_a_tag_begins_at_the_branch",
            "hostile::housekeeping::commands_that_are_printed_for_kept_work_name_the_branch_exactly",
        ],
    ),
    finding(
        "19",
        "the lock in the project decides what `worktree gc` may remove",
        &[
            "hostile::housekeeping::run_that_goes_on_is_safe_from_another_home",
            "hostile::housekeeping::run_whose_host_was_killed_is_safe_from_another_home",
            "hostile::housekeeping::integration_worktree_stays_while_anybody_runs_something_in_the_project",
        ],
    ),
    finding(
        "20",
        "stopping works whatever the settings say",
        &["hostile::trust::settings::"],
    ),
    finding(
        "21",
        "paths, races, growth, leaks and slowness of the last line",
        &[
            "hostile::housekeeping::",
            "hostile::secrets::",
            "hostile::gate_input::rejection_that_lost_to_an_approval_while_it_waited_for_the_seat_is_a_conflict",
            "hostile::gate_input::rejection_without_rollback_that_lost_to_one_with_rollback_is_a_conflict",
            "hostile::full_disks::run_on_a_full_disk_ends_by_itself_and_loses_nothing",
        ],
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
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Proof {
    pub(super) ran: usize,
    pub(super) failed: Vec<String>,
    /// Tests and modules that are named and did not run.
    pub(super) missing: Vec<&'static str>,
}

impl Proof {
    /// Judges a finding by the tests that there are and whether each passes.
    pub(super) fn of(
        finding: &Finding,
        listed: &BTreeSet<String>,
        passes: impl Fn(&str) -> bool,
    ) -> Self {
        let mut proof = Self::default();
        for name in finding.tests {
            let is_meant =
                |test: &&String| test == name || name.ends_with("::") && test.starts_with(name);
            let before = proof.ran;
            for test in listed.iter().filter(is_meant) {
                proof.ran += 1;
                if !passes(test) {
                    proof.failed.push(test.clone());
                }
            }
            if proof.ran == before {
                proof.missing.push(name);
            }
        }
        proof
    }

    /// Returns what is wrong, or `None` when every test ran and passed.
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

/// Lists the hostile tests that a run of all of them runs.
pub(super) fn list_tests() -> Result<BTreeSet<String>> {
    let list = |more: &[&str]| -> Result<BTreeSet<String>> {
        let arguments = [&["hostile::", "--list", "--format", "terse"], more].concat();
        let finished = Finished::checked(&mut super::tests(&arguments))?;
        let tests = finished.stdout.lines();
        let names = tests.filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    };
    let mut listed = list(&[])?;
    for ignored in list(&["--ignored"])? {
        listed.remove(&ignored);
    }
    if listed.is_empty() {
        bail!("the runner has no hostile tests");
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_whose_test_failed_or_did_not_run_is_a_failure() {
        let listed = ["hostile::a::one", "hostile::a::two"].map(str::to_owned);
        let listed = BTreeSet::from(listed);
        let failure = |tests| {
            let proof = Proof::of(&finding("1", "", tests), &listed, |test| {
                test != "hostile::a::two"
            });
            proof.failure("1").unwrap_or_default()
        };
        assert_eq!(failure(&["hostile::a::one"]), "");
        assert_eq!(
            failure(&["hostile::a::"]),
            "finding 1; failed: hostile::a::two"
        );
        assert_eq!(
            failure(&["hostile::a::on", "hostile::b::"]),
            "finding 1; did not run: hostile::a::on, hostile::b::"
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

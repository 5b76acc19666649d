//! The conformance suite that every back end passes.
//!
//! A back end provides a [`StoreFixture`]: its store with one fresh team, seen by a living process and by a dead one,
//! and a clock that only the test advances. Every method of the fixture checks the store afterwards: the journal alone
//! must rebuild the same tasks, its positions increase by one, it contains no token, `blocks` mirrors `blockedBy`, and
//! a refused step has changed nothing at all. A test therefore only states what happens.

#![allow(
    clippy::missing_panics_doc,
    reason = "a test that fails ends in a panic, which is what it is for"
)]

mod claims;
mod dependencies;
mod export;
mod failures;
mod fixture;
mod import;
mod journal;
mod leases;
mod messages;
mod order;
mod routing;
mod snapshot;
mod tasks;
mod teams;
mod teamwork;
mod watch;
mod workers;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use fixture::StoreFixture;

/// A test of the suite, with its name.
pub type TestCase = (&'static str, fn(&StoreFixture));

macro_rules! table {
    ($($topic:ident { $($case:ident),+ $(,)? })+) => {
        &[$($((
            concat!(stringify!($topic), "::", stringify!($case)),
            $topic::$case as fn(&StoreFixture),
        )),+),+]
    };
}

/// A test that is missing from this table is dead code, which the compiler reports.
const CASES: &[TestCase] = table! {
        tasks {
            a_new_task_is_pending_and_whole,
            ids_grow_and_are_never_used_again,
            texts_have_limits,
            an_update_changes_what_it_names_and_nothing_else,
            the_owner_of_a_task_at_work_is_not_edited,
            what_is_not_there_is_not_found,
            a_task_at_work_is_not_deleted,
            a_deleted_task_takes_its_failure_along,
            tasks_are_listed_by_number_and_counted,
        }
        claims {
            own_tasks_come_first_then_free_ones_by_number,
            what_belongs_to_another_is_not_offered,
            an_internal_task_is_claimed_only_by_id,
            a_claim_says_who_until_when_and_under_which_token,
            a_taken_or_finished_task_is_not_given_again,
            an_empty_table_gives_nothing_and_tells_nothing,
            every_worker_gets_another_task,
            an_old_token_changes_nothing,
            completing_twice_is_completing_once,
            an_owner_changed_by_others_ends_the_claim,
            a_task_put_back_by_others_ends_the_claim,
            a_task_that_others_called_completed_keeps_its_result,
            a_released_task_is_as_good_as_new,
            a_person_may_take_a_task_back,
            tasks_whose_paths_overlap_are_not_worked_on_at_once,
        }
        leases {
            a_task_longer_than_its_lease_is_renewed_and_completed,
            a_lease_that_ran_out_takes_nothing_from_the_living,
            a_dead_worker_loses_its_task_at_once_when_the_lease_ends,
            a_task_is_taken_early_only_from_who_is_proven_dead,
            a_dead_process_keeps_its_task_while_the_lease_lasts,
            a_fresh_heartbeat_speaks_for_a_worker,
            a_restarted_worker_gets_its_own_task_back_by_id,
            only_a_restarted_worker_gets_it_back,
            a_task_that_kills_its_workers_fails_for_good,
            a_clock_set_back_takes_nothing_away,
            a_clock_set_forward_takes_nothing_from_the_living,
        }
        failures {
            the_pause_doubles_and_the_fifth_failure_is_the_last,
            a_pause_holds_for_everyone_and_by_id_too,
            a_failure_says_what_went_wrong_last,
            a_retry_begins_anew,
            a_retry_ends_a_pause,
            an_assigned_task_stays_its_owners_whatever_gives_it_back,
            only_what_failed_is_retried,
            a_clock_set_back_makes_no_pause_longer,
        }
        teamwork {
            blocked_task_waits_for_an_answer_and_loses_no_attempt,
            block_without_the_claim_is_refused,
            changes_are_made_together,
            proposal_becomes_one_task_and_is_answered_once,
            one_of_several_results_is_chosen_once,
            one_bad_change_undoes_all,
        }
        dependencies {
            a_task_waits_for_its_blockers,
            a_diamond_opens_from_the_top,
            in_a_run_a_task_waits_for_the_merge_of_its_blockers,
            what_is_given_up_blocks_those_behind_it,
            mirrors_follow_every_edit,
            a_cycle_is_refused_with_its_path,
            a_blocker_must_exist,
            a_failed_blocker_blocks_visibly,
            a_deleted_blocker_blocks_nobody,
            a_deleted_dependent_leaves_no_mirror,
            a_blocker_that_others_invented_blocks,
        }
        import {
            a_plan_is_made_whole,
            a_plan_may_build_on_what_is_there,
            a_wrong_plan_makes_nothing,
            a_plan_cannot_close_a_cycle_through_ids_it_guesses,
        }
        export {
            an_exported_team_is_imported_as_it_was,
            a_claim_is_not_carried_and_its_token_is_refused,
            a_team_that_is_there_is_not_imported_over,
        }
        routing {
            a_task_goes_only_to_those_who_can_do_it,
            a_better_idle_worker_is_waited_for_but_not_for_ever,
            an_assigned_worker_need_not_be_the_best,
            what_was_assigned_to_the_dead_is_free,
            a_quarantined_worker_gets_nothing_and_keeps_nothing,
        }
        messages {
            messages_arrive_in_order_for_each_sender,
            what_is_not_acknowledged_comes_again,
            an_acknowledgement_reaches_back_to_the_last_one,
            a_reader_takes_as_much_as_it_wants,
            the_lead_reads_every_outbox_and_its_own_inbox,
            a_broadcast_reaches_everyone_but_its_sender,
            nobody_writes_into_the_void,
            keys_and_types_of_others_survive,
            content_has_a_limit,
            receipts_tell_what_became_of_a_message,
            whoever_peeks_has_not_been_told,
        }
        journal {
            writer_is_told_the_position_of_its_own_event_whoever_else_writes,
            positions_grow_by_one_and_pages_fit_together,
            the_pulse_changes_with_the_team_and_only_then,
            every_step_has_its_event_and_its_actor,
            an_event_of_ones_own_gets_the_next_position,
            the_last_event_of_a_type_is_found_wherever_it_is,
            a_token_is_nowhere_in_the_journal,
            a_secret_is_nowhere_in_the_journal,
            long_texts_come_back_whole,
            a_foreign_key_is_rebuilt_too,
        }
        watch {
            every_event_is_seen_once_and_in_order,
            a_watcher_that_comes_late_sees_what_it_missed,
            a_watcher_sees_what_others_do_meanwhile,
            beats_are_seen_as_they_come_and_go,
        }
        workers {
            a_heartbeat_is_replaced_and_ends,
            a_stop_signal_waits_until_it_is_obeyed,
        }
        teams {
            a_team_is_made_once,
            a_team_that_is_not_there_is_not_found,
            a_member_joins_once_and_may_change_its_provider,
            a_removed_team_is_gone_and_its_name_is_free,
            a_team_is_not_removed_from_under_the_living,
        }
};

/// Returns every test of the suite.
pub fn cases() -> &'static [TestCase] {
    CASES
}

/// Runs every test, each on its own fixture, and panics with the names of those that failed.
pub fn run_all(backend: &str, mut fixture: impl FnMut(&'static str) -> StoreFixture) {
    let mut wrong = Vec::new();
    for (name, case) in cases() {
        let told = catch_unwind(AssertUnwindSafe(|| {
            let fixture = fixture(name);
            case(&fixture);
            fixture.end();
        }));
        if let Err(panic) = told {
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no reason was given");
            wrong.push(format!("{backend}: {name}: {said}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} cases went wrong on the {backend} back end:\n{}",
        wrong.len(),
        cases().len(),
        wrong.join("\n")
    );
}

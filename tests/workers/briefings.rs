//! The prompt for a task that was tried before, and the worker's report at the end.

use std::time::Duration;

use teamster_journal::EventActor;
use teamster_store::Store as _;

use super::Crew;

#[test]
fn earlier_attempt_is_told_by_what_happened_to_the_work() {
    let crew = Crew::new();
    let id = crew.task("hard");
    let command = "cat > ../../../p$TEAMSTER_TASK_ATTEMPT; test $TEAMSTER_TASK_ATTEMPT = 2 || \
                   { echo half > half.txt; echo it broke >&2; exit 3; }; \
                   git apply $(grep -o '/[^`]*earlier.patch' ../../../p2); echo ok";
    crew.start("ann", command);
    crew.until_status(&id, "completed");
    let prompt = std::fs::read_to_string(crew.project.folder().join(".omc/p2")).unwrap();
    for part in [
        "## An earlier attempt\n\nThis task was tried once before. ann failed after ",
        "> exit code 3: it broke",
        "What it had changed is not in this folder. It is kept as `",
        "> half.txt",
    ] {
        assert!(prompt.contains(part), "{part} is missing in {prompt}");
    }
    let lower = prompt.to_lowercase();
    assert!(
        !lower.contains("heartbeat") && !lower.contains("pid"),
        "{prompt}"
    );
    let kept = crew.git(&["show", "refs/teamster/crew/task-1:half.txt"]);
    assert_eq!(kept, "half", "the patch could be applied");
}

#[test]
fn worker_that_dies_is_told_of_by_its_work_and_not_by_its_process() {
    let crew = Crew::new();
    let id = crew.task("long");
    crew.start("ann", "echo begun > ../../../begun; sleep 600");
    crew.until("ann works", || {
        crew.project.folder().join(".omc/begun").exists()
    });
    let beat = crew.heartbeat("ann").unwrap();
    super::kill_9(&beat["pid"]);
    crew.age_heartbeat("ann");
    crew.start("ben", "cat > ../../../p; echo ok");
    crew.until_status(&id, "completed");
    let prompt = std::fs::read_to_string(crew.project.folder().join(".omc/p")).unwrap();
    assert!(
        prompt.contains("ann stopped in the middle of it after "),
        "{prompt}"
    );
    assert!(
        prompt.contains("Nothing of it is in this folder."),
        "{prompt}"
    );
    let lower = prompt.to_lowercase();
    assert!(
        !lower.contains("heartbeat") && !lower.contains("pid"),
        "{prompt}"
    );
}

#[test]
fn agent_that_is_blocked_gets_its_task_back_with_the_answer() {
    let crew = Crew::new();
    let id = crew.task("choose");
    let command = "cat > ../../../p; if grep -q 'Use ours' ../../../p; then echo ok; else \
                   echo half > half.txt; printf '%s\\n' '```teamster' \
                   '{\"status\": \"blocked\", \"summary\": \"Which database?\"}' '```'; fi";
    crew.start("ann", command);
    crew.until("the block", || !crew.events("task.blocked").is_empty());
    let task = crew.shown(&id);
    assert_eq!(task["status"], "pending");
    assert_eq!(task["metadata"]["failedAttempts"], 0, "it costs no attempt");
    let shown = crew.project.run(["task", "show", &id]).succeeds().stdout;
    assert!(
        shown.contains("waits for an answer to ann: Which database?"),
        "{shown}"
    );
    let store = crew.project.store(Duration::ZERO);
    let team = "crew".parse().unwrap();
    let task_id = id.parse().unwrap();
    store
        .unblock(&team, &EventActor::Person, &task_id, "Use ours.")
        .unwrap();
    crew.until_status(&id, "completed");
    let prompt = std::fs::read_to_string(crew.project.folder().join(".omc/p")).unwrap();
    let parts = "A question about this task was:\n\n> Which database?\n\nThe answer of user:\n\n> Use ours.";
    assert!(prompt.contains(parts), "{prompt}");
    assert!(crew.events("task.failed").is_empty());
}

#[test]
fn agent_that_reports_a_failure_has_failed_though_it_ended_well() {
    let crew = Crew::new();
    let id = crew.task("impossible");
    let command = "printf '%s\\n' 'I tried.' '```teamster' \
                   '{\"status\": \"failed\", \"summary\": \"There is no such file.\"}' '```'";
    crew.start("ann", command);
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    let failed = &crew.events("task.failed")[0];
    assert_eq!(
        failed["data"]["failure"]["lastError"],
        "There is no such file."
    );
    assert_eq!(crew.shown(&id)["metadata"]["failedAttempts"], 1);
}

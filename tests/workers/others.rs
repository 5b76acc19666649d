//! Interventions while a worker is at its task: people take the task away, send messages, or stop the team.

use serde_json::Value::Null;

use super::{Crew, carriers, signal};

#[test]
fn an_agent_ends_soon_after_a_person_took_its_task_away() {
    let crew = Crew::new();
    let id = crew.task("taken away");
    crew.start("ann", "echo up; echo half > half.txt; sleep 600");
    crew.until("ann at work", || {
        crew.worktree("ann").join("half.txt").exists()
    });
    let begun = std::time::Instant::now();
    crew.project
        .run(["task", "release", &id, "--force"])
        .succeeds();
    let attempt = format!("refs/teamster/crew/task-{id}.attempt-1");
    crew.until("the agent of the lost claim ends", || {
        !crew.git(&["for-each-ref", &attempt]).is_empty()
    });
    // Long before the next renewal of the lease, which is due after 40 seconds.
    assert!(begun.elapsed().as_secs() < 25, "{:?}", begun.elapsed());
    let kept = crew.git(&["show", &format!("{attempt}:half.txt")]);
    assert_eq!(kept, "half");
    let log = crew.project.run(["worker", "logs", "ann", "--task", &id]);
    assert!(log.stdout.contains("no longer ours"), "{}", log.stdout);
}

#[test]
fn a_bridge_that_wakes_up_too_late_leaves_the_result_of_another_alone() {
    let crew = Crew::new();
    let id = crew.task("done by ben");
    crew.start(
        "ann",
        "echo up; echo ann > late.txt; until test -e ../../../go; do sleep 0.1; done; echo ok",
    );
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let beat = crew.heartbeat("ann").unwrap();
    // A bridge that is stopped in the middle of a change holds the team's lock; then it is stopped again, later.
    crew.until("ann stopped between two changes", || {
        signal("-STOP", &beat["pid"]);
        let released = crew.project.run(["task", "release", &id, "--force"]);
        if released.code != Some(0) {
            signal("-CONT", &beat["pid"]);
        }
        released.code == Some(0)
    });
    crew.start("ben", "echo ben > good.txt; echo ok");
    let task = crew.until_status(&id, "completed");
    assert_eq!(task["owner"], "ben");
    let pin = format!("refs/teamster/crew/task-{id}");
    let result = crew.git(&["rev-parse", &pin]);
    assert_eq!(task["metadata"]["teamster"]["result"]["commit"], result);
    // Ann's agent ends while it is not being read: its last output waits for her bridge.
    std::fs::write(crew.project.folder().join(".omc/go"), "").unwrap();
    let launch = beat["launch"].as_str().unwrap();
    crew.until("ann's agent ends", || {
        carriers("TEAMSTER_LAUNCH", launch).len() == 1
    });
    signal("-CONT", &beat["pid"]);
    let attempt = format!("{pin}.attempt-1");
    crew.until("ann keeps what she has", || {
        !crew.git(&["for-each-ref", &attempt]).is_empty()
    });
    crew.until("ann goes on", || crew.worker("ann")["status"] == "polling");
    assert_eq!(crew.git(&["show", &format!("{attempt}:late.txt")]), "ann");
    assert_eq!(crew.git(&["rev-parse", &pin]), result);
    assert_eq!(crew.shown(&id)["owner"], "ben");
}

#[test]
fn a_message_that_comes_after_the_prompt_is_in_the_next_one() {
    let crew = Crew::new();
    let command = "echo $TEAMSTER_INBOX > ../../../inbox; cat > ../../../p$TEAMSTER_TASK_ID; \
        until test -e ../../../go; do sleep 0.1; done; echo ok";
    let first = crew.task("first");
    crew.start("ann", command);
    let prompt = |id: &str| {
        let file = crew.project.folder().join(format!(".omc/p{id}"));
        std::fs::read_to_string(file).unwrap_or_default()
    };
    crew.until("the first prompt is read", || {
        prompt(&first).contains("Do not commit")
    });
    let send = [
        "message",
        "send",
        "--to",
        "ann",
        "--from",
        "lead",
        "a late word",
    ];
    crew.project.run(send).succeeds();
    let inbox = std::fs::read_to_string(crew.project.folder().join(".omc/inbox")).unwrap();
    crew.until("the message lies in a file that nobody reads", || {
        std::fs::metadata(inbox.trim()).is_ok_and(|file| file.len() > 0)
    });
    let receipts = || {
        let list = crew.project.run(["message", "list", "--json"]).json();
        let list = list["messages"].as_array().unwrap().clone();
        let it = list
            .into_iter()
            .find(|message| message["content"] == "a late word");
        it.map(|message| (message["deliveredAt"].clone(), message["ackedAt"].clone()))
            .unwrap()
    };
    assert_eq!(receipts(), (Null, Null), "nobody has read it");
    std::fs::write(crew.project.folder().join(".omc/go"), "").unwrap();
    crew.until_status(&first, "completed");
    assert!(!prompt(&first).contains("a late word"));
    let second = crew.task("second");
    crew.until_status(&second, "completed");
    assert!(
        prompt(&second).contains("a late word"),
        "{}",
        prompt(&second)
    );
    assert!(receipts().0.is_string() && receipts().1.is_string());
    let third = crew.task("third");
    crew.until_status(&third, "completed");
    assert!(!prompt(&third).contains("a late word"), "told twice");
}

#[test]
fn a_worker_is_resumed_once_for_one_wish() {
    let crew = Crew::new();
    crew.start_with("ann", "echo up; exit 1", &[], &[("TEAMSTER_LOG", "debug")]);
    let times_read = || {
        let trace = crew.project.folder().join(".omc/logs/crew/ann/trace.log");
        let trace = std::fs::read_to_string(trace).unwrap_or_default();
        trace.matches("read the mail").count()
    };
    let send = |text: &str| {
        let args = ["message", "send", "--to", "ann", "--from", "lead", text];
        crew.project.run(args).succeeds();
    };
    let fail = || {
        let before = crew.events("worker.quarantined").len();
        for number in 0..3 {
            crew.task(&format!("fails {number}"));
        }
        crew.until("a quarantine", || {
            crew.events("worker.quarantined").len() > before
        });
        crew.until("all see it", || {
            crew.worker("ann")["verdict"] == "quarantined"
        });
    };
    fail();
    // A message for the agent comes before the shutdown request, so that the two are not acknowledged at once.
    send("for the agent");
    crew.project.run(["worker", "resume", "ann"]).succeeds();
    crew.until("ann goes on", || crew.events("worker.resumed").len() == 1);
    fail();
    let before = times_read();
    send("anything");
    crew.until("ann's bridge has read it", || times_read() > before);
    assert_eq!(crew.worker("ann")["verdict"], "quarantined");
    assert_eq!(crew.events("worker.resumed").len(), 1);
}

#[test]
fn shutdown_gives_back_the_task_of_a_worker_that_was_gone_already() {
    let crew = Crew::new();
    let id = crew.task("left behind");
    crew.start("ann", "echo up; echo $TMPDIR > ../../../temp; sleep 600");
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    let temp = crew.project.folder().join(".omc/temp");
    crew.until("its temp folder is told", || temp.exists());
    let temp = std::fs::read_to_string(temp).unwrap().trim().to_owned();
    crew.kill_all_of("ann");
    let stopped = crew.project.run(["shutdown", "--json"]).succeeds().json();
    assert_eq!(stopped["workers"][0]["how"], "gone");
    assert_eq!(crew.shown(&id)["status"], "pending");
    assert!(!std::path::Path::new(&temp).exists(), "{temp} is left");
}

//! Tasks that fail for good, and lost workers: the run ends, and reports it.

use teamster_testkit::RunCmd;

use super::Shop;

/// `late` always comes after another task has changed the same line: `first`, then `second`, then `third`.
const CONFLICTS: &str = r#"
[[tasks]]
id = "first"
subject = "First"
owner = "worker-1"
[[tasks]]
id = "late"
subject = "Late"
owner = "worker-2"
[[tasks]]
id = "second"
subject = "Second"
owner = "worker-1"
blockedBy = ["first"]
[[tasks]]
id = "third"
subject = "Third"
owner = "worker-1"
blockedBy = ["second"]
[[tasks]]
id = "behind"
subject = "Behind"
blockedBy = ["late"]
[[tasks]]
id = "far"
subject = "Far behind"
blockedBy = ["behind"]
"#;

#[test]
fn a_third_conflict_ends_the_task_and_all_behind_it_and_the_others_go_on() {
    let shop = Shop::in_use();
    let plan = shop.plan(CONFLICTS);
    let has = |word: &str| {
        format!(
            "until git show omc-team/shop/integration:news.txt | grep -q {word}; do sleep 0.02; done"
        )
    };
    let there = |file: &str| format!("until test -e ROOT/{file}; do sleep 0.02; done");
    let step = |task: &str, command: &str, text: &str| {
        format!(
            "[[step]]\ntask = \"{task}\"\ndo = \"run\"\ncommand = \"{command}\"\n\
             [[step]]\ntask = \"{task}\"\ndo = \"edit\"\npath = \"news.txt\"\ncontent = \"{text}\\n\"\n"
        )
    };
    let script = [
        step("first", &there("late"), "one"),
        step("second", &there("again-1"), "two"),
        step("third", &there("again-2"), "three"),
        step("late", &format!("touch ROOT/late; {}", has("one")), "late"),
        step(
            "Resolve the conflict of task",
            &format!(
                "if test -e ROOT/again-1; then touch ROOT/again-2; {}; else touch ROOT/again-1; {}; fi",
                has("three"),
                has("two")
            ),
            "resolved, one would think",
        ),
    ]
    .concat();
    let script = shop.script(&script);
    let args = RunCmd::new("shop", "2:w", "conflicts")
        .provider(&script)
        .plan(&plan)
        .approve("auto")
        .verify("true");
    let ran = shop.run(&args).exits(14);
    assert!(ran.stdout.contains("for the last time"), "{}", ran.stdout);
    let conflicts = shop.events_of("merge.conflict");
    let finals: Vec<bool> = conflicts
        .iter()
        .map(|event| event["data"]["final"].as_bool().unwrap())
        .collect();
    assert_eq!(finals, [false, false, true]);
    assert_eq!(shop.stage(), "approval", "the others' work is asked about");
    shop.is_quiet();
    shop.has_drafts();
    let states: Vec<(String, String)> = shop
        .tasks()
        .iter()
        .map(|task| {
            let word = |key: &str| task[key].as_str().unwrap().to_owned();
            (word("subject"), word("state"))
        })
        .collect();
    let state = |subject: &str| {
        let found = states.iter().find(|(of, _)| of == subject);
        found.map(|(_, state)| state.as_str())
    };
    for done in ["First", "Second", "Third"] {
        assert_eq!(state(done), Some("completed"), "{states:?}");
    }
    assert_eq!(state("Late"), Some("failed"), "{states:?}");
    assert_eq!(state("Behind"), Some("blocked"), "{states:?}");
    let commit = shop.asked();
    let approved = shop.run(&["approve", "--team", "shop", "--commit", &commit]);
    approved.exits(14);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "three");
    assert!(!shop.left().is_empty(), "work that is not merged is kept");
    let report = shop.report();
    let both = "kept as refs/teamster/shop/task-2 (its last resolution as refs/teamster/shop/task-";
    for part in ["Late", "Behind", "omc-team/shop/worker-2", both] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    shop.has_drafts();
}

#[test]
fn a_run_whose_workers_take_no_more_tasks_ends() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let plan = shop.parts(4);
    let script = shop.script("[[step]]\ndo = \"fail\"\ntext = \"no\"\n");
    let args = RunCmd::new("shop", "1:w", "all parts")
        .provider(&script)
        .plan(&plan);
    let ran = shop.run(&args).exits(14);
    assert!(ran.stderr.contains("no worker is left"), "{}", ran.stderr);
    assert_eq!(shop.of_user(), before);
    shop.is_quiet();
}

#[test]
fn a_run_none_of_whose_workers_can_be_started_fails_and_says_why() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let config = shop.aside().join(".config/teamster");
    std::fs::create_dir_all(&config).unwrap();
    let setup = "[worktree]\nsetup = [\"echo no disk >&2; exit 3\"]\n";
    std::fs::write(config.join("config.toml"), setup).unwrap();
    let ran = shop.scripted_run("", &[]).run().exits(1);
    assert!(ran.stderr.contains("exit 3"), "{}", ran.stderr);
    assert_eq!(shop.of_user(), before);
    shop.is_quiet();
}

#[test]
fn a_run_whose_worker_has_died_too_often_ends() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let script = "[[step]]\ndo = \"run\"\ncommand = \"touch ROOT/begun; sleep 600\"\n";
    let mut host = shop.scripted_run(script, &[]).spawn();
    shop.until("the work", || shop.aside().join("begun").exists());
    let folder = ".omc/state/team-bridge/shop";
    let beat_file = format!("{folder}/worker-1.heartbeat.json");
    let mut beat = shop.state_file(&beat_file);
    host.kill().unwrap();
    host.wait().unwrap();
    crate::workers::kill_9(&beat["pid"]);
    // It has reached the restart limit, and has been silent for a minute.
    let launch_file = format!("{folder}/worker-1.launch.json");
    let mut launch = shop.state_file(&launch_file);
    launch["restarts"] = 3.into();
    let then = crate::kit::now().as_millis() - 60_000;
    beat["lastPollAt"] = serde_json::json!(teamster_types::Time::from_millis(then));
    launch["startedAt"] = serde_json::json!(teamster_types::Time::from_millis(then - 1_000));
    shop.project.write(&launch_file, &launch.to_string());
    shop.project.write(&beat_file, &beat.to_string());
    let ran = shop.run(&["run", "--resume", "shop"]).exits(14);
    assert!(ran.stdout.contains("ended too often"), "{}", ran.stdout);
    let times = ran.stdout.matches("worker-1 is dead").count();
    assert_eq!(times, 1, "said once: {}", ran.stdout);
    assert_eq!(shop.of_user(), before);
    shop.is_quiet();
}

#[test]
fn owner_of_a_plan_is_kept_after_a_failed_attempt_and_a_retry() {
    let shop = Shop::new();
    let plan = shop.plan("[[tasks]]\nid = \"one\"\nsubject = \"One\"\nowner = \"worker-2\"\n");
    let script = shop.script(
        "[[step]]\ndo = \"run\"\ncommand = \"echo $TEAMSTER_WORKER >> ROOT/tried; test $(grep -c worker ROOT/tried) -ge 2 && echo made > made.txt\"\n",
    );
    let args = RunCmd::new("shop", "2:w", "make it")
        .provider(&script)
        .plan(&plan)
        .approve("auto")
        .verify("true");
    shop.run(&args).exits(0);
    let claimed = shop.events_of("task.claimed");
    let by: Vec<&str> = claimed
        .iter()
        .map(|event| event["actor"].as_str().unwrap())
        .collect();
    assert_eq!(by, ["worker-2", "worker-2"]);
}

//! The merge train under failures: work that is reported as merged is in what lands.

use std::time::{Duration, Instant};

use super::add_filter;
use crate::run::Shop;

/// Two independent tasks.
const TWO: &str =
    "[[tasks]]\nid = \"one\"\nsubject = \"First\"\n[[tasks]]\nid = \"two\"\nsubject = \"Second\"\n";
const AUTO: [&str; 4] = ["--approve", "auto", "--verify", "true"];

/// Starts a run of a plan with workers that play a script.
fn run(shop: &Shop, plan: &str, script: &str, more: &[&str]) -> crate::kit::Call {
    let plan = shop.plan(plan);
    let args = [&["--plan", &plan], more].concat();
    shop.scripted_run(script, &args)
}

/// Returns a step of a script that runs a command.
fn step(task: &str, command: &str) -> String {
    format!("[[step]]\ntask = {task:?}\ndo = \"run\"\ncommand = {command:?}\n")
}

fn files(shop: &Shop) -> Vec<String> {
    let listed = shop.git(&["ls-tree", "-r", "--name-only", "main"]);
    listed.lines().map(str::to_owned).collect()
}

#[track_caller]
fn has(shop: &Shop, file: &str) {
    let files = files(shop);
    assert!(files.iter().any(|found| found == file), "{file}: {files:?}");
}

#[test]
fn merge_that_the_worktree_cannot_follow_is_noted_and_lands_after_resume() {
    let shop = Shop::new();
    add_filter(&shop, "*/integration");
    let script = step("one", "echo 1 > one.big") + &step("two", "echo 2 > two.txt");
    let ran = run(&shop, TWO, &script, &AUTO).run();
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    assert!(ran.stderr.contains("one.big"), "{}", ran.stderr);
    for event in shop.events_of("merge.merged") {
        let commit = event["data"]["commit"].as_str().unwrap();
        let branch = "refs/heads/omc-team/shop/integration";
        shop.git(&["merge-base", "--is-ancestor", commit, branch]);
    }
    std::fs::remove_file(shop.aside().join("fail")).unwrap();
    shop.run(&["run", "--resume", "shop"]).exits(0);
    has(&shop, "one.big");
    has(&shop, "two.txt");
    shop.is_quiet();
}

/// Two tasks that change the same line.
const BOTH: &str = "echo $TEAMSTER_TASK_ID > news.txt; touch ROOT/at-$TEAMSTER_TASK_ID; \
     until test -e ROOT/at-1 && test -e ROOT/at-2; do sleep 0.02; done";

/// Starts a run in which the second task conflicts, and whose resolver runs this command.
fn conflict(shop: &Shop, resolve: &str) -> crate::kit::Ran {
    let script = step("one", BOTH) + &step("two", BOTH) + &step("Resolve the conflict", resolve);
    let script = shop.script(&script);
    let plan = shop.plan(TWO);
    let args = ["run", "2:w", "mend it", "--team", "shop", "--plan", &plan];
    let more = ["--provider", &script];
    shop.call(args.iter().chain(&more).chain(&AUTO)).run()
}

/// Asserts that the output names the unmerged work and where it is kept.
#[track_caller]
fn names_what_is_missing(shop: &Shop, ran: &crate::kit::Ran) {
    let failed = shop.tasks();
    let lost = failed
        .iter()
        .filter(|task| task["metadata"]["permanentlyFailed"] == true)
        .find(|task| task["metadata"]["teamster"]["resolves"].is_null())
        .unwrap_or_else(|| panic!("{failed:#?}"));
    let kept = format!("refs/teamster/shop/task-{}", lost["id"].as_str().unwrap());
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("NOT merged"), "{said}");
    assert!(said.contains(&kept), "{said}");
    let commit = lost["metadata"]["teamster"]["result"]["commit"]
        .as_str()
        .unwrap();
    assert_eq!(shop.git(&["rev-parse", &kept]), commit, "it is there");
    assert_ne!(lost["metadata"]["teamster"]["merged"], true);
}

#[test]
fn merge_driver_that_a_worker_set_up_decides_no_merge_and_does_not_run() {
    let shop = Shop::new();
    // Only one of them writes git's settings: two at once would conflict on its lock.
    let drive = format!(
        "git config merge.default keep; git config merge.keep.driver 'touch ROOT/ran; exit 0'; {BOTH}"
    );
    let resolve = "echo both > news.txt";
    let script = step("one", &drive) + &step("two", BOTH) + &step("Resolve the conflict", resolve);
    let script = shop.script(&script);
    let plan = shop.plan(TWO);
    let args = ["run", "2:w", "mend it", "--team", "shop", "--plan", &plan];
    let more = ["--provider", &script];
    let ran = shop.call(args.iter().chain(&more).chain(&AUTO)).run();
    assert!(!shop.aside().join("ran").exists(), "the driver ran");
    let ran = ran.exits(11);
    assert!(
        ran.stdout.contains("merge.keep.driver"),
        "it is told: {}",
        ran.stdout
    );
    let merged = shop.git(&["show", "omc-team/shop/integration:news.txt"]);
    assert_eq!(merged, "both", "the conflict was found and resolved");
    shop.is_quiet();
}

#[test]
fn conflict_resolution_without_a_change_is_not_called_merged() {
    let shop = Shop::new();
    let ran = conflict(&shop, "true").exits(14);
    names_what_is_missing(&shop, &ran);
    let asked = shop.tasks().len();
    assert_eq!(asked, 4, "it was asked for twice: {:#?}", shop.tasks());
    shop.is_quiet();
}

#[test]
fn conflict_resolution_with_markers_left_is_not_called_merged() {
    let shop = Shop::new();
    let marks = "printf '<<<<<<< ours\\n1\\n=======\\n2\\n>>>>>>> theirs\\n' > news.txt";
    let ran = conflict(&shop, marks).exits(14);
    names_what_is_missing(&shop, &ran);
    let integration = "omc-team/shop/integration:news.txt";
    let merged = shop.git(&["show", integration]);
    assert!(!merged.contains("<<<<"), "{merged}");
}

#[test]
fn conflict_resolution_that_changes_something_else_is_not_called_merged() {
    let shop = Shop::new();
    let ran = conflict(&shop, "echo done > elsewhere.txt").exits(14);
    names_what_is_missing(&shop, &ran);
}

#[test]
fn conflict_resolution_that_brings_in_a_part_is_not_called_merged() {
    let shop = Shop::new();
    // The second task ends after the first is merged, so it is the one that conflicts.
    let first = "until test -e ROOT/begun; do sleep 0.02; done; echo 1 > news.txt";
    let second = "touch ROOT/begun; echo 2 > news.txt; echo new > feature.txt; rm readme.txt; \
         until test $(git rev-parse refs/heads/omc-team/shop/integration) != $(git rev-parse main); do sleep 0.02; done";
    let script = step("one", first)
        + &step("two", second)
        + &step("Resolve the conflict", "echo 1 and 2 > news.txt");
    let script = shop.script(&script);
    let plan = shop.plan(TWO);
    let args = ["run", "2:w", "mend it", "--team", "shop", "--plan", &plan];
    let more = ["--provider", &script];
    let ran = shop
        .call(args.iter().chain(&more).chain(&AUTO))
        .run()
        .exits(14);
    names_what_is_missing(&shop, &ran);
    let told = "it left out feature.txt, readme.txt";
    assert!(ran.stdout.contains(told), "{}", ran.stdout);
}

#[test]
fn conflict_resolution_that_works_the_second_time_brings_the_work_in() {
    let shop = Shop::new();
    let second = "test -e ROOT/once && echo 1 and 2 > news.txt; touch ROOT/once";
    conflict(&shop, second).exits(0);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "1 and 2");
    let tasks = shop.tasks();
    let roots = tasks
        .iter()
        .filter(|task| task["metadata"]["teamster"]["resolves"].is_null());
    for root in roots {
        assert_eq!(root["metadata"]["teamster"]["merged"], true, "{root}");
    }
}

#[test]
fn task_without_a_commit_is_completed_without_a_change_and_not_merged() {
    let shop = Shop::new();
    let script = step("one", "echo 1 > one.txt") + &step("two", "true");
    let ran = run(&shop, TWO, &script, &AUTO).run().exits(0);
    has(&shop, "one.txt");
    let merged = shop.events_of("merge.merged");
    let merged: Vec<&str> = merged
        .iter()
        .filter_map(|event| event["taskId"].as_str())
        .collect();
    assert_eq!(merged, ["1"]);
    assert!(
        ran.stdout.contains("completed without a change"),
        "{}",
        ran.stdout
    );
    let report = shop.report();
    assert!(report.contains("completed, no change"), "{report}");
    assert!(
        report.contains("1 merged, 1 completed without a change"),
        "{report}"
    );
}

#[test]
fn commits_that_change_nothing_are_no_change() {
    let shop = Shop::new();
    let git = "git -c user.name=x -c user.email=x@x";
    let script = step("one", &format!("{git} commit -q --allow-empty -m nothing"))
        + &step("two", "git reset -q --hard HEAD~0; echo 2 > two.txt");
    run(&shop, TWO, &script, &AUTO).run().exits(0);
    let unchanged = shop.events_of("task.unchanged");
    assert_eq!(unchanged.len(), 1, "{unchanged:?}");
    assert_eq!(unchanged[0]["taskId"], "1");
    has(&shop, "two.txt");
}

/// The commands by which a worker marks its own task as merged before it is done.
const FORGE: &str = "file=$(ls $HOME/.claude/tasks/shop/$TEAMSTER_TASK_ID.json); \
     sed -i 's/\"merged\": *false/\"merged\": true/' $file; echo $TEAMSTER_TASK_ID > part-$TEAMSTER_TASK_ID.txt";

#[test]
fn task_that_was_marked_as_merged_by_its_worker_is_merged_all_the_same() {
    let shop = Shop::new();
    let script = step("one", FORGE) + &step("two", "echo 2 > part-2.txt");
    let ran = run(&shop, TWO, &script, &AUTO).run().exits(0);
    assert!(ran.stdout.contains("is merged again"), "{}", ran.stdout);
    has(&shop, "part-1.txt");
    has(&shop, "part-2.txt");
    assert_eq!(shop.events_of("merge.lost").len(), 1);
}

#[test]
fn run_without_the_check_of_merges_loses_what_its_worker_marked() {
    let shop = Shop::new();
    let script = step("one", FORGE) + &step("two", "echo 2 > part-2.txt");
    let call = run(&shop, TWO, &script, &AUTO).env("TEAMSTER_TEST_UNCHECKED_MERGES", "1");
    call.run().exits(0);
    let files = files(&shop);
    assert!(
        !files.contains(&"part-1.txt".to_owned()),
        "the check is for nothing: {files:?}"
    );
}

#[test]
fn minutes_that_are_used_up_stop_a_run_whose_merges_wait() {
    let shop = Shop::new();
    // Eight merges of two seconds each.
    let slow = "case \"$PWD\" in */integration) sleep 2;; esac; cat";
    shop.git(&["config", "filter.big.smudge", slow]);
    shop.git(&["config", "filter.big.clean", "cat"]);
    shop.project.write(".gitattributes", "*.big filter=big\n");
    shop.git(&["add", ".gitattributes"]);
    shop.git(&["commit", "--quiet", "--message", "Filter"]);
    let plan = shop.parts(8);
    let script =
        "[[step]]\ndo = \"run\"\ncommand = \"echo $TEAMSTER_TASK_ID > $TEAMSTER_TASK_ID.big\"\n";
    let start = Instant::now();
    let more = ["--plan", &plan, "--budget-minutes", "0.08"];
    let more = [AUTO.as_slice(), &more].concat();
    let ran = shop.scripted_run(script, &more).run().exits(12);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(16), "{took:?}\n{}", ran.stdout);
    let resume = ["run", "--resume", "shop", "--budget-minutes", "10"];
    shop.run(&resume).exits(0);
    for part in 1..=8 {
        has(&shop, &format!("{part}.big"));
    }
}

#[test]
fn minutes_that_are_used_up_stop_a_check() {
    let shop = Shop::new();
    let start = Instant::now();
    let more = ["--verify", "sleep 120", "--budget-minutes", "0.02"];
    let ran = shop.scripted_run("", &more).run().exits(12);
    assert!(start.elapsed() < Duration::from_secs(60), "{}", ran.stdout);
    shop.is_quiet();
}

#[test]
fn worker_that_dies_while_a_check_runs_is_noticed_at_once() {
    let shop = Shop::new();
    let check = "grep -q nothing news.txt || { touch $HOME/checking; until test -e $HOME/go; do sleep 0.02; done; }";
    let script = step("mend it", "echo mended > news.txt");
    let more = ["--verify", check, "--approve", "auto"];
    let mut host = shop.scripted_run(&script, &more).spawn();
    shop.until("the check", || shop.aside().join("checking").exists());
    let file = ".omc/state/team-bridge/shop/worker-1.heartbeat.json";
    let mut beat = shop.state_file(file);
    crate::workers::kill_9(&beat["pid"]);
    // Makes its last heartbeat a minute older, instead of waiting.
    let then = crate::kit::now().as_millis() - 60_000;
    beat["lastPollAt"] = serde_json::json!(teamster_types::Time::from_millis(then));
    shop.project.write(file, &beat.to_string());
    shop.until("word of its death", || {
        !shop.events_of("worker.dead").is_empty()
    });
    std::fs::write(shop.aside().join("go"), "").unwrap();
    assert!(host.wait().unwrap().success());
    shop.is_quiet();
}

#[test]
fn minutes_that_are_used_up_stop_the_setup_of_a_check() {
    let shop = Shop::new();
    let settings = shop.aside().join(".config/teamster");
    std::fs::create_dir_all(&settings).unwrap();
    let slow = "[worktree]\nsetup = [\"sleep 100\"]\n";
    std::fs::write(settings.join("config.toml"), slow).unwrap();
    let start = Instant::now();
    let more = ["--verify", "true", "--budget-minutes", "0.02"];
    shop.scripted_run("", &more).run().exits(12);
    assert!(start.elapsed() < Duration::from_secs(60));
    shop.is_quiet();
}

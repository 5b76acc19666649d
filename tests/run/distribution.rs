//! A task without a planner becomes one task, a copy for each worker, or the best of several results.

use teamster_testkit::RunCmd;

use super::Shop;

/// Each worker writes its own name into the news, with a different length.
const OWN_NEWS: &str = r#"
[[step]]
task = "write news"
do = "run"
command = "case $TEAMSTER_WORKER in worker-1) echo bad > news.txt;; worker-2) seq 9 > news.txt; echo good >> news.txt;; *) echo good > news.txt;; esac; echo $TEAMSTER_WORKER >> news.txt"
"#;

fn run(shop: &Shop, crew: &str, more: &[&str]) -> crate::kit::Ran {
    let script = shop.script(OWN_NEWS);
    let args = RunCmd::new("shop", crew, "write news").provider(&script);
    shop.call(args.more(more)).run()
}

#[test]
fn sentence_is_one_task_and_several_workers_are_told_how_to_get_more() {
    let shop = Shop::new();
    let ran = run(&shop, "3:w", &["--verify", "true", "--approve", "auto"]).exits(0);
    assert_eq!(shop.tasks().len(), 1);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("one task for 3 workers"), "{said}");
    for way in ["--leader", "--plan", "--each", "--best-of"] {
        assert!(said.contains(way), "{way}: {said}");
    }
}

#[test]
fn each_worker_gets_the_sentence_where_that_is_asked_for() {
    let shop = Shop::new();
    run(
        &shop,
        "2:w",
        &["--each", "--approve", "never", "--verify", "true"],
    );
    let owners: Vec<String> = shop
        .tasks()
        .iter()
        .filter(|task| task["subject"] == "write news")
        .map(|task| task["owner"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(owners, ["worker-1", "worker-2"]);
}

#[test]
fn best_result_that_passes_lands_and_the_others_are_kept() {
    let shop = Shop::new();
    let check = "! test -e news.txt || grep -q good news.txt";
    let more = ["--best-of", "--verify", check, "--approve", "auto"];
    let ran = run(&shop, "3:w", &more).exits(0);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "good\nworker-3");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        said.contains("is taken: of 2 that pass it is the smallest"),
        "{said}"
    );
    let chosen = shop.events_of("candidate.chosen");
    assert_eq!(chosen.len(), 1);
    let others = chosen[0]["data"]["others"].as_array().unwrap().clone();
    assert_eq!(others.len(), 2);
    for other in others {
        let kept = other["ref"].as_str().unwrap();
        assert!(
            shop.git(&["show", &format!("{kept}:news.txt")])
                .contains("worker-")
        );
    }
    let report = shop.report();
    assert_eq!(report.matches("done, not chosen").count(), 2, "{report}");
    assert!(
        report.contains("the work of task 1, which was not chosen"),
        "{report}"
    );
    let marks: Vec<String> = shop
        .tasks()
        .iter()
        .map(|task| task["metadata"]["teamster"]["merged"].to_string())
        .collect();
    assert_eq!(marks, ["\"not chosen\"", "\"not chosen\"", "true"]);
}

/// Returns a judge with this answer that saves its prompt and input.
fn judge(shop: &Shop, says: &str) -> String {
    let root = shop.aside().display().to_string();
    let script = format!(
        "echo x >> {root}/judged\ncat > {root}/judge-prompt\ncp result-*.patch {root}\n{says}\n"
    );
    std::fs::write(shop.aside().join("judge.sh"), script).unwrap();
    format!("r=command:sh {root}/judge.sh")
}

const CHECK: &str = "! test -e news.txt || grep -q good news.txt";

fn judged(shop: &Shop, crew: &str, says: &str) -> crate::kit::Call {
    let provider = judge(shop, says);
    let script = shop.script(OWN_NEWS);
    let args = RunCmd::new("shop", crew, "write news")
        .provider(&script)
        .provider(&provider)
        .verify(CHECK)
        .approve("auto")
        .more(&["--best-of", "--review", "off"]);
    shop.call(args)
}

#[test]
fn judge_chooses_among_the_results_that_pass() {
    for role in ["judge", "reviewer"] {
        let shop = Shop::new();
        let crew = format!("3:w,1:r:{role}");
        let says = r#"echo 'I looked.'; echo '{"choice": "2", "reason": "It has all of it."}'"#;
        let ran = judged(&shop, &crew, says).run().exits(0);
        let news = shop.git(&["show", "main:news.txt"]);
        assert!(news.ends_with("good\nworker-2"), "the larger one: {news}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains("is taken: worker-4 chose it: It has all of it."),
            "{said}"
        );
        let chosen = shop.events_of("candidate.chosen");
        assert_eq!(chosen[0]["data"]["by"], "worker-4");
        assert_eq!(chosen[0]["data"]["others"].as_array().unwrap().len(), 2);
        let asked = shop.events_of("judge.asked");
        assert_eq!(
            asked[0]["data"]["candidates"],
            serde_json::json!(["2", "3"])
        );
        let told = std::fs::read_to_string(shop.aside().join("judge-prompt")).unwrap();
        for part in [
            "> write news",
            "## Result 2, by worker-2",
            "`result-3.patch`",
        ] {
            assert!(told.contains(part), "{part} is missing in\n{told}");
        }
        assert!(!told.contains("## Result 1"), "it fails its checks: {told}");
        let patch = std::fs::read_to_string(shop.aside().join("result-2.patch")).unwrap();
        assert!(patch.contains("+worker-2"), "{patch}");
        shop.is_quiet();
    }
}

#[test]
fn judge_that_fails_leaves_the_choice_to_the_size_and_that_is_said() {
    for (says, why) in [
        ("echo 'the second'", "its answer cannot be used"),
        (r#"echo '{"choice": "1", "reason": "x"}'"#, "there are 2, 3"),
        ("exit 3", "it failed: exit code 3"),
        ("echo thinking; sleep 600", "too long"),
    ] {
        let shop = Shop::new();
        let call = judged(&shop, "3:w,1:r:judge", says);
        let ran = call.env("TEAMSTER_WORKER_IDLE_LIMIT", "4s").run().exits(0);
        assert_eq!(
            shop.git(&["show", "main:news.txt"]),
            "good\nworker-3",
            "{says}"
        );
        let failed = shop.events_of("judge.failed");
        assert_eq!(failed.len(), 1, "{says}");
        let chosen = shop.events_of("candidate.chosen");
        let reason = chosen[0]["data"]["reason"].as_str().unwrap();
        for part in [why, "of 2 that pass it is the smallest"] {
            assert!(reason.contains(part), "{says}: {reason}");
        }
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains("worker-4 was asked which is the best"),
            "{said}"
        );
        shop.is_quiet();
    }
}

#[test]
fn judge_is_not_asked_about_the_only_result_that_passes() {
    let shop = Shop::new();
    judged(&shop, "2:w,1:r:judge", "echo never").run().exits(0);
    assert!(!shop.aside().join("judged").exists());
    let chosen = shop.events_of("candidate.chosen");
    assert_eq!(
        chosen[0]["data"]["reason"],
        "it is the only one that passes"
    );
}

#[test]
fn host_killed_while_a_judge_looks_ends_it_and_asks_again() {
    let shop = Shop::new();
    let root = shop.aside().display().to_string();
    let says = format!(
        "test -e {root}/go || {{ touch {root}/judging; sleep 600; }}\necho '{{\"choice\": 2, \"reason\": \"x\"}}'"
    );
    let mut host = judged(&shop, "3:w,1:r:judge", &says).spawn();
    let judging = shop.aside().join("judging");
    shop.until("the judge", || judging.exists());
    host.kill().unwrap();
    host.wait().unwrap();
    std::fs::write(shop.aside().join("go"), "").unwrap();
    shop.run(["run", "--resume", "shop"]).exits(0);
    assert_eq!(shop.events_of("judge.asked").len(), 2);
    assert_eq!(shop.events_of("candidate.chosen").len(), 1);
    let news = shop.git(&["show", "main:news.txt"]);
    assert!(news.ends_with("worker-2"), "{news}");
    shop.is_quiet();
}

#[test]
fn no_result_lands_when_none_passes() {
    let shop = Shop::new();
    let before = shop.git(&["rev-parse", "main"]);
    let check = "! test -e news.txt";
    let more = ["--best-of", "--verify", check, "--approve", "auto"];
    let ran = run(&shop, "2:w", &more).exits(11);
    assert!(
        ran.stderr.contains("none of 2 results can be taken"),
        "{}",
        ran.stderr
    );
    assert_eq!(shop.git(&["rev-parse", "main"]), before);
}

#[test]
fn reviewer_is_kept_for_the_review_unless_the_plan_names_it() {
    let shop = Shop::new();
    run(
        &shop,
        "1:w,1:w:reviewer",
        &["--verify", "true", "--approve", "auto"],
    )
    .exits(0);
    let tasks = shop.tasks();
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0]["owner"], "worker-1");
    let spawned = shop.events_of("worker.spawned");
    assert_eq!(spawned.len(), 1, "nobody else has anything to do");
}

#[test]
fn team_of_a_run_that_is_over_is_named_and_the_other_need_not_be() {
    let shop = Shop::new();
    run(&shop, "1:w", &["--verify", "true", "--approve", "auto"]).exits(0);
    let tasks = |shop: &Shop| shop.run(["task", "list", "--json"]).exits(0).json()["tasks"].clone();
    assert_eq!(
        tasks(&shop)[0]["subject"],
        "write news",
        "it is the only one"
    );
    shop.run(["team", "create", "second"]).exits(0);
    assert_eq!(tasks(&shop), serde_json::json!([]), "this is of the second");
}

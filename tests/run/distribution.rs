//! What becomes of a sentence that nobody plans: one task, a copy for each worker, or the best of several results.

use teamster_testkit::RunCmd;

use super::Shop;

/// Each worker writes its own name into the news, at a length of its own.
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
    let marks: Vec<String> = shop
        .tasks()
        .iter()
        .map(|task| task["metadata"]["teamster"]["merged"].to_string())
        .collect();
    assert_eq!(marks, ["\"not chosen\"", "\"not chosen\"", "true"]);
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

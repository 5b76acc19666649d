//! The review of the merged work: the reviewer, the handling of findings, and the gate without a review.

use std::fmt::Write as _;

use serde_json::{Value, json};
use teamster_testkit::RunCmd;

use super::Shop;
use crate::kit::Call;

const ACCEPT: &str = r#"{"verdict":"accept"}"#;
const BLOCKER: &str = r#"{"verdict":"changes","findings":[{"severity":"blocker","path":"news.txt","line":1,"claim":"the news are wrong","evidence":"it says so","suggestion":"write the right ones"}]}"#;

/// The worker makes a mistake first, and then does what it is told.
const WORKER: &str = r#"
[[step]]
task = "write news"
do = "edit"
path = "news.txt"
content = "wrong\n"
[[step]]
task = "Fix what the review found"
do = "edit"
path = "news.txt"
content = "right\n"
"#;

/// Prepares a run of a worker and a reviewer that gives these answers in turn, and then repeats the last one. It
/// saves its prompts in `prompt-N`, and runs `before` before it answers.
fn reviewed(shop: &Shop, before: &str, answers: &[&str], more: &[&str]) -> Call {
    let root = shop.aside().display().to_string();
    let mut script = format!(
        "n=1; while test -e {root}/prompt-$n; do n=$((n + 1)); done\ncat > {root}/prompt-$n\n{before}\ncase $n in\n"
    );
    for (number, answer) in (1..).zip(answers) {
        let pattern = if number == answers.len() {
            "*".to_owned()
        } else {
            number.to_string()
        };
        let _ = writeln!(script, "{pattern}) echo '{answer}';;");
    }
    script += "esac\n";
    std::fs::write(shop.aside().join("review.sh"), script).unwrap();
    let args = RunCmd::new("shop", "1:w,1:r:reviewer", "write news")
        .provider(&shop.script(WORKER))
        .provider(&format!("r=command:sh {root}/review.sh"))
        .verify("true");
    shop.call(args.more(more))
}

/// Prepares the same with a leader that plans one task and gives `answer` when it is woken. It saves its prompts in
/// `leader`.
fn led(shop: &Shop, reviews: &[&str], answer: &Value, more: &[&str]) -> Call {
    let root = shop.aside().display().to_string();
    let plan = json!({ "tasks": [{ "id": "a", "subject": "write news" }] });
    let actions = json!({ "actions": answer });
    let boss = format!(
        "cat > {root}/asked\nif grep -q 'You are asked because' {root}/asked; then cat {root}/asked >> {root}/leader\n\
         echo '{actions}'; else echo '{plan}'; fi\n"
    );
    std::fs::write(shop.aside().join("boss.sh"), boss).unwrap();
    let boss = format!("boss=command:sh {root}/boss.sh");
    let mut words = vec!["--provider", &boss, "--leader", "boss"];
    words.extend(more);
    reviewed(shop, "", reviews, &words)
}

fn prompt(shop: &Shop, number: u32) -> Option<String> {
    std::fs::read_to_string(shop.aside().join(format!("prompt-{number}"))).ok()
}

fn only(shop: &Shop, kind: &str) -> Value {
    let events = shop.events_of(kind);
    assert_eq!(events.len(), 1, "{kind}: {events:?}");
    events[0]["data"].clone()
}

#[test]
fn accepted_work_lands() {
    let shop = Shop::new();
    let ran = reviewed(&shop, "", &[ACCEPT], &["--approve", "auto"])
        .run()
        .exits(0);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "wrong");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("worker-2 accepts the work"), "{said}");
    let told = prompt(&shop, 1).unwrap();
    for part in [
        "write news",
        "+wrong",
        "-nothing new",
        "\"verdict\"",
        "true",
    ] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
    assert_eq!(prompt(&shop, 2), None);
    let finished = only(&shop, "review.finished");
    assert_eq!(finished["reviewer"], "worker-2");
    assert_eq!(finished["verdict"], "accept");
    let report = shop.report();
    assert!(
        report.contains("## Review\n\nworker-2 accepts the work and found nothing."),
        "{report}"
    );
    let author = shop.tasks()[0]["owner"].clone();
    assert_eq!(author, "worker-1", "whoever reviews does nothing else");
    shop.is_quiet();
}

#[test]
fn blocker_is_fixed_and_what_changed_since_is_reviewed_again() {
    let shop = Shop::new();
    reviewed(&shop, "", &[BLOCKER, ACCEPT], &["--approve", "auto"])
        .run()
        .exits(0);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "right");
    let tasks = shop.tasks();
    assert_eq!(tasks.len(), 2, "{tasks:?}");
    assert_eq!(
        tasks[1]["subject"],
        "Fix what the review found in news.txt:1"
    );
    let about = tasks[1]["description"].as_str().unwrap();
    for part in [
        "> the news are wrong",
        "> it says so",
        "> write the right ones",
    ] {
        assert!(about.contains(part), "{about}");
    }
    let started = shop.events_of("review.started");
    assert_eq!(started.len(), 2);
    assert_eq!(started[0]["data"].get("since"), None);
    assert_eq!(started[1]["data"]["since"], started[0]["data"]["commit"]);
    let told = prompt(&shop, 2).unwrap();
    for part in ["+right", "-wrong", "> the news are wrong"] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
    assert!(!told.contains("-nothing new"), "{told}");
    let stages = shop.events_of("run.stage");
    let fix = stages
        .iter()
        .find(|stage| stage["data"]["to"] == "fix")
        .unwrap();
    assert_eq!(fix["data"]["reason"], "the review found 1 thing to fix");
    shop.is_quiet();
}

#[test]
fn finding_in_a_place_that_does_not_exist_is_dropped_and_counted() {
    let shop = Shop::new();
    let answer = r#"{"verdict":"accept","findings":[
        {"severity":"blocker","path":"news.txt","line":99,"claim":"far away"},
        {"severity":"major","path":"none.txt","line":1,"claim":"nowhere"},
        {"severity":"minor","path":"news.txt","line":1,"claim":"a small thing"}]}"#;
    let ran = reviewed(&shop, "", &[answer], &["--approve", "never"])
        .run()
        .exits(0);
    assert_eq!(only(&shop, "review.finished")["dropped"], 2);
    assert_eq!(shop.tasks().len(), 1);
    let gate = &ran.stdout;
    assert!(gate.contains("minor: news.txt:1: a small thing"), "{gate}");
    assert!(gate.contains("2 findings dropped"), "{gate}");
    assert!(
        !gate.contains("far away") && !gate.contains("nowhere"),
        "{gate}"
    );
    let findings =
        std::fs::read_to_string(shop.folder().join(".party/findings/reviewing-001.md")).unwrap();
    assert!(
        findings.contains("- minor news.txt:1: a small thing"),
        "{findings}"
    );
}

#[test]
fn review_that_asks_for_changes_or_finds_a_criterion_unmet_needs_a_person() {
    let dropped = r#"{"verdict":"changes","findings":[{"severity":"blocker","path":"none.txt","line":1,"claim":"nowhere"}]}"#;
    let unmet =
        r#"{"verdict":"accept","criteria":[{"criterion":"the news are true","met":false}]}"#;
    for (answer, why) in [
        (dropped, "the review asks for changes"),
        (unmet, "1 acceptance criteria are not met"),
    ] {
        let shop = Shop::new();
        let more = ["--approve", "auto", "--review", "require"];
        let ran = reviewed(&shop, "", &[answer], &more).run().exits(11);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(why), "{said}");
        assert_eq!(shop.git(&["show", "main:news.txt"]), "nothing new");
        shop.is_quiet();
    }
}

#[test]
fn what_is_left_after_the_last_round_stands_at_the_gate() {
    let shop = Shop::new();
    let more = ["--approve", "auto", "--max-fix", "1"];
    let ran = reviewed(&shop, "", &[BLOCKER], &more).run();
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    assert_eq!(shop.stage(), "approval");
    assert_eq!(shop.events_of("review.finished").len(), 2);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        said.contains("blocker: news.txt:1: the news are wrong"),
        "{said}"
    );
    assert_eq!(shop.git(&["show", "main:news.txt"]), "nothing new");
    shop.is_quiet();
}

#[test]
fn reviewer_that_talks_nonsense_does_not_stop_the_run_and_the_gate_says_so() {
    let shop = Shop::new();
    let ran = reviewed(&shop, "", &["looks fine to me"], &["--approve", "never"])
        .run()
        .exits(0);
    assert!(
        ran.stdout
            .contains("This work was NOT reviewed: worker-2 was asked"),
        "{}",
        ran.stdout
    );
    let failed = only(&shop, "review.failed");
    let reason = failed["reason"].as_str().unwrap();
    assert!(reason.contains("asked twice"), "{reason}");
    let again = prompt(&shop, 2).unwrap();
    assert!(again.contains("no JSON object with a `verdict`"), "{again}");
    assert_eq!(prompt(&shop, 3), None);
    let more = ["--commit", &shop.asked()];
    shop.run(["approve", "--team", "shop"].iter().chain(&more))
        .exits(0);
    assert_eq!(shop.stage(), "complete");
    assert!(shop.report().contains("This work was NOT reviewed"));
}

#[test]
fn reviewer_that_hangs_is_ended() {
    let shop = Shop::new();
    let call = reviewed(
        &shop,
        "echo thinking; sleep 600",
        &[ACCEPT],
        &["--approve", "auto"],
    );
    call.env("TEAMSTER_WORKER_IDLE_LIMIT", "2s").run().exits(0);
    let reason = only(&shop, "review.failed")["reason"].clone();
    assert!(reason.as_str().unwrap().contains("too long"), "{reason}");
    shop.is_quiet();
}

#[test]
fn review_of_a_killed_host_is_ended_and_made_again() {
    let shop = Shop::new();
    let root = shop.aside().display().to_string();
    let wait = format!("test $n != 1 || {{ sleep 600 & echo > {root}/reviewing; sleep 600; }}");
    let answers = ["never said", BLOCKER, ACCEPT];
    let mut host = reviewed(&shop, &wait, &answers, &["--approve", "auto"]).spawn();
    shop.until("the review", || shop.aside().join("reviewing").exists());
    host.kill().unwrap();
    host.wait().unwrap();
    shop.run(&["run", "--resume", "shop"]).exits(0);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "right");
    assert_eq!(shop.tasks().len(), 2);
    assert_eq!(shop.events_of("review.started").len(), 3);
    assert_eq!(shop.events_of("review.finished").len(), 2);
    shop.is_quiet();
}

#[test]
fn host_killed_at_any_event_around_a_review_makes_nothing_twice() {
    let first = Shop::new();
    reviewed(&first, "", &[BLOCKER, ACCEPT], &["--approve", "auto"])
        .run()
        .exits(0);
    let events = first.events();
    let at = |kind: &str| {
        let found = events.iter().find(|event| event["type"] == kind);
        found.unwrap()["seq"].as_u64().unwrap()
    };
    let (from, to) = (at("review.started"), at("review.finished") + 3);
    for seq in from..=to {
        let shop = Shop::new();
        let call = reviewed(&shop, "", &[BLOCKER, ACCEPT], &["--approve", "auto"]);
        let died = call
            .env("TEAMSTER_TEST_DIE_AT_EVENT", seq.to_string())
            .run();
        assert_ne!(died.code, Some(0), "it should have died at {seq}");
        // A review that was not recorded is repeated, with the same answer.
        let is_recorded = !shop.events_of("review.finished").is_empty();
        if !is_recorded {
            for number in 1..=2 {
                let _ = std::fs::remove_file(shop.aside().join(format!("prompt-{number}")));
            }
        }
        shop.run(&["run", "--resume", "shop"]).exits(0);
        assert_eq!(shop.git(&["show", "main:news.txt"]), "right", "{seq}");
        assert_eq!(shop.tasks().len(), 2, "killed at {seq}");
        shop.is_quiet();
    }
}

#[test]
fn work_that_changes_nothing_is_not_reviewed() {
    let shop = Shop::new();
    let call = reviewed(
        &shop,
        "",
        &[BLOCKER],
        &["--approve", "auto", "--review", "require"],
    );
    shop.script("[[step]]\ndo = \"say\"\ntext = \"nothing to do\"\n");
    call.run().exits(0);
    assert_eq!(prompt(&shop, 1), None);
    assert!(
        !shop
            .events()
            .iter()
            .any(|event| { event["type"].as_str().unwrap().starts_with("review.") })
    );
}

#[test]
fn review_can_be_turned_off() {
    let shop = Shop::new();
    let more = ["--approve", "auto", "--review", "off"];
    reviewed(&shop, "", &[BLOCKER], &more).run().exits(0);
    assert_eq!(prompt(&shop, 1), None);
    assert!(!shop.report().contains("## Review"));
}

#[test]
fn required_review_that_nobody_can_make_needs_a_person() {
    let shop = Shop::new();
    let run = |more: &[&str]| {
        let args = RunCmd::new("shop", "1:w", "write news")
            .provider(&shop.script(WORKER))
            .verify("true")
            .approve("auto");
        shop.call(args.more(more)).run()
    };
    let ran = run(&["--review", "require"]);
    assert_ne!(ran.code, Some(0));
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        said.contains("This work was NOT reviewed: no agent that can review"),
        "{said}"
    );
    assert!(
        said.contains("it was NOT reviewed, so it was not approved"),
        "{said}"
    );
    assert_eq!(
        only(&shop, "review.skipped")["reason"],
        "no agent that can review"
    );
    assert_eq!(shop.stage(), "approval");
    shop.run(&["approve", "--team", "shop", "--commit", &shop.asked()])
        .exits(0);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "wrong");
}

#[test]
fn review_that_is_only_preferred_and_that_nobody_can_make_changes_nothing() {
    let shop = Shop::new();
    let args = RunCmd::new("shop", "1:w", "write news")
        .provider(&shop.script(WORKER))
        .verify("true")
        .approve("auto");
    let ran = shop.call(&args).run().exits(0);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    for word in ["reviewed", "reviews", "Review\n"] {
        assert!(!said.contains(word), "{said}");
    }
    let report = shop.report();
    let why = "This work was not reviewed: no agent that can review.";
    assert!(report.contains(why), "{report}");
}

/// Returns a reviewer's answer with a finding in the first line of the news.
fn finds(severity: &str) -> String {
    BLOCKER.replace("blocker", severity)
}

#[test]
fn leader_makes_a_task_of_a_finding_in_its_own_words() {
    let shop = Shop::new();
    let task = json!([{
        "action": "create_task", "subject": "Fix what the review found, all of it", "description": "Ask nobody.",
        "findings": ["f1"]
    }]);
    led(&shop, &[BLOCKER, ACCEPT], &task, &["--approve", "auto"])
        .run()
        .exits(0);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "right");
    let tasks = shop.tasks();
    assert_eq!(tasks.len(), 2, "{tasks:?}");
    assert_eq!(tasks[1]["subject"], "Fix what the review found, all of it");
    let about = tasks[1]["description"].as_str().unwrap();
    for part in ["Ask nobody.", "> the news are wrong", "> it says so"] {
        assert!(about.contains(part), "{about}");
    }
    let note = &tasks[1]["metadata"]["teamster"]["review"];
    assert_eq!(
        (&note["round"], &note["findings"]),
        (&json!(1), &json!([1]))
    );
    let woken = shop.events_of("leader.woken");
    assert_eq!(woken.len(), 1);
    assert_eq!(woken[0]["data"]["reasons"][0]["kind"], "findings");
    let told = std::fs::read_to_string(shop.aside().join("leader")).unwrap();
    for part in [
        "Finding f1 of worker-2, blocker, in news.txt:1",
        "> the news are wrong",
        "Say of every finding that is a blocker or a major",
    ] {
        assert!(told.contains(part), "{part} is missing in\n{told}");
    }
    shop.is_quiet();
}

#[test]
fn finding_that_the_leader_leaves_stands_at_the_gate_and_a_blocker_needs_a_person() {
    let leave = json!([{ "action": "answer", "question": "f1", "text": "Nobody reads the news." }]);
    for (severity, lands) in [("major", true), ("blocker", false)] {
        let shop = Shop::new();
        let found = finds(severity);
        let ran = led(&shop, &[&found], &leave, &["--approve", "auto"]).run();
        assert_eq!(ran.code == Some(0), lands, "{severity}: {}", ran.stdout);
        let news = if lands { "wrong" } else { "nothing new" };
        assert_eq!(shop.git(&["show", "main:news.txt"]), news);
        assert_eq!(shop.tasks().len(), 1, "nothing was made of it");
        let acted = only(&shop, "leader.acted");
        assert_eq!(acted["dismissed"][0]["finding"], 1);
        assert_eq!(acted["dismissed"][0]["reason"], "Nobody reads the news.");
        let said = format!("{}{}", ran.stdout, shop.report_if_any());
        // The gate wraps long lines.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "the news are wrong",
            "the leader decided not to fix it: Nobody reads the news.",
        ] {
            assert!(said.contains(part), "{part} is not in\n{said}");
        }
        assert_eq!(prompt(&shop, 2), None, "nothing has changed");
        shop.is_quiet();
    }
}

#[test]
fn findings_are_fixed_by_default_when_the_leader_says_nothing_or_nonsense() {
    for answer in [
        json!([]),
        json!("what?"),
        json!([{ "action": "note", "text": "well" }]),
    ] {
        let shop = Shop::new();
        led(&shop, &[BLOCKER, ACCEPT], &answer, &["--approve", "auto"])
            .run()
            .exits(0);
        assert_eq!(shop.git(&["show", "main:news.txt"]), "right", "{answer}");
        let subject = shop.tasks()[1]["subject"].clone();
        assert_eq!(subject, "Fix what the review found in news.txt:1");
    }
}

#[test]
fn reviewer_that_writes_and_commits_changes_nothing_that_lands() {
    let shop = Shop::new();
    let harm = "echo planted > planted.txt; rm -f news.txt; echo planted > teamster-change.patch; \
                git add --all && git -c user.name=x -c user.email=x@x commit --quiet --message planted";
    reviewed(&shop, harm, &[ACCEPT], &["--approve", "auto"])
        .run()
        .exits(0);
    let files = shop.git(&["ls-tree", "--name-only", "main"]);
    assert!(files.contains("news.txt"), "{files}");
    assert!(
        !files.contains("planted") && !files.contains("teamster-change"),
        "{files}"
    );
    assert_eq!(shop.git(&["show", "main:news.txt"]), "wrong");
}

#[test]
fn reviewer_gets_the_whole_change_as_a_file() {
    let shop = Shop::new();
    let root = shop.aside().display().to_string();
    let keep = format!("cp teamster-change.patch {root}/change-$n");
    reviewed(&shop, &keep, &[BLOCKER, ACCEPT], &["--approve", "auto"])
        .run()
        .exits(0);
    let change = |number: u32| {
        let file = shop.aside().join(format!("change-{number}"));
        std::fs::read_to_string(file).unwrap()
    };
    assert!(change(1).contains("-nothing new\n+wrong"), "{}", change(1));
    assert!(change(2).contains("-wrong\n+right"), "{}", change(2));
    assert!(
        !change(2).contains("nothing new"),
        "only what changed since"
    );
    let told = prompt(&shop, 1).unwrap();
    assert!(told.contains("`teamster-change.patch`"), "{told}");
}

/// A client that records its command line, and answers like Codex.
const CODEX: &str = r#"#!/bin/sh
test "$1" = --version && { echo 'codex-cli 0.98.0'; exit; }
echo "$@" >> ROOT/codex-args
cat > ROOT/codex-prompt
if grep -q 'Choose the one' ROOT/codex-prompt; then
answer='{\"choice\":\"2\",\"reason\":\"It is whole.\"}'
else
answer='{\"verdict\":\"accept\"}'
fi
echo '{"type":"thread.started","thread_id":"t"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"'"$answer"'"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}'
"#;

#[test]
fn whoever_the_host_asks_is_started_to_read_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let shop = Shop::new();
    let root = shop.aside().display().to_string();
    let bin = shop.aside().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("codex"), CODEX.replace("ROOT", &root)).unwrap();
    let is_program = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bin.join("codex"), is_program).unwrap();
    let work = "[[step]]\ndo = \"run\"\ncommand = \"echo $TEAMSTER_WORKER > news.txt\"\n";
    let args = RunCmd::new("shop", "2:w,1:codex:reviewer", "write news")
        .provider(&shop.script(work))
        .verify("true")
        .approve("auto")
        .more(&["--best-of"]);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let ran = shop.call(args).env("PATH", path).run().exits(0);
    assert_eq!(
        shop.git(&["show", "main:news.txt"]),
        "worker-2",
        "{}",
        ran.stdout
    );
    let started = std::fs::read_to_string(shop.aside().join("codex-args")).unwrap();
    assert_eq!(
        started.lines().count(),
        2,
        "as a judge and as a reviewer: {started}"
    );
    for line in started.lines() {
        assert!(line.contains("-s read-only"), "{line}");
        assert!(!line.contains("--add-dir"), "{line}");
    }
}

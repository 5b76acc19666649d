//! Good and bad plans and leaders, and what a repository may not run by itself.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use teamster_testkit::RunCmd;

use super::Shop;

fn planned(shop: &Shop, plan: &str, more: &[&str]) -> crate::kit::Ran {
    let plan = shop.plan(plan);
    let script = shop.script(
        "[[step]]\ndo = \"run\"\ncommand = \"echo $TEAMSTER_TASK_ID > t-$TEAMSTER_TASK_ID.txt\"\n",
    );
    let args = RunCmd::new("shop", "2:w", "the plan")
        .provider(&script)
        .plan(&plan);
    shop.call(args.more(more)).run()
}

#[test]
fn a_plan_that_cannot_be_carried_out_makes_nothing() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let one = "[[tasks]]\nid = \"a\"\nsubject = \"A\"\n";
    for (plan, word) in [
        (
            format!(
                "{one}blockedBy = [\"b\"]\n[[tasks]]\nid = \"b\"\nsubject = \"B\"\nblockedBy = [\"a\"]\n"
            ),
            "a",
        ),
        (format!("{one}blockedBy = [\"nobody\"]\n"), "nobody"),
        ("tasks = []\n".to_owned(), "task"),
        (format!("{one}owner = \"ann\"\n"), "ann"),
    ] {
        for more in [&["--approve", "never"][..], &["--dry-run"][..]] {
            let refused = planned(&shop, &plan, more).fails(6);
            assert!(refused.stderr.contains(word), "{plan}: {}", refused.stderr);
        }
    }
    assert!(!shop.project.claude("teams/shop").exists());
    assert_eq!(shop.of_user(), before);
}

#[test]
fn crew_separated_by_spaces_is_refused_with_the_comma_form() {
    let shop = Shop::new();
    let provider = shop.script("");
    for words in [
        &["2:w", "1:w:tester", "mend it"][..],
        &["2:w 1:w:tester mend it"],
    ] {
        let more = ["--team", "shop", "--provider", &provider];
        let refused = shop.run(["run"].iter().chain(words).chain(&more)).fails(2);
        assert!(
            refused.stderr.contains("write 2:w,1:w:tester"),
            "{}",
            refused.stderr
        );
    }
    assert!(!shop.project.claude("teams/shop").exists());
}

#[test]
fn a_thousand_tasks_are_shown_and_imported_at_once() {
    let shop = Shop::in_use();
    let mut plan = String::new();
    for id in 0..1_000 {
        let _ = write!(plan, "[[tasks]]\nid = \"t{id}\"\nsubject = \"일 {id}\"\n");
        if id > 0 {
            let _ = writeln!(plan, "blockedBy = [\"t{}\"]", id - 1);
        }
    }
    let start = Instant::now();
    let shown = planned(&shop, &plan, &["--dry-run", "--json"]).succeeds();
    let tasks = shown.json()["tasks"].as_array().unwrap().clone();
    assert_eq!(tasks.len(), 1_000);
    assert_eq!(tasks[999]["subject"], "일 999");
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    shop.run(&["team", "create", "shop"]).succeeds();
    let start = Instant::now();
    let file = shop.aside().join("plan.toml");
    let import = ["task", "import", file.to_str().unwrap(), "--team", "shop"];
    shop.run(&import).exits(0);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(shop.events_of("task.created").len(), 1_000);
}

#[test]
fn a_sentence_in_korean_is_a_task_as_it_is() {
    let shop = Shop::in_use();
    let script = shop.script(
        "[[step]]\ndo = \"run\"\ncommand = \"echo \\\"$TEAMSTER_TASK_SUBJECT\\\" > 고침.txt\"\n",
    );
    let sentence = "로그인 폼을 고치고 테스트를 추가해줘";
    let args = RunCmd::new("shop", "1:w", sentence)
        .provider(&script)
        .approve("auto")
        .verify("true");
    shop.run(&args).exits(0);
    assert_eq!(shop.git(&["show", "main:고침.txt"]), sentence);
    assert!(shop.report().contains(sentence));
    shop.has_drafts();
}

/// Starts a run whose leader is a shell command, which is called at most twice.
fn led(shop: &Shop, leader: &str, more: &[&str]) -> crate::kit::Ran {
    let script = shop.script(
        "[[step]]\ntask = \"Delete everything\"\ndo = \"run\"\ncommand = \"rm -rf ./*\"\n\
         [[step]]\ntask = \"Go\"\ndo = \"edit\"\npath = \"went.txt\"\ncontent = \"went\\n\"\n",
    );
    let leader = leader.replace("ROOT", shop.aside().to_str().unwrap());
    let boss = format!("boss=command:{leader}");
    let args = RunCmd::new("shop", "1:w", "mend it")
        .provider(&script)
        .provider(&boss)
        .leader("boss")
        .verify("true");
    shop.call(args.more(more)).run()
}

#[test]
fn a_leader_that_makes_no_plan_ends_the_run() {
    for said in ["Let me think about it.", "{\\\"tasks\\\": [{\\\"id\\\": 1,"] {
        let shop = Shop::in_use();
        let before = shop.of_user();
        let leader = format!("cat > /dev/null; echo x >> ROOT/asked; echo \"{said}\"");
        let ran = led(&shop, &leader, &["--approve", "never"]).exits(11);
        assert!(ran.stderr.contains("twice"), "{}", ran.stderr);
        let failed = shop.events_of("plan.failed");
        let answers = failed[0]["data"]["answers"].as_array().unwrap();
        let beginning = said.replace('\\', "");
        assert_eq!(answers.len(), 2, "both answers are kept");
        for answer in answers {
            let text = answer["text"].as_str().unwrap();
            assert!(text.starts_with(&beginning), "{answer}");
            assert!(!answer["faults"].as_array().unwrap().is_empty(), "{answer}");
        }
        let asked = std::fs::read_to_string(shop.aside().join("asked")).unwrap();
        assert_eq!(asked, "x\nx\n");
        assert_eq!(shop.of_user(), before);
        assert!(shop.tasks().is_empty());
        shop.is_quiet();
    }
}

#[test]
fn a_leader_that_plans_what_cannot_be_done_ends_the_run() {
    let many: Vec<String> = (0..10_000)
        .map(|id| format!("{{\"id\":{id},\"subject\":\"x\"}}"))
        .collect();
    let many = format!("{{\"tasks\":[{}]}}", many.join(","));
    for (answer, fault) in [
        (
            "{\"tasks\":[{\"id\":\"a\",\"subject\":\"A\",\"blockedBy\":[\"a\"]}]}",
            "the plan has a cycle: a waits for a",
        ),
        (
            "{\"tasks\":[{\"id\":\"a\",\"subject\":\"A\",\"blockedBy\":[\"b\"]},{\"id\":\"b\",\"subject\":\"B\",\"blockedBy\":[\"a\"]}]}",
            "the plan has a cycle: a waits for b waits for a",
        ),
        (&many, "the plan has 10000 tasks; the limit is 1000"),
    ] {
        let shop = Shop::in_use();
        let before = shop.of_user();
        std::fs::write(shop.aside().join("answer"), answer).unwrap();
        let leader = "cat > ROOT/prompt; echo x >> ROOT/asked; cat ROOT/answer";
        let ran = led(&shop, leader, &["--approve", "never"]).exits(11);
        assert!(ran.stderr.contains(fault), "{}", ran.stderr);
        let read = |name: &str| std::fs::read_to_string(shop.aside().join(name)).unwrap();
        assert_eq!(read("asked"), "x\nx\n");
        assert!(read("prompt").contains(fault), "it is told what is wrong");
        let failed = shop.events_of("plan.failed");
        let answers = failed[0]["data"]["answers"].as_array().unwrap();
        assert_eq!(answers.len(), 2);
        // A text that is too long for a line is stored beside the journal.
        let bytes = match &answers[1]["text"] {
            serde_json::Value::String(text) => text.len() as u64,
            blob => blob["bytes"].as_u64().unwrap(),
        };
        assert_eq!(bytes, answer.len() as u64, "it is kept whole");
        assert_eq!(shop.of_user(), before);
        assert!(shop.tasks().is_empty());
        shop.is_quiet();
    }
}

#[test]
fn a_leader_that_corrects_itself_is_followed() {
    let shop = Shop::in_use();
    let leader = "cat > /dev/null; if test -e ROOT/asked; then echo '{\"tasks\":[{\"id\":\"go\",\"subject\":\"Go\"}]}'; else touch ROOT/asked; echo '{\"tasks\":[{\"id\":\"go\"}]}'; fi";
    led(&shop, leader, &["--approve", "auto"]).exits(0);
    assert_eq!(shop.git(&["show", "main:went.txt"]), "went");
    assert_eq!(shop.events_of("run.plan")[0]["data"]["source"], "leader");
    shop.has_drafts();
    shop.is_quiet();
}

#[test]
fn a_plan_that_deletes_everything_deletes_nothing_of_the_users() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let leader = "cat > /dev/null; rm -rf ./*; echo '{\"tasks\":[{\"id\":\"all\",\"subject\":\"Delete everything\"}]}'";
    let ran = led(&shop, leader, &["--approve", "never"]).exits(0);
    assert!(
        ran.stdout.contains("add.sh"),
        "the gate shows it: {}",
        ran.stdout
    );
    assert_eq!(shop.of_user(), before);
    let commit = shop.asked();
    let args = [
        "reject",
        "--rollback",
        "--team",
        "shop",
        "--commit",
        &commit,
    ];
    shop.run(&args).exits(10);
    assert_eq!(shop.of_user(), before);
    shop.is_quiet();
}

#[test]
fn nothing_that_comes_with_a_repository_runs_before_it_was_accepted() {
    let shop = Shop::new();
    let trace = shop.aside().join("ran");
    let touch = format!("echo x >> {}", trace.display());
    let config = format!(
        "[worktree]\nsetup = [\"{touch}\"]\n[providers.theirs]\nkind = \"command\"\ncommand = \"{touch}; echo made > made.txt\"\n"
    );
    let preset = format!(
        "---\nname: house\ndescription: ours\ntrigger_keywords: [house]\nverify: [\"{touch}\"]\nmembers:\n  - name: ann\n    agent: theirs\n    role: executor\n---\n## Worker\nDo {{task}}\n"
    );
    shop.project.write(".teamster/config.toml", &config);
    shop.project.write(".teamster/teams/house.md", &preset);
    shop.git(&["add", "--all"]);
    shop.git(&["commit", "--quiet", "--message", "Ours"]);
    let head = shop.git(&["rev-parse", "main"]);
    let run = |more: &[&str]| {
        let args = ["run", "--team", "shop", "--approve", "auto"];
        shop.call(args.iter().chain(more)).run()
    };
    for words in [
        &["1:theirs", "mend it"][..],
        &["--preset", "house", "mend it"][..],
        &["1:mine", "mend it", "--provider", "mine=command:true"][..],
    ] {
        let refused = run(words).fails(6);
        assert!(refused.stderr.contains("trust"), "{}", refused.stderr);
    }
    run(&["--preset", "house", "mend it", "--dry-run"]).exits(0);
    assert!(!trace.exists(), "something of it ran");
    assert!(!shop.project.claude("teams/shop").exists());
    assert_eq!(shop.git(&["rev-parse", "main"]), head);
    run(&["--preset", "house", "mend it", "--trust-project"]).exits(0);
    assert!(trace.exists());
    assert_eq!(shop.git(&["show", "main:made.txt"]), "made");
    shop.is_quiet();
}

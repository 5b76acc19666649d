//! A whole run: plan, work, conflict, merge, verification, fix, gate and decision.

use super::Shop;

/// Runs everything up to the gate, which is not answered.
fn at_gate() -> Shop {
    let shop = Shop::in_use();
    shop.whole_run(&["--approve", "never"]).run().exits(0);
    shop
}

fn kinds(shop: &Shop, kind: &str) -> usize {
    shop.events_of(kind).len()
}

#[test]
fn approved_work_lands_and_nothing_else_is_touched_or_left() {
    let shop = at_gate();
    let before = shop.git(&["rev-parse", "main"]);
    shop.has_drafts();
    shop.is_quiet();
    assert_eq!(kinds(&shop, "merge.conflict"), 1);
    assert_eq!(kinds(&shop, "merge.merged"), 5);
    let stages: Vec<String> = shop
        .events_of("run.stage")
        .iter()
        .map(|event| event["data"]["to"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        stages,
        ["plan", "execute", "verify", "fix", "verify", "approval"]
    );
    let state = || shop.run(&["team", "list", "--json"]).json()["teams"][0]["state"].clone();
    assert_eq!(state(), "stale", "a decision is left");
    let commit = shop.asked();
    let approved = shop.run(&["approve", "--team", "shop", "--commit", &commit]);
    approved.exits(0);
    assert_eq!(state(), "ended");
    assert_eq!(shop.git(&["rev-parse", "main"]), commit);
    let range = format!("{before}..main");
    let merges = shop.git(&["log", "--merges", "--first-parent", "--format=%s", &range]);
    assert_eq!(merges.lines().count(), 4, "{merges}");
    // The tests run on the committed files, without the user's own.
    let fresh = shop.aside().join("fresh");
    let fresh = fresh.to_str().unwrap();
    shop.git(&["worktree", "add", "--quiet", "--detach", fresh, "main"]);
    for suite in ["test.sh", "check.sh"] {
        let ran = std::process::Command::new("sh")
            .arg(suite)
            .current_dir(fresh)
            .status();
        assert!(ran.unwrap().success(), "{suite}");
    }
    shop.git(&["worktree", "remove", "--force", fresh]);
    assert_eq!(shop.left(), [""; 0]);
    shop.has_drafts();
    shop.is_quiet();
    let report = shop.report();
    for part in ["Mend adding", "sh check.sh", "news.txt"] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
}

#[test]
fn rejected_work_that_is_rolled_back_leaves_everything_of_the_users_as_it_was() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    shop.whole_run(&["--approve", "never"]).run().exits(0);
    let commit = shop.asked();
    let args = ["reject", "--rollback", "not like this", "--team", "shop"];
    let rejected = shop.call(args.iter().chain(&["--commit", &commit])).run();
    rejected.exits(10);
    assert_eq!(shop.of_user(), before);
    shop.has_drafts();
    shop.is_quiet();
    let left = shop.left();
    assert!(
        !left.iter().any(|left| left.contains("integration")),
        "{left:?}"
    );
    // The work is on no branch, but not lost.
    assert_eq!(shop.git(&["cat-file", "-t", &commit]), "commit");
    let kept = shop.git(&["for-each-ref", "--contains", &commit, "refs/teamster"]);
    assert!(!kept.is_empty());
    assert_eq!(
        shop.state_file(".omc/state/team-state.json")["stage"],
        "failed"
    );
    assert_eq!(
        shop.state_file(".party/session.json")["phase"],
        "ROLLED_BACK"
    );
    let report = shop.report();
    for words in ["not like this", "Rejected and rolled back"] {
        assert!(report.contains(words), "{words} is not in\n{report}");
    }
    // A finished run stays finished.
    shop.run(&["run", "--resume", "shop"]).exits(10);
    let again = ["approve", "--team", "shop", "--commit", commit.as_str()];
    shop.run(&again).exits(4);
    assert_eq!(shop.of_user(), before);
}

#[test]
fn a_run_can_be_rejected_revised_and_followed_by_another() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let script = r#"
[[step]]
task = "mend it"
do = "edit"
path = "news.txt"
content = "mended\n"
[[step]]
task = "Revise: "
do = "edit"
path = "more.txt"
content = "more\n"
"#;
    let ran = shop.scripted_run(script, &["--approve", "never", "--verify", "true"]);
    ran.run().exits(0);
    let first = shop.asked();
    let revise = ["revise", "say more", "--team", "shop", "--commit", &first];
    shop.run(&revise).exits(0);
    let second = shop.asked();
    assert_ne!(first, second);
    let files = shop.git(&["diff", "--name-only", "main", &second]);
    assert_eq!(files, "more.txt\nnews.txt");
    // The commit that was decided on is no longer the current one.
    let stale = shop.run(&["approve", "--team", "shop", "--commit", &first]);
    assert!(stale.fails(4).stderr.contains(&second));
    let reject = ["reject", "--team", "shop", "--commit", &second];
    shop.run(&reject).exits(10);
    assert_eq!(shop.of_user(), before);
    let branch = shop.git(&["rev-parse", "omc-team/shop/integration"]);
    assert_eq!(branch, second, "rejected work is kept");
    assert_eq!(shop.state_file(".party/session.json")["phase"], "DONE");
    let again = shop.run(&["run", "--resume", "shop"]);
    assert!(again.exits(10).stderr.contains("rejected"));
    // The project is free again; the name is not.
    let same = shop.scripted_run(script, &["--approve", "never"]).run();
    same.fails(4);
}

#[test]
fn the_state_files_say_what_the_journal_says() {
    let shop = Shop::in_use();
    let mut host = shop.whole_run(&[]).spawn();
    let mut seen = std::collections::BTreeSet::new();
    let agrees = |stage: &str| {
        let state = shop.state_file(".omc/state/team-state.json");
        let session = shop.state_file(".party/session.json");
        let agents = shop.state_file(".bkit/agent-state.json");
        let is = |staged: &str, party: &str, pdca: &str| {
            state["stage"] == staged && session["phase"] == party && agents["pdcaPhase"] == pdca
        };
        match stage {
            "plan" => is("team-plan", "PLANNING", "plan"),
            "execute" => is("team-exec", "EXECUTING", "do"),
            "verify" => is("team-verify", "REVIEWING", "check"),
            "fix" => is("team-fix", "EXECUTING", "act"),
            "approval" => {
                is("team-verify", "AWAITING_APPROVAL", "check")
                    && state["awaitingApproval"] == true
                    && state["fixLoop"]["attempt"] == 1
                    && session["fix_loop"]["attempt"] == 1
                    && state["progress"]["completedTasks"] == 5
            }
            _ => false,
        }
    };
    shop.until("the gate in all files", || {
        if !shop.folder().join(".bkit/agent-state.json").exists() {
            return false;
        }
        // A stage that has just begun is shown a moment later, and one that is over is not awaited.
        let stage = shop.stage();
        if agrees(&stage) && shop.stage() == stage {
            seen.insert(stage.clone());
        }
        stage == "approval" && seen.contains("approval")
    });
    assert!(seen.len() >= 3, "{seen:?}");
    let commit = shop.gate();
    let approved = shop.run(&["approve", "--team", "shop", "--commit", &commit]);
    assert!(approved.succeeds().stdout.contains("approved: complete"));
    assert!(host.wait().unwrap().success());
    let state = shop.state_file(".omc/state/team-state.json");
    assert_eq!(state["stage"], "complete");
    assert_eq!(state["active"], false);
    assert_eq!(shop.state_file(".party/session.json")["phase"], "DONE");
    let history: Vec<&str> = state["stageHistory"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entered| entered["stage"].as_str().unwrap())
        .collect();
    assert_eq!(
        history,
        [
            "team-plan",
            "team-exec",
            "team-verify",
            "team-fix",
            "team-verify",
            "team-verify",
            "complete"
        ]
    );
    shop.is_quiet();
}

#[test]
fn a_program_reads_every_event_once_and_then_what_it_came_to() {
    let shop = Shop::in_use();
    let script = "[[step]]\ndo = \"edit\"\npath = \"news.txt\"\ncontent = \"mended\\n\"\n";
    let more = [
        "--json",
        "--tmux",
        "--requirements",
        "--approve",
        "auto",
        "--verify",
        "true",
    ];
    let ran = shop.scripted_run(script, &more).run().succeeds();
    let lines: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seqs: Vec<u64> = lines
        .iter()
        .filter_map(|line| line["seq"].as_u64())
        .collect();
    let all: Vec<u64> = (1..=shop.events().len() as u64).collect();
    assert_eq!(seqs, all);
    let stages: Vec<&str> = lines
        .iter()
        .filter(|line| line["type"] == "run.stage")
        .map(|line| line["data"]["to"].as_str().unwrap())
        .collect();
    assert_eq!(
        stages,
        ["plan", "requirements", "execute", "verify", "approval"]
    );
    let last = lines.last().unwrap();
    assert_eq!(last["type"], "result");
    assert_eq!(
        (&last["outcome"], &last["exitCode"]),
        (&"complete".into(), &0.into())
    );
    assert_eq!(shop.git(&["show", "main:news.txt"]), "mended");
    shop.is_quiet();
    shop.has_drafts();
}

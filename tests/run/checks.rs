//! The results of checks, and their consequences.

use super::Shop;

const NEWS: &str = r#"
[[step]]
task = "mend it"
do = "edit"
path = "news.txt"
content = "mended\n"
"#;

#[test]
fn what_still_fails_after_three_rounds_ends_the_run_and_keeps_the_work() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    // The first round changes nothing, the others something that does not help.
    let script = format!(
        "{NEWS}\n[[step]]\ntask = \"Fix what\"\ndo = \"run\"\ncommand = \"test -e ROOT/once || {{ touch ROOT/once; exit 0; }}; date +%N >> tried.txt\"\n"
    );
    let verify = ["--verify", "! grep -q mended news.txt", "--approve", "auto"];
    let ran = shop.scripted_run(&script, &verify).run().exits(11);
    assert!(ran.stderr.contains("3 rounds"), "{}", ran.stderr);
    let hint = "resume: `teamster run --resume shop --max-fix 5`";
    assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    let fixes = shop.tasks().len() - 1;
    assert_eq!(fixes, 3, "one task for each round");
    assert_eq!(shop.events_of("verify.failed").len(), 4);
    assert_eq!(
        shop.git(&["show", "omc-team/shop/integration:news.txt"]),
        "mended"
    );
    let tried = shop.git(&["show", "omc-team/shop/integration:tried.txt"]);
    assert_eq!(tried.lines().count(), 2);
    assert_eq!(shop.of_user(), before);
    shop.is_quiet();
    assert_eq!(
        shop.state_file(".omc/state/team-state.json")["stage"],
        "failed"
    );
    assert_eq!(shop.state_file(".party/session.json")["phase"], "FAILED");
    assert!(shop.report().contains("omc-team/shop/integration"));
    // Allowing one more round gives exactly one more.
    let more = ["run", "--resume", "shop", "--max-fix", "4"];
    let ran = shop.run(&more).exits(11);
    assert!(ran.stderr.contains("4 rounds"), "{}", ran.stderr);
    assert_eq!(shop.tasks().len() - 1, 4);
    assert_eq!(shop.state_file(".party/session.json")["phase"], "FAILED");
    assert_eq!(shop.of_user(), before);
}

#[test]
fn in_the_projects_own_folder_a_fix_is_verified_too() {
    let shop = Shop::new();
    let script = format!(
        "{NEWS}\n[[step]]\ntask = \"Fix what\"\ndo = \"edit\"\npath = \"news.txt\"\ncontent = \"well mended\\n\"\n"
    );
    let verify = [
        "--verify",
        "! grep -qx mended news.txt",
        "--approve",
        "auto",
        "--no-worktrees",
    ];
    let ran = shop.scripted_run(&script, &verify);
    ran.run().exits(0);
    assert_eq!(shop.events_of("verify.failed").len(), 1);
    assert_eq!(shop.events_of("verify.passed").len(), 2);
}

#[test]
fn what_failed_before_is_not_charged_and_not_called_passed() {
    let shop = Shop::new();
    shop.project.write("Makefile", "test:\n\tsh test.sh\n");
    shop.git(&["add", "Makefile"]);
    shop.git(&["commit", "--quiet", "--message", "Test with make"]);
    shop.project.write("readme.txt", "A shop, half described");
    shop.project.write("staged.txt", "staged\n");
    shop.git(&["add", "staged.txt"]);
    shop.project.write("draft/idea.txt", "an idea\n");
    // This check was not requested: it was detected in the project.
    let found = ["--trust-project", "--approve", "auto"];
    let ran = shop.scripted_run(NEWS, &found).run().exits(11);
    assert!(ran.stdout.contains("failed before"), "{}", ran.stdout);
    assert_eq!(shop.tasks().len(), 1, "there is nothing to fix");
    assert_eq!(shop.stage(), "approval");
    let asked = shop.events_of("approval.requested");
    assert_eq!(asked[0]["data"]["verified"], false);
    shop.has_drafts();
    let commit = shop.asked();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    let report = shop.report();
    assert!(
        report.contains("On the base, before the work began"),
        "{report}"
    );
    assert!(report.contains("Not fully verified"), "{report}");
}

#[test]
fn check_that_a_person_gave_is_a_target_and_gets_rounds_of_fixing_though_it_failed_before() {
    let shop = Shop::in_use();
    let script = format!(
        "{NEWS}\n[[step]]\ntask = \"Fix what\"\ndo = \"run\"\ncommand = \"test -e ROOT/once || {{ touch ROOT/once; exit 0; }}; touch works\"\n"
    );
    let verify = ["--verify", "test -e works", "--approve", "auto"];
    shop.scripted_run(&script, &verify).run().exits(0);
    // Neither the work itself nor the first round helps.
    assert_eq!(shop.tasks().len(), 3);
    let fix = shop.tasks()[1]["description"].as_str().unwrap().to_owned();
    assert!(
        fix.contains("to make it pass is what the work is for"),
        "{fix}"
    );
    assert_eq!(shop.git(&["ls-files", "works"]), "works");
}

#[test]
fn that_nothing_was_verified_is_said_in_words_and_never_approved_by_itself() {
    let shop = Shop::in_use();
    let ran = shop.scripted_run(NEWS, &["--approve", "auto"]).run();
    let ran = ran.exits(11);
    let gate = ran.stdout.to_lowercase();
    assert!(gate.contains("nothing was verified"), "{}", ran.stdout);
    assert_eq!(shop.stage(), "approval");
    let commit = shop.asked();
    shop.run(&["reject", "--team", "shop", "--commit", &commit])
        .exits(10);
    let report = shop.report().to_lowercase();
    assert!(report.contains("nothing was verified"), "{report}");
    shop.has_drafts();
}

#[test]
fn a_flaky_check_is_called_flaky() {
    let shop = Shop::in_use();
    let once = shop.aside().join("once");
    let flaky = format!(
        "! grep -q mended news.txt || test -e {0} || {{ touch {0}; false; }}",
        once.display()
    );
    let verify = ["--verify", &flaky, "--approve", "auto"];
    shop.scripted_run(NEWS, &verify).run().exits(11);
    assert_eq!(shop.events_of("verify.flaky").len(), 1);
    assert_eq!(shop.tasks().len(), 1, "there is nothing to fix");
    let asked = shop.events_of("approval.requested");
    assert_eq!(asked[0]["data"]["verified"], false);
    let commit = shop.asked();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    assert!(shop.report().contains("flaky"), "{}", shop.report());
}

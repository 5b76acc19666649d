//! Workers that use plain git outside their own worktree: their changes there have no effect.

use super::Shop;

/// Returns a script with one task whose worker runs a command; ROOT is a folder of the test, `$TEAMSTER_TEAM` is the
/// team.
fn runs(command: &str) -> String {
    format!("[[step]]\ntask = \"mend it\"\ndo = \"run\"\ncommand = {command:?}\n")
}

const INTEGRATION: &str = "refs/heads/omc-team/shop/integration";
const AUTO: [&str; 4] = ["--verify", "grep -q new news.txt", "--approve", "auto"];

#[test]
fn a_branch_that_a_worker_moved_is_put_back_and_lands_nowhere() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let script = runs(&format!(
        "git commit-tree -p HEAD -m evil $(git hash-object -t tree /dev/null) > ROOT/evil; \
         git update-ref {INTEGRATION} $(cat ROOT/evil)"
    ));
    let ran = shop.scripted_run(&script, &AUTO).run().exits(0);
    assert!(
        ran.stdout.contains("another process moved"),
        "{}",
        ran.stdout
    );
    assert_eq!(shop.of_user(), before, "nothing landed");
    let kept = shop.git(&["log", "-1", "--format=%s", "refs/teamster/shop/moved-1"]);
    assert_eq!(kept, "evil", "and it is not thrown away");
    shop.is_quiet();
}

#[test]
fn what_a_worker_commits_to_the_merged_work_itself_does_not_land() {
    let shop = Shop::in_use();
    let script = runs(
        "echo mended >> news.txt; cd ../integration && echo SECRET > .env && git add -f .env && git -c user.name=x \
         -c user.email=x@x commit -qm sneaked",
    );
    shop.scripted_run(&script, &AUTO).run().exits(0);
    let files = shop.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(!files.lines().any(|file| file == ".env"), "{files}");
    assert!(shop.git(&["show", "main:news.txt"]).contains("mended"));
    let kept = shop.git(&["show", "refs/teamster/shop/moved-1:.env"]);
    assert_eq!(kept, "SECRET");
}

#[test]
fn merged_work_that_a_worker_took_out_again_is_in_what_lands() {
    let shop = Shop::in_use();
    let plan = "[[tasks]]\nid = \"a\"\nsubject = \"a\"\n[[tasks]]\nid = \"b\"\nsubject = \"b\"\nblockedBy = [\"a\"]\n";
    let script = format!(
        "[[step]]\ntask = \"a\"\ndo = \"edit\"\npath = \"a.txt\"\ncontent = \"a\"\n\
         [[step]]\ntask = \"b\"\ndo = \"run\"\ncommand = \"git update-ref {INTEGRATION} main\"\n\
         [[step]]\ntask = \"b\"\ndo = \"edit\"\npath = \"b.txt\"\ncontent = \"b\"\n"
    );
    let plan = shop.plan(plan);
    let more = [AUTO.as_slice(), &["--plan", &plan]].concat();
    shop.scripted_run(&script, &more).run().exits(0);
    let files = shop.git(&["ls-tree", "-r", "--name-only", "main"]);
    for file in ["a.txt", "b.txt"] {
        assert!(files.lines().any(|found| found == file), "{files}");
    }
}

#[test]
fn a_link_in_the_place_of_the_integration_worktree_leads_to_no_harm() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let script = runs("cd .. && mv integration gone && ln -s ../../.. integration");
    let ran = shop.scripted_run(&script, &AUTO).run();
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    assert_eq!(shop.of_user(), before, "the user's files are as they were");
    shop.has_drafts();
}

#[test]
fn a_check_that_commits_changes_nothing_and_ends() {
    let shop = Shop::in_use();
    let script = runs("echo mended >> news.txt");
    let check =
        "date +%N > noise; git add noise; git -c user.name=x -c user.email=x@x commit -qm noise";
    let verify = ["--verify", check, "--approve", "auto"];
    shop.scripted_run(&script, &verify).run().exits(0);
    let files = shop.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(!files.lines().any(|file| file == "noise"), "{files}");
}

#[test]
fn a_repository_in_the_repository_does_not_land_as_an_empty_name() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let script = runs(
        "git init -q sub && echo x > sub/f && git -C sub add f && git -C sub -c user.name=x -c user.email=x@x commit -qm x",
    );
    let ran = shop.scripted_run(&script, &AUTO).run().exits(14);
    assert!(ran.stdout.contains("nested repository"), "{}", ran.stdout);
    assert_eq!(shop.of_user(), before);
}

#[test]
fn work_that_changed_nothing_is_no_success_while_a_check_fails() {
    let shop = Shop::new();
    shop.project
        .write("Makefile", "test:\n\tgrep -q mended news.txt\n");
    shop.git(&["add", "Makefile"]);
    shop.git(&["commit", "--quiet", "--message", "Test with make"]);
    let found = ["--trust-project", "--approve", "auto"];
    let ran = shop.scripted_run(&runs("true"), &found).run().exits(11);
    assert!(ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
    // A check given by a person is a goal: it is worked on before the run gives up.
    let shop = Shop::in_use();
    let verify = ["--verify", "grep -q mended news.txt", "--approve", "auto"];
    let ran = shop.scripted_run(&runs("true"), &verify).run().exits(11);
    assert!(ran.stderr.contains("3 rounds of fixing"), "{}", ran.stderr);
}

#[test]
fn agent_that_changes_nothing_and_says_that_it_could_not_is_no_success() {
    let gave_up =
        "[[step]]\ndo = \"say\"\ntext = \"I could not do this task: news.txt is not mine.\"\n";
    let shop = Shop::new();
    let ran = shop
        .scripted_run(gave_up, &["--approve", "auto"])
        .run()
        .exits(14);
    let told = "task 1 changed nothing, and worker-1 says: \u{201c}I could not do this task: news.txt is not mine.\u{201d}";
    assert!(ran.stderr.contains(told), "{}{}", ran.stdout, ran.stderr);
    // A person can accept that: nothing lands, and the run is over.
    let base = shop.git(&["rev-parse", "main"]);
    let ran = shop.run(&["approve", "--team", "shop", "--commit", base.trim()]);
    ran.exits(0);
    assert_eq!(shop.git(&["rev-parse", "main"]), base);
    // The same beside completed work.
    let shop = Shop::new();
    let script = "[[step]]\ntask = \"one\"\ndo = \"edit\"\npath = \"one.txt\"\ncontent = \"1\"\n\
                  [[step]]\ntask = \"two\"\ndo = \"say\"\ntext = \"I was unable to do two.\"\n";
    let plan =
        "[[tasks]]\nid = \"a\"\nsubject = \"one\"\n[[tasks]]\nid = \"b\"\nsubject = \"two\"\n";
    let verify = ["--verify", "true", "--approve", "auto"];
    let plan = shop.plan(plan);
    let more = ["--plan", plan.as_str()];
    let ran = shop
        .scripted_run(script, &[&more[..], &verify[..]].concat())
        .run()
        .exits(14);
    assert!(
        ran.stderr.contains("I was unable to do two."),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_somebody_adds_to_a_run_by_hand_is_merged_too() {
    let shop = Shop::in_use();
    let script = "[[step]]\ntask = \"mend it\"\ndo = \"run\"\ncommand = \"touch ROOT/at-work; until test -e ROOT/go; do sleep 0.02; done; \
         echo mended >> news.txt\"\n[[step]]\ntask = \"by hand\"\ndo = \"edit\"\npath = \"hand.txt\"\ncontent = \"made by hand\"\n";
    let mut run = shop.scripted_run(script, &AUTO).spawn();
    shop.until("the worker", || shop.aside().join("at-work").exists());
    shop.run(&["task", "create", "--team", "shop", "--subject", "by hand"])
        .exits(0);
    std::fs::write(shop.aside().join("go"), "").unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!(shop.git(&["show", "main:hand.txt"]), "made by hand");
}

#[test]
fn a_branch_that_was_moved_back_is_not_brought_forward_again() {
    let shop = Shop::new();
    shop.project.write("late.txt", "to be dropped\n");
    shop.git(&["add", "late.txt"]);
    shop.git(&["commit", "--quiet", "--message", "To be dropped"]);
    shop.scripted_run(&runs("echo mended >> news.txt"), &["--approve", "never"])
        .run()
        .exits(0);
    let commit = shop.asked();
    shop.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let before = shop.of_user();
    let told = shop
        .run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(4);
    assert!(told.stderr.contains("moved back"), "{}", told.stderr);
    assert_eq!(shop.of_user(), before);
}

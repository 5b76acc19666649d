//! Checks run on exactly the commit that would land, in a fresh tree of it.

use crate::run::Shop;

/// Returns a script with one task whose worker runs a command.
fn runs(command: &str) -> String {
    format!("[[step]]\ntask = \"mend it\"\ndo = \"run\"\ncommand = {command:?}\n")
}

/// Starts a run whose work leaves `test.txt` bad, and whose worker tries to make the check pass anyway.
#[track_caller]
fn rig(shop: &Shop, trick: &str, check: &str) {
    shop.project.write("test.txt", "good\n");
    shop.git(&["add", "test.txt"]);
    shop.git(&["commit", "--quiet", "--message", "Test"]);
    let before = shop.of_user();
    let script = runs(&format!("echo bad > test.txt; {trick}"));
    let more = ["--verify", check, "--approve", "auto", "--max-fix", "0"];
    let ran = shop.scripted_run(&script, &more).run().exits(11);
    assert!(
        ran.stdout.contains("FAILED on the merged work"),
        "{}",
        ran.stdout
    );
    assert_eq!(shop.of_user(), before, "nothing landed");
    shop.is_quiet();
}

#[test]
fn file_that_git_was_told_to_skip_in_the_integration_worktree_decides_no_check() {
    let trick =
        "cd ../integration && echo good > test.txt && git update-index --skip-worktree test.txt";
    rig(&Shop::new(), trick, "grep -q good test.txt");
}

#[test]
fn file_that_git_was_told_to_assume_unchanged_decides_no_check() {
    let trick =
        "cd ../integration && echo good > test.txt && git update-index --assume-unchanged test.txt";
    rig(&Shop::new(), trick, "grep -q good test.txt");
}

#[test]
fn ignored_file_in_the_integration_worktree_decides_no_check() {
    let trick = "echo rigged > ../integration/rigged; echo rigged >> $(git rev-parse --git-common-dir)/info/exclude";
    rig(
        &Shop::new(),
        trick,
        "test -e rigged || grep -q good test.txt",
    );
}

#[test]
fn filter_that_a_worker_set_up_decides_no_check() {
    let attributes = "echo 'test.txt filter=a=b' > ROOT/attributes; git config core.attributesFile ROOT/attributes; ";
    let filter = "git config filter.a=b.smudge 'echo good'; git config filter.a=b.clean 'git show HEAD:test.txt'";
    rig(
        &Shop::new(),
        &format!("{attributes}{filter}"),
        "grep -q good test.txt",
    );
    // An attribute that applies only in the trees of checks.
    let hidden = "A=ROOT; echo 'test.txt filter=x' > $A/attributes; \
         printf '[core]\\nattributesFile = %s/attributes\\n[filter \"x\"]\\nsmudge = echo good\\n' $A > $A/config; \
         git config 'includeIf.gitdir:**/worktrees/*check*.path' $A/config";
    let shop = Shop::new();
    // The user's own attributes do not count as a change.
    shop.git(&["config", "--global", "core.attributesFile", "~/own"]);
    std::fs::write(shop.aside().join("own"), "*.own -text\n").unwrap();
    rig(&shop, hidden, "grep -q good test.txt");
}

#[test]
fn file_that_an_earlier_check_left_decides_no_later_check() {
    let shop = Shop::new();
    let script = runs("echo mended > news.txt");
    let more = [
        "--verify",
        "touch left.txt; echo left.txt >> $(git rev-parse --git-common-dir)/info/exclude",
        "--verify",
        "test ! -e left.txt",
        "--approve",
        "auto",
    ];
    shop.scripted_run(&script, &more).run().exits(0);
}

#[test]
fn check_sees_the_whole_commit_where_the_users_tree_shows_a_part() {
    let shop = Shop::new();
    shop.project.write("inside/a.txt", "a\n");
    shop.project.write("outside/b.txt", "b\n");
    shop.git(&["add", "--all"]);
    shop.git(&["commit", "--quiet", "--message", "Folders"]);
    shop.git(&["sparse-checkout", "set", "inside"]);
    let script = runs("echo mended > inside/a.txt");
    let more = [
        "--verify",
        "test -e outside/b.txt && grep -q mended inside/a.txt",
        "--approve",
        "auto",
    ];
    shop.scripted_run(&script, &more).run().exits(0);
    assert_eq!(shop.git(&["show", "main:inside/a.txt"]), "mended");
    assert!(
        !shop.folder().join("outside").exists(),
        "the user's own view is as it was"
    );
}

#[test]
fn tree_of_a_check_whose_host_was_killed_is_removed_by_the_next_host() {
    let shop = Shop::new();
    let script = runs("echo mended > news.txt");
    let check = "grep -q nothing news.txt || { touch $HOME/checking; until test -e $HOME/go; do sleep 0.02; done; }";
    let more = ["--verify", check, "--approve", "auto"];
    let mut host = shop.scripted_run(&script, &more).spawn();
    shop.until("the check", || shop.aside().join("checking").exists());
    host.kill().unwrap();
    host.wait().unwrap();
    let trees = || shop.git(&["worktree", "list"]).matches("/.check-").count();
    assert_eq!(trees(), 1, "this is what a killed host leaves");
    std::fs::write(shop.aside().join("go"), "").unwrap();
    shop.run(&["run", "--resume", "shop"]).exits(0);
    assert_eq!(trees(), 0);
    assert_eq!(shop.left(), [""; 0]);
    shop.is_quiet();
}

#[test]
fn tree_of_a_check_that_left_a_read_only_folder_is_removed() {
    let shop = Shop::new();
    let script = runs("echo mended > news.txt");
    let check = "mkdir -p left/inner; touch left/inner/file; chmod 555 left/inner left";
    let more = ["--verify", check, "--approve", "auto"];
    let ran = shop.scripted_run(&script, &more).run().exits(0);
    assert!(
        !ran.stdout.contains("could not be removed"),
        "{}",
        ran.stdout
    );
    assert_eq!(shop.left(), [""; 0]);
}

#[test]
fn settings_that_a_worker_left_above_the_tree_of_a_check_stop_the_run() {
    for place in ["../.cargo", "../../node_modules", "../../../.config"] {
        let shop = Shop::new();
        let script = runs(&format!("echo mended > news.txt; mkdir -p {place}"));
        let more = ["--verify", "true", "--approve", "auto"];
        let ran = shop.scripted_run(&script, &more).run().exits(1);
        let name = place.trim_start_matches("../");
        assert!(ran.stderr.contains(name), "{}", ran.stderr);
        assert_eq!(shop.git(&["show", "main:news.txt"]), "nothing new");
        shop.is_quiet();
    }
}

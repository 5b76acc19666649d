//! Landing: exactly what was shown lands, and a refused landing changes nothing.

use super::add_filter;
use crate::run::Shop;

/// Returns a script with one task whose worker runs a command.
fn runs(command: &str) -> String {
    format!("[[step]]\ntask = \"mend it\"\ndo = \"run\"\ncommand = {command:?}\n")
}

#[test]
fn landing_that_a_filter_stops_half_way_leaves_every_file_as_it_was() {
    let shop = Shop::in_use();
    // The filter fails in the user's own folder, and in no worktree of the team.
    add_filter(&shop, "*/project");
    shop.project.write("drop.txt", "to be dropped\n");
    shop.git(&["add", "drop.txt"]);
    shop.git(&["commit", "--quiet", "--message", "Drop", "--", "drop.txt"]);
    let script = runs(
        "echo mended > news.txt; echo new > 0-new.txt; mkdir deep; echo deep > deep/new.txt; rm drop.txt; \
         echo big > middle.big; echo z > z-new.txt",
    );
    shop.scripted_run(&script, &["--approve", "never", "--verify", "true"])
        .run()
        .exits(0);
    let commit = shop.asked();
    let before = shop.of_user();
    let approve = ["approve", "--team", "shop", "--commit", &commit];
    let told = shop.run(&approve).exits(4);
    assert!(told.stderr.contains("middle.big"), "{}", told.stderr);
    assert!(told.stderr.contains("was not changed"), "{}", told.stderr);
    assert_eq!(shop.of_user(), before);
    assert!(!shop.folder().join("deep").exists());
    std::fs::remove_file(shop.aside().join("fail")).unwrap();
    shop.run(&approve).exits(0);
    shop.has_drafts();
    assert_eq!(shop.git(&["rev-parse", "main"]), commit);
}

#[test]
fn landing_that_stops_half_way_names_what_it_cannot_put_back() {
    let shop = Shop::new();
    shop.project.write("a.big", "first\n");
    add_filter(&shop, "*/project");
    let fail = shop.aside().join("fail");
    std::fs::remove_file(&fail).unwrap();
    shop.git(&["add", "--all"]);
    shop.git(&["commit", "--quiet", "--message", "Big"]);
    let script = runs("echo second > a.big; echo second > b.big");
    shop.scripted_run(&script, &["--approve", "never", "--verify", "true"])
        .run()
        .exits(0);
    let commit = shop.asked();
    // Now nothing that goes through the filter can be written, not even the previous content.
    std::fs::write(&fail, "").unwrap();
    let told = shop
        .run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(4);
    let is_there = shop.folder().join("a.big").exists();
    let is_named = told.stderr.contains("a.big") && told.stderr.contains("restore");
    assert!(is_there || is_named, "{}", told.stderr);
    assert!(
        is_there != told.stderr.contains("was not moved"),
        "{}",
        told.stderr
    );
}

#[test]
fn branches_that_a_worker_moved_are_told_at_the_gate_and_in_the_report() {
    let shop = Shop::new();
    shop.git(&["branch", "other"]);
    shop.git(&["tag", "v1"]);
    let git = "git -c user.name=x -c user.email=x@x";
    let script = runs(&format!(
        "echo mended > news.txt; evil=$({git} commit-tree -p HEAD -m evil HEAD^{{tree}}); \
         git update-ref refs/heads/other $evil; git tag -f v1 $evil; git branch planted $evil"
    ));
    let ran = shop
        .scripted_run(&script, &["--approve", "never", "--verify", "true"])
        .run()
        .exits(0);
    for told in [
        "Branch other moved from",
        "Tag v1 moved from",
        "Branch planted is new",
    ] {
        assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
    }
    let commit = shop.asked();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    let report = shop.report();
    assert!(report.contains("Branch other moved from"), "{report}");
    assert!(
        !report.contains("Branch main moved"),
        "that was the landing: {report}"
    );
}

#[test]
fn users_branch_that_a_worker_moved_is_told_and_what_is_on_it_is_shown() {
    let shop = Shop::new();
    let git = "git -c user.name=x -c user.email=x@x";
    let script = runs(&format!(
        "echo mended > news.txt; blob=$(echo evil | git hash-object -w --stdin); \
         tree=$({{ git ls-tree HEAD; printf '100644 blob %s\\tevil.txt\\n' $blob; }} | git mktree); \
         git update-ref refs/heads/main $({git} commit-tree -p HEAD -m evil $tree)"
    ));
    let ran = shop
        .scripted_run(&script, &["--approve", "never", "--verify", "true"])
        .run()
        .exits(0);
    assert!(
        ran.stdout.contains("Branch main moved from"),
        "{}",
        ran.stdout
    );
    let first = shop.asked();
    // It does not land on top of unseen commits: the gate asks again, with all of it.
    shop.run(&["approve", "--team", "shop", "--commit", &first])
        .exits(4);
    let shown = shop.events_of("approval.shown");
    let files = shown.last().unwrap()["data"]["files"].to_string();
    assert!(files.contains("evil.txt"), "{files}");
}

#[test]
fn users_branch_that_a_worker_moved_is_told_where_the_checks_approve() {
    let shop = Shop::new();
    let git = "git -c user.name=x -c user.email=x@x";
    let script = runs(&format!(
        "echo mended > news.txt; git update-ref refs/heads/main $({git} commit-tree -p HEAD -m evil HEAD^{{tree}})"
    ));
    let more = ["--approve", "auto", "--verify", "true"];
    let ran = shop.scripted_run(&script, &more).run().exits(0);
    let told = "Branch main was moved from";
    assert!(ran.stdout.contains(told), "{}", ran.stdout);
    assert!(shop.report().contains(told), "{}", shop.report());
}

#[test]
fn rollback_says_which_branches_have_the_work() {
    let shop = Shop::new();
    let more = ["--approve", "never", "--verify", "true"];
    shop.scripted_run(&runs("echo mended > news.txt"), &more)
        .run()
        .exits(0);
    let commit = shop.asked();
    shop.git(&["branch", "copied", &commit]);
    let told = shop
        .run(&[
            "reject",
            "--rollback",
            "--team",
            "shop",
            "--commit",
            &commit,
        ])
        .exits(10);
    assert!(told.stdout.contains("is also on copied"), "{}", told.stdout);
    assert!(!told.stdout.contains("no branch"), "{}", told.stdout);
}

#[test]
fn clone_of_the_landed_branch_is_what_the_gate_has_shown() {
    let shop = Shop::new();
    let script = runs(
        "echo mended > news.txt; printf 'a\\0b' > bytes.bin; ln -s news.txt link; chmod +x add.sh; rm mul.sh",
    );
    let more = ["--approve", "never", "--verify", "true"];
    shop.scripted_run(&script, &more).run().exits(0);
    let commit = shop.asked();
    let base = shop.git(&["rev-parse", "main"]);
    let shown = shop.git(&["diff", "--binary", &base, &commit]);
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    let clone = shop.aside().join("clone");
    let clone = clone.to_str().unwrap();
    shop.git(&[
        "clone",
        "--quiet",
        "--no-local",
        "--branch",
        "main",
        ".",
        clone,
    ]);
    assert_eq!(shop.git(&["-C", clone, "rev-parse", "HEAD"]), commit);
    assert_eq!(
        shop.git(&["-C", clone, "diff", "--binary", &base, "HEAD"]),
        shown
    );
    assert_eq!(shop.git(&["-C", clone, "status", "--porcelain"]), "");
}

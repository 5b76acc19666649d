//! Repositories with the real git-lfs: pointers in commits, contents in work trees, and filters that fail.

use std::process::Command;

use crate::run::Shop;

const CONTENT: &str = "the first content of a large file\n";

/// A pointer to an object that exists nowhere.
const DANGLING: &str = "version https://git-lfs.github.com/spec/v1\n\
    oid sha256:1111111111111111111111111111111111111111111111111111111111111111\nsize 34\n";

/// Makes a shop with a file that git-lfs stores. Fails where git-lfs is missing, because then nothing would be
/// tested.
fn with_large_file(content: &str) -> Shop {
    let there = Command::new("git-lfs").arg("version").output();
    assert!(
        there.is_ok_and(|there| there.status.success()),
        "git-lfs is missing: install it with `apt-get install git-lfs`"
    );
    let shop = Shop::new();
    shop.git(&["lfs", "install", "--skip-repo"]);
    shop.git(&["config", "--global", "lfs.transfer.maxretries", "1"]);
    shop.git(&["lfs", "track", "*.bin"]);
    shop.project.write("large.bin", content);
    shop.git(&["add", "--all"]);
    shop.git(&["commit", "--quiet", "--message", "Keep a large file"]);
    shop
}

fn runs(command: &str) -> String {
    format!("[[step]]\ntask = \"mend it\"\ndo = \"run\"\ncommand = {command:?}\n")
}

fn read(shop: &Shop, path: &str) -> String {
    std::fs::read_to_string(shop.folder().join(path)).unwrap()
}

#[test]
fn large_file_that_a_worker_changed_is_checked_lands_and_can_be_cloned() {
    let shop = with_large_file(CONTENT);
    let script = runs("grep -q first large.bin && echo 'the second content' > large.bin");
    let check = "grep -qx 'the second content' large.bin";
    let more = ["--approve", "never", "--verify", check];
    shop.scripted_run(&script, &more).run().exits(0);
    let commit = shop.asked();
    let diff = shop.git(&["diff", "main", &commit, "--", "large.bin"]);
    assert!(diff.contains("+oid sha256:"), "{diff}");
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    assert_eq!(read(&shop, "large.bin"), "the second content\n");
    assert_eq!(shop.git(&["status", "--porcelain"]), "");
    let source = format!("file://{}", shop.folder().display());
    let clone = shop.aside().join("clone");
    shop.git(&["clone", "--quiet", &source, clone.to_str().unwrap()]);
    let cloned = std::fs::read_to_string(clone.join("large.bin")).unwrap();
    assert_eq!(cloned, "the second content\n");
    assert_eq!(shop.left(), [""; 0]);
    shop.is_quiet();
}

#[test]
fn large_file_whose_content_is_missing_at_the_start_stops_the_run_and_changes_nothing() {
    let shop = with_large_file(DANGLING);
    let before = shop.of_user();
    let more = ["--approve", "auto", "--verify", "true"];
    let ran = shop.scripted_run(&runs("echo x > new.txt"), &more).run();
    assert_ne!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("large.bin"), "{}", ran.stderr);
    assert_eq!(shop.of_user(), before);
    shop.is_quiet();
}

#[test]
fn large_file_whose_content_nobody_has_does_not_land_and_its_commit_is_kept() {
    let shop = with_large_file(CONTENT);
    let before = shop.of_user();
    let pointer = DANGLING.replace('\n', "\\n");
    let script = runs(&format!("printf '{pointer}' > large.bin"));
    let more = ["--approve", "auto", "--verify", "true"];
    let ran = shop.scripted_run(&script, &more).run();
    assert_ne!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(shop.of_user(), before);
    let task = shop.tasks().remove(0);
    let commit = task["metadata"]["teamster"]["result"]["commit"].as_str();
    let kept = shop.git(&["for-each-ref", "--contains", commit.unwrap()]);
    assert_ne!(kept, "", "{task}");
    let again = shop.run(&["run", "--resume", "shop"]);
    assert_ne!(again.code, Some(0), "{}{}", again.stdout, again.stderr);
    assert_eq!(shop.of_user(), before);
    shop.run(&["shutdown", "--team", "shop"]).exits(0);
    shop.is_quiet();
}

#[test]
fn large_file_that_cannot_be_written_at_the_landing_lands_once_it_can() {
    let shop = with_large_file(CONTENT);
    shop.git(&["config", "--global", "--unset", "filter.lfs.process"]);
    let script = runs("echo 'the second content' > large.bin");
    shop.scripted_run(&script, &["--approve", "never", "--verify", "true"])
        .run()
        .exits(0);
    let commit = shop.asked();
    let main = shop.git(&["rev-parse", "main"]);
    // As when the LFS server is unreachable.
    shop.git(&["config", "filter.lfs.smudge", "false"]);
    let approve = ["approve", "--team", "shop", "--commit", &commit];
    let ran = shop.run(&approve);
    assert_ne!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(shop.git(&["rev-parse", "main"]), main, "nothing landed");
    shop.git(&["cat-file", "-e", &commit]);
    shop.git(&["config", "--unset", "filter.lfs.smudge"]);
    shop.git(&["checkout", "--", "large.bin"]);
    shop.run(&approve).exits(0);
    assert_eq!(shop.git(&["rev-parse", "main"]), commit);
    assert_eq!(read(&shop, "large.bin"), "the second content\n");
    shop.is_quiet();
}

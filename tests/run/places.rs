//! Where a run can work: all kinds of repositories, and folders without one.

use super::Shop;

const MADE: &str = "[[step]]\ndo = \"edit\"\npath = \"made.txt\"\ncontent = \"made\\n\"\n";

fn approve(shop: &Shop) -> crate::kit::Ran {
    let commit = shop.asked();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
}

#[test]
fn without_a_repository_that_can_be_worked_in_it_is_said_how_to_go_on() {
    let never = ["--approve", "never", "--verify", "test -e made.txt"];
    let shop = Shop::bare();
    let refused = shop.scripted_run(MADE, &never).run().fails(6);
    assert!(
        refused.stderr.contains("--no-worktrees"),
        "{}",
        refused.stderr
    );
    assert!(!shop.project.claude("teams/shop").exists());
    shop.git(&["init", "--quiet"]);
    let refused = shop.scripted_run(MADE, &never).run().fails(6);
    assert!(
        refused.stderr.contains("--no-worktrees"),
        "{}",
        refused.stderr
    );
    std::fs::remove_dir_all(shop.folder().join(".git")).unwrap();
    let more = [
        "--approve",
        "auto",
        "--verify",
        "test -e made.txt || test ! -e .omc/reports",
        "--no-worktrees",
    ];
    shop.scripted_run(MADE, &more).run().exits(0);
    let made = std::fs::read_to_string(shop.folder().join("made.txt")).unwrap();
    assert_eq!(made, "made\n");
    shop.is_quiet();
}

#[test]
fn a_bare_repository_is_refused() {
    let shop = Shop::bare();
    shop.git(&["init", "--quiet", "--bare"]);
    let refused = shop.scripted_run(MADE, &["--approve", "never"]).run();
    refused.fails(6);
    assert!(!shop.project.claude("teams/shop").exists());
}

#[test]
fn a_folder_of_a_repository_can_be_a_project() {
    let shop = Shop::new();
    shop.project.write("sub/note.txt", "a note\n");
    shop.git(&["add", "sub"]);
    shop.git(&["commit", "--quiet", "--message", "Sub"]);
    let call = shop.scripted_run(MADE, &["--approve", "auto", "--verify", "test -e note.txt"]);
    let sub = shop.folder().join("sub");
    call.env("TEAMSTER_PROJECT", &sub).run().exits(0);
    assert_eq!(shop.git(&["show", "main:sub/made.txt"]), "made");
    assert_eq!(shop.git(&["status", "--porcelain"]), "");
    assert_eq!(shop.left(), [""; 0]);
}

#[test]
fn where_no_branch_is_checked_out_the_work_stays_on_its_own() {
    let shop = Shop::in_use();
    shop.git(&["checkout", "--quiet", "--detach"]);
    let before = shop.of_user();
    let more = ["--approve", "never", "--verify", "true"];
    shop.scripted_run(MADE, &more).run().exits(0);
    let commit = shop.asked();
    approve(&shop).exits(0);
    assert_eq!(shop.of_user(), before);
    assert_eq!(
        shop.git(&["rev-parse", "omc-team/shop/integration"]),
        commit
    );
    assert!(shop.report().contains("omc-team/shop/integration"));
}

#[test]
fn work_on_another_branch_lands_there_and_nowhere_else() {
    let shop = Shop::in_use();
    shop.git(&["branch", "other"]);
    let before = shop.of_user();
    let more = ["--approve", "never", "--verify", "true", "--base", "other"];
    shop.scripted_run(MADE, &more).run().exits(0);
    let commit = shop.asked();
    approve(&shop).exits(0);
    assert_eq!(shop.git(&["rev-parse", "other"]), commit);
    let after = shop.of_user();
    assert_eq!((after.files, after.index), (before.files, before.index));
    assert_eq!(after.status, before.status);
    let nothing = shop.scripted_run(MADE, &["--base", "nowhere"]).run();
    nothing.fails(3);
}

#[test]
fn gate_of_a_run_in_the_project_folder_shows_what_changed_and_our_folders_are_no_changes() {
    let shop = Shop::in_use();
    let script = "[[step]]\ndo = \"edit\"\npath = \"made.txt\"\ncontent = \"made\\n\"\n\
                  [[step]]\ndo = \"edit\"\npath = \"add.sh\"\nfind = \"$1 - $2\"\nreplace = \"$1 + $2\"\n";
    let index = std::fs::read(shop.folder().join(".git/index")).unwrap();
    let more = ["--no-worktrees", "--approve", "never", "--verify", "true"];
    let ran = shop.scripted_run(script, &more).run().exits(0);
    assert!(
        !ran.stdout.contains("Nothing has changed"),
        "{}",
        ran.stdout
    );
    for part in ["add.sh", "made.txt", "2 files changed"] {
        assert!(
            ran.stdout.contains(part),
            "{part} is not in\n{}",
            ran.stdout
        );
    }
    // The user's earlier changes are not attributed to the team.
    let shown = &shop.events_of("approval.shown")[0]["data"];
    let files: Vec<&str> = shown["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(files, ["add.sh", "made.txt"]);
    assert_eq!(
        std::fs::read(shop.folder().join(".git/index")).unwrap(),
        index
    );
    let status = shop.git(&["status", "--porcelain"]);
    assert_eq!(
        status,
        " M add.sh\n M readme.txt\nA  staged.txt\n?? draft/\n?? made.txt"
    );
    let excluded = std::fs::read_to_string(shop.folder().join(".git/info/exclude")).unwrap();
    for folder in [".omc/", ".bkit/", ".party/"] {
        assert!(
            excluded
                .lines()
                .any(|line| line.trim_start_matches('/') == folder),
            "{excluded}"
        );
    }
    shop.run(["approve", "--team", "shop"]).exits(0);
    assert!(shop.report().contains("made.txt"), "{}", shop.report());
}

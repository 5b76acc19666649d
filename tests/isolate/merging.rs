//! The merge train: commits are predicted, merged once, or left out.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::thread;

use teamster_isolate::git::{CommitId, Integration, MergeOutcome, MergePrediction};
use teamster_testkit::Dice;
use teamster_types::TaskId;

use super::integration::merge;
use super::{GitProject, put, worker};

fn task(id: &str) -> TaskId {
    id.parse().unwrap()
}

fn files(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn tasks_are_merged_one_at_a_time_and_each_once() {
    let project = GitProject::new();
    let base = project.found().head;
    let integration = project.integration();
    let before = project.user_state();
    let first = project.work(&base, &[("a", "a\n")]);
    let second = project.work(&base, &[("b", "b\n")]);
    assert!(matches!(
        integration.predict(&first).unwrap(),
        MergePrediction::Clean { .. }
    ));
    let one = merge(&integration, &first, "1");
    let two = merge(&integration, &second, "2");
    assert_eq!(
        project.git(&["show", "--no-patch", "--format=%B%P", two.as_str()]),
        format!(
            "Merge task 2 of worker-1\n\nTeamster-Team: fix-auth\nTeamster-Task: 2\nTeamster-Worker: worker-1\n{one} {second}"
        )
    );
    for commit in [&first, &second, &base] {
        assert_eq!(
            integration.predict(commit).unwrap(),
            MergePrediction::Already
        );
        let again = integration
            .merge(&integration.head().unwrap(), commit, &task("1"), &worker())
            .unwrap();
        assert_eq!(again, MergeOutcome::Already);
    }
    assert_eq!(integration.head().unwrap(), two);
    assert!(integration.is_clean().unwrap());
    assert!(integration.path().join("a").exists() && integration.path().join("b").exists());
    assert_eq!(
        project.user_state(),
        before,
        "nothing of the user's has changed"
    );
}

#[test]
fn a_conflict_is_listed_changes_nothing_and_stops_nobody() {
    let project = GitProject::new();
    let base = project.found().head;
    let integration = project.integration();
    let odd = std::ffi::OsStr::from_bytes(b"odd \xff\nname");
    let first = project.work(&base, &[("README.md", "one\nmine\n"), ("로그인", "a\n")]);
    let one = merge(&integration, &first, "1");
    let before = project.user_state();

    let place = project.project.home().join("odd");
    project.git(&[
        "worktree",
        "add",
        "--quiet",
        "--detach",
        place.to_str().unwrap(),
    ]);
    put(&place, "README.md", "one\nyours\n");
    put(&place, "로그인", "b\n");
    put(&place, "fine", "fine\n");
    std::fs::write(place.join(odd), "x").unwrap();
    let second = project.commit_in(&place, "Conflicts");
    let conflicting = files(&["README.md", "로그인"]);
    assert_eq!(
        integration.predict(&second).unwrap(),
        MergePrediction::Conflict {
            files: conflicting.clone()
        }
    );
    assert_eq!(
        integration
            .merge(&integration.head().unwrap(), &second, &task("2"), &worker())
            .unwrap(),
        MergeOutcome::Conflict { files: conflicting }
    );
    assert_eq!(integration.head().unwrap(), one);
    assert!(integration.is_clean().unwrap());

    let third = project.work(&base, &[("c", "c\n")]);
    merge(&integration, &third, "3");
    assert_eq!(project.user_state(), before);

    // A name that is not UTF-8 is reported byte for byte.
    let place = project.project.home().join("odd2");
    project.git(&[
        "worktree",
        "add",
        "--quiet",
        "--detach",
        place.to_str().unwrap(),
        base.as_str(),
    ]);
    std::fs::write(place.join(odd), "y").unwrap();
    let fourth = project.commit_in(&place, "Odd");
    merge(&integration, &fourth, "4");
    let other = project.work(&base, &[("README.md", "one\nmine\n")]);
    assert!(matches!(
        integration.predict(&other).unwrap(),
        MergePrediction::Clean { .. }
    ));
    let MergePrediction::Conflict { files } = integration.predict(&second).unwrap() else {
        panic!("no conflict");
    };
    assert!(files.contains(&PathBuf::from(odd)), "{files:?}");
}

#[test]
fn commits_without_a_common_beginning_are_no_merge() {
    let project = GitProject::new();
    let integration = project.integration();
    let tree = project.git(&["rev-parse", "HEAD^{tree}"]);
    let alone: CommitId = project
        .git(&["commit-tree", "-m", "Alone", &tree])
        .parse()
        .unwrap();
    assert_eq!(
        integration.predict(&alone).unwrap(),
        MergePrediction::Unrelated
    );
    assert_eq!(
        integration
            .merge(&integration.head().unwrap(), &alone, &task("1"), &worker())
            .unwrap(),
        MergeOutcome::Conflict { files: Vec::new() }
    );
    let nowhere: CommitId = "1".repeat(40).parse().unwrap();
    assert!(integration.predict(&nowhere).is_err());
}

#[test]
fn the_merge_is_the_one_that_git_itself_would_make() {
    let project = GitProject::new();
    project.project.write("text", &"line\n".repeat(40));
    project.project.write("moved", &"moved\n".repeat(40));
    let base = project.commit("Text");
    let integration = project.integration();
    let first = project.work(&base, &[("text", &format!("top\n{}", "line\n".repeat(40)))]);
    merge(&integration, &first, "1");
    let place = project.project.home().join("other");
    project.git(&[
        "worktree",
        "add",
        "--quiet",
        "--detach",
        place.to_str().unwrap(),
    ]);
    put(&place, "text", &format!("{}bottom\n", "line\n".repeat(40)));
    project.git_in(&place, &["mv", "moved", "elsewhere"]);
    let second = project.commit_in(&place, "Other");
    project.git_in(
        &place,
        &["checkout", "--quiet", "--detach", &integration.branch()],
    );
    project.git_in(
        &place,
        &["merge", "--quiet", "--no-ff", "--no-edit", second.as_str()],
    );
    let made = merge(&integration, &second, "2");
    let tree = |commit: &CommitId| project.git(&["rev-parse", &format!("{commit}^{{tree}}")]);
    assert_eq!(tree(&made), tree(&project.head_of(&place)));
    assert!(integration.is_clean().unwrap());
}

#[test]
fn many_who_merge_at_once_take_turns_and_none_is_lost_or_doubled() {
    let project = GitProject::new();
    let base = project.found().head;
    let integration = project.integration();
    let commits: Vec<CommitId> = (0..6)
        .map(|number| project.work(&base, &[(&format!("file-{number}"), "x\n")]))
        .collect();
    thread::scope(|scope| {
        for (place, commit) in commits.iter().enumerate() {
            // Each commit is offered twice, as after a crash with an unknown result.
            for _ in 0..2 {
                let integration: &Integration = &integration;
                scope.spawn(move || {
                    let task = task(&place.to_string());
                    loop {
                        let head = integration.head().unwrap();
                        match integration.merge(&head, commit, &task, &worker()).unwrap() {
                            MergeOutcome::Made(_) | MergeOutcome::Already => break,
                            MergeOutcome::Moved => {}
                            MergeOutcome::Conflict { files } => panic!("{files:?}"),
                        }
                    }
                });
            }
        }
    });
    let merges = project.git(&[
        "rev-list",
        "--count",
        "--first-parent",
        &format!("{base}..{}", integration.branch()),
    ]);
    assert_eq!(merges, "6");
    for number in 0..6 {
        assert!(integration.path().join(format!("file-{number}")).exists());
    }
    assert!(integration.is_clean().unwrap());
}

#[test]
fn no_setting_of_the_repository_decides_how_it_is_merged() {
    let project = GitProject::new();
    let base = project.found().head;
    let integration = project.integration();
    let hooks = project.folder().join(".git/hooks");
    for hook in [
        "pre-merge-commit",
        "commit-msg",
        "post-merge",
        "post-checkout",
    ] {
        put(&hooks, hook, "#!/bin/sh\ntouch \"$HOME/ran\"\nexit 1\n");
        let path = hooks.join(hook);
        let mut rights = std::fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
        std::fs::set_permissions(&path, rights).unwrap();
    }
    for (key, value) in [
        ("commit.gpgSign", "true"),
        ("gpg.program", "/nowhere"),
        ("merge.ff", "only"),
        ("merge.autoStash", "true"),
    ] {
        project.git(&["config", key, value]);
    }
    let first = project.work_without_hooks(&base, "a");
    let second = project.work_without_hooks(&base, "b");
    merge(&integration, &first, "1");
    let made = merge(&integration, &second, "2");
    assert_eq!(integration.head().unwrap(), made);
    assert!(!project.project.home().join("ran").exists());
}

impl GitProject {
    /// Makes a commit without a work tree, for settings under which none can be made.
    fn work_without_hooks(&self, base: &CommitId, file: &str) -> CommitId {
        let blob = self.git(&["hash-object", "-w", "README.md"]);
        let old = self.git(&["ls-tree", base.as_str()]);
        let tree = self.project.home().join("tree");
        std::fs::write(&tree, format!("{old}\n100644 blob {blob}\t{file}\n")).unwrap();
        let mut mktree = self.git_command(&self.folder(), &["mktree"]);
        let ran = mktree
            .stdin(std::fs::File::open(&tree).unwrap())
            .output()
            .unwrap();
        let made = String::from_utf8(ran.stdout).unwrap();
        let args = [
            "commit-tree",
            "-p",
            base.as_str(),
            "-m",
            "Work",
            made.trim(),
        ];
        self.git(&args).parse().unwrap()
    }
}

#[test]
fn the_users_branch_is_merged_when_it_has_moved() {
    let project = GitProject::new();
    let base = project.found().head;
    let integration = project.integration();
    let first = project.work(&base, &[("a", "a\n")]);
    merge(&integration, &first, "1");
    assert_eq!(
        integration
            .bring_up_to_date(&integration.head().unwrap(), "main")
            .unwrap(),
        MergeOutcome::Already
    );

    project.project.write("later", "later\n");
    let later = project.commit("Later");
    let before = project.user_state();
    let MergeOutcome::Made(made) = integration
        .bring_up_to_date(&integration.head().unwrap(), "main")
        .unwrap()
    else {
        panic!("not merged");
    };
    let repo = project.repo();
    assert!(repo.is_ancestor(&later, &made).unwrap() && repo.is_ancestor(&first, &made).unwrap());
    assert_eq!(
        project.git(&["show", "--no-patch", "--format=%s", made.as_str()]),
        "Merge main into omc-team/fix-auth/integration"
    );
    assert!(integration.path().join("later").exists());

    let second = project.work(&base, &[("README.md", "two\n")]);
    merge(&integration, &second, "2");
    assert_eq!(project.user_state(), before);
    project.project.write("README.md", "three\n");
    project.commit("Conflicts");
    let before = (project.user_state(), integration.head().unwrap());
    assert_eq!(
        integration
            .bring_up_to_date(&integration.head().unwrap(), "main")
            .unwrap(),
        MergeOutcome::Conflict {
            files: files(&["README.md"])
        }
    );
    assert_eq!((project.user_state(), integration.head().unwrap()), before);
    for odd in [
        "nowhere",
        "main~1",
        "-x",
        "",
        "omc-team/fix-auth/worker-1",
        "a..b",
    ] {
        assert!(
            integration
                .bring_up_to_date(&integration.head().unwrap(), odd)
                .is_err(),
            "{odd}"
        );
    }
}

#[test]
fn whatever_tasks_change_it_is_merged_exactly_when_git_would_merge_it() {
    let (mut made, mut left_out) = (0, 0);
    for seed in [3, 17] {
        let mut dice = Dice(seed);
        let project = GitProject::new();
        for file in ["a", "b"] {
            let mut lines = String::new();
            for line in 0..12 {
                let _ = writeln!(lines, "{file} {line} as it was 0");
            }
            project.project.write(file, &lines);
        }
        let base = project.commit("Lines");
        let integration = project.integration();
        let before = project.user_state();
        let judge = project.project.home().join("judge");
        project.git(&[
            "worktree",
            "add",
            "--quiet",
            "--detach",
            judge.to_str().unwrap(),
        ]);
        let mut merged = Vec::new();
        for number in 0..8_u64 {
            let file = ["a", "b"][usize::try_from(dice.below(2)).unwrap()];
            let changed = dice.below(12);
            let mut lines = String::new();
            for line in 0..12 {
                let by = if line == changed {
                    "changed"
                } else {
                    "as it was"
                };
                let _ = writeln!(
                    lines,
                    "{file} {line} {by} {}",
                    number * u64::from(line == changed)
                );
            }
            let commit = project.work(&base, &[(file, &lines)]);
            project.git_in(
                &judge,
                &["checkout", "--quiet", "--detach", &integration.branch()],
            );
            let args = ["merge", "--quiet", "--no-ff", "--no-edit", commit.as_str()];
            let is_clean = project.try_git(&judge, &args).status.success();
            let head = integration.head().unwrap();
            match integration
                .merge(&head, &commit, &task(&number.to_string()), &worker())
                .unwrap()
            {
                MergeOutcome::Made(commit) => {
                    assert!(is_clean, "seed {seed}, task {number}");
                    let tree = |commit: &CommitId| {
                        project.git(&["rev-parse", &format!("{commit}^{{tree}}")])
                    };
                    assert_eq!(tree(&commit), tree(&project.head_of(&judge)));
                    made += 1;
                }
                MergeOutcome::Conflict { files } => {
                    assert!(!is_clean, "seed {seed}, task {number}");
                    assert_eq!(files, [PathBuf::from(file)]);
                    assert_eq!(integration.head().unwrap(), head);
                    project.git_in(&judge, &["merge", "--abort"]);
                    left_out += 1;
                }
                other @ (MergeOutcome::Already | MergeOutcome::Moved) => {
                    panic!("seed {seed}, task {number} was never merged: {other:?}")
                }
            }
            merged.push(commit);
        }
        let head = integration.head().unwrap();
        for (number, commit) in merged.iter().enumerate() {
            let again = integration
                .merge(&head, commit, &task(&number.to_string()), &worker())
                .unwrap();
            assert!(
                !matches!(again, MergeOutcome::Made(_)),
                "seed {seed}, task {number}"
            );
        }
        assert_eq!(integration.head().unwrap(), head, "nothing is merged twice");
        project.git(&["worktree", "remove", "--force", judge.to_str().unwrap()]);
        assert_eq!(project.user_state(), before);
    }
    assert!(
        made > 2 && left_out > 2,
        "{made} merged, {left_out} left out"
    );
}

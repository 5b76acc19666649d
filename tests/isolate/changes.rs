//! A worker's changes, with any file names, and committing them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use teamster_isolate::git::{Author, ChangeKind, GitProblem, Worktree};

use super::{GitProject, author, put, team, worker};

fn kinds(
    worktree: &Worktree,
    base: &teamster_isolate::git::CommitId,
) -> Vec<(String, &'static str)> {
    let changes = worktree.changes(base).unwrap();
    changes
        .iter()
        .map(|change| {
            (
                change.path.to_string_lossy().into_owned(),
                change.kind.word(),
            )
        })
        .collect()
}

#[test]
fn committed_staged_unstaged_and_untracked_are_all_seen() {
    let project = GitProject::new();
    for name in ["a", "b", "c", "d"] {
        project.project.write(name, "old\n");
    }
    let base = project.commit("Four files");
    let worktree = project.prepare().worktree;
    let path = worktree.path();
    assert_eq!(worktree.changes(&base).unwrap(), []);
    put(path, "a", "committed\n");
    put(path, "secret", "committed and taken back\n");
    project.commit_in(path, "First");
    std::fs::remove_file(path.join("secret")).unwrap();
    project.commit_in(path, "Second");
    put(path, "b", "staged\n");
    std::fs::rename(path.join("c"), path.join("moved")).unwrap();
    project.git_in(path, &["add", "b"]);
    put(path, "d", "unstaged\n");
    put(path, "deep/er/e", "untracked\n");
    let wanted = [
        ("a", "modified"),
        ("b", "modified"),
        ("c", "deleted"),
        ("d", "modified"),
        ("deep/er/e", "untracked"),
        ("moved", "untracked"),
        ("secret", "undone"),
    ];
    let wanted: Vec<(String, &str)> = wanted
        .iter()
        .map(|(path, kind)| ((*path).to_owned(), *kind))
        .collect();
    assert_eq!(kinds(&worktree, &base), wanted);
}

#[test]
fn names_may_hold_any_bytes() {
    let project = GitProject::new();
    let base = project.found().head;
    let worktree = project.prepare().worktree;
    let names: [&[u8]; 6] = [
        b"with space",
        b"new\nline",
        b"\xff\xfe",
        b"-rf",
        b"\"quoted\"",
        b":(top)x",
    ];
    for name in names {
        std::fs::write(worktree.path().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let found = |kind: ChangeKind| {
        let changes = worktree.changes(&base).unwrap();
        assert_eq!(changes.len(), names.len(), "{changes:?}");
        for name in names {
            let change = changes
                .iter()
                .find(|change| change.path.as_os_str().as_bytes() == name);
            assert_eq!(change.unwrap().kind, kind);
        }
    };
    found(ChangeKind::Untracked);
    worktree
        .commit_all("Odd names", &author())
        .unwrap()
        .unwrap();
    assert!(worktree.is_clean().unwrap());
    found(ChangeKind::Added);
}

#[test]
fn what_came_from_the_integration_branch_is_not_the_workers() {
    let project = GitProject::new();
    let base = project.found().head;
    let worktree = project.prepare().worktree;
    project.git(&["branch", "omc-team/fix-auth/integration"]);
    let other = project.project.home().join("integration");
    project.git(&[
        "worktree",
        "add",
        "--quiet",
        other.to_str().unwrap(),
        "omc-team/fix-auth/integration",
    ]);
    put(&other, "others", "others");
    let integration = project.commit_in(&other, "Others");
    put(worktree.path(), "mine", "mine");
    project.commit_in(worktree.path(), "Mine");
    assert_eq!(kinds(&worktree, &base), [("mine".to_owned(), "added")]);
    worktree.move_to(&integration).unwrap();
    assert_eq!(kinds(&worktree, &base), [("mine".to_owned(), "added")]);
}

#[test]
fn a_commit_has_the_users_name_or_the_fallback_and_nothing_is_no_commit() {
    let project = GitProject::new();
    let worktree = project.prepare().worktree;
    let fallback = Author {
        name: "Team".into(),
        email: "team@example.org".into(),
    };
    assert_eq!(worktree.commit_all("Nothing", &fallback).unwrap(), None);
    let message = "Do it\n\n# not a comment\nTask: 7\n";
    put(worktree.path(), "a", "a");
    let commit = worktree.commit_all(message, &fallback).unwrap().unwrap();
    assert_eq!(commit, worktree.head().unwrap());
    let said = project.git(&["log", "-1", "--format=%an <%ae>%n%B", commit.as_str()]);
    assert!(
        said.starts_with("Somebody <somebody@example.org>\nDo it\n\n# not a comment\nTask: 7"),
        "{said}"
    );
    project.git(&["config", "--unset", "user.name"]);
    project.git(&["config", "--unset", "user.email"]);
    put(worktree.path(), "b", "b");
    let commit = worktree.commit_all("Next", &fallback).unwrap().unwrap();
    let said = project.git(&["log", "-1", "--format=%an <%ae> %cn", commit.as_str()]);
    assert_eq!(said, "Team <team@example.org> Team");
    assert_eq!(
        project.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
}

#[test]
fn an_unresolved_merge_is_not_committed() {
    let project = GitProject::new();
    let worktree = project.prepare().worktree;
    put(worktree.path(), "README.md", "theirs\n");
    project.commit_in(worktree.path(), "Theirs");
    project.project.write("README.md", "ours\n");
    let ours = project.commit("Ours");
    let merge = project.try_git(worktree.path(), &["merge", ours.as_str()]);
    assert!(!merge.status.success());
    let error = worktree.commit_all("Work", &author()).unwrap_err();
    assert_eq!(error.problem, GitProblem::Refused, "{error}");
    assert!(!worktree.is_clean().unwrap());
}

#[test]
fn a_pin_moves_with_the_task_and_keeps_what_it_held() {
    let project = GitProject::new();
    let repo = project.repo();
    let worktree = project.prepare().worktree;
    let task = "12".parse().unwrap();
    assert_eq!(repo.pinned(&team(), &task).unwrap(), None);
    put(worktree.path(), "a", "1");
    let first = worktree.commit_all("First", &author()).unwrap().unwrap();
    repo.pin(&team(), &task, &first).unwrap();
    repo.pin(&team(), &task, &first).unwrap();
    put(worktree.path(), "a", "2");
    let second = worktree.commit_all("Second", &author()).unwrap().unwrap();
    repo.pin(&team(), &task, &second).unwrap();
    let side = project.found().head;
    repo.pin(&team(), &task, &side).unwrap();
    assert_eq!(repo.pinned(&team(), &task).unwrap(), Some(side));
    let refs = project.git(&[
        "for-each-ref",
        "--format=%(refname) %(objectname)",
        "refs/teamster",
    ]);
    assert!(
        refs.contains(&format!("refs/teamster/fix-auth/task-12.was-1 {second}")),
        "{refs}"
    );
    assert_eq!(refs.lines().count(), 2, "{refs}");
}

#[test]
fn a_submodule_stands_in_nobodys_way() {
    let project = GitProject::new();
    let library = GitProject::new();
    let url = library.folder();
    project.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        url.to_str().unwrap(),
        "lib",
    ]);
    project.commit("With a submodule");
    let base = project.found().head;
    let worktree = project.prepare().worktree;
    assert!(worktree.is_clean().unwrap());
    assert_eq!(worktree.changes(&base).unwrap(), []);
    put(worktree.path(), "work", "work");
    assert!(worktree.commit_all("Work", &author()).unwrap().is_some());
    assert!(
        Worktree::open(&project.repo(), &team(), &worker())
            .unwrap()
            .is_some()
    );
    // Git cannot move or remove a worktree with a populated submodule; teamster moves it aside, and git still finds
    // it.
    project.git_in(
        worktree.path(),
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "update",
            "--init",
        ],
    );
    assert!(worktree.is_clean().unwrap());
    let kept = Worktree::prepare(&project.repo(), &team(), &worker(), &base)
        .unwrap()
        .kept;
    let library = kept[0].path.as_ref().unwrap().join("lib");
    assert!(library.join("README.md").exists());
    let top = project.git_in(&library, &["rev-parse", "--show-toplevel"]);
    assert_eq!(top, library.to_str().unwrap());
}

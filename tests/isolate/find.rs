//! Finding the repository, and the clear reason where there is none.

use std::process::Command;

use teamster_isolate::git::{Git, GitProblem, Repo, Worktree};

use super::{GitProject, PATH, put, team, worker};
use crate::kit::TestProject;

fn problem(project: &GitProject, folder: &std::path::Path) -> (GitProblem, String) {
    let error = Repo::find(&project.our_git(), folder).unwrap_err();
    assert!(!error.hint.is_empty());
    (error.problem, error.message)
}

#[test]
fn a_branch_and_a_detached_head_are_found() {
    let project = GitProject::new();
    let found = project.found();
    assert_eq!(found.branch.as_deref(), Some("main"));
    assert_eq!(found.head, project.head_of(&project.folder()));
    assert_eq!(found.inside.as_os_str(), "");
    project.git(&["checkout", "--quiet", "--detach"]);
    let detached = project.found();
    assert_eq!(detached.branch, None);
    let prepared = project.prepare();
    assert_eq!(prepared.worktree.head().unwrap(), detached.head);
    assert_eq!(prepared.kept, []);
}

#[test]
fn a_sub_folder_works_and_its_worker_starts_in_the_same_one() {
    let project = GitProject::new();
    let below = project.folder().join("src");
    let found = Repo::find(&project.our_git(), &below).unwrap();
    assert_eq!(found.inside, std::path::Path::new("src"));
    let prepared = Worktree::prepare(&found.repo, &team(), &worker(), &found.head).unwrap();
    assert_eq!(
        prepared.worktree.path(),
        below.join(".omc/worktrees/fix-auth/worker-1")
    );
    assert!(prepared.worktree.path().join("README.md").exists());
    let start = prepared.worktree.work_folder();
    assert!(start.ends_with("worker-1/src") && start.join("main.rs").exists());
    assert_eq!(
        found.repo.exclude_ours().unwrap(),
        [".omc/", ".bkit/", ".party/"]
    );
    assert_eq!(project.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_cannot_be_worked_with_says_why() {
    let empty = GitProject::empty();
    let (kind, message) = problem(&empty, &empty.folder());
    assert_eq!(kind, GitProblem::NoCommits, "{message}");
    let plain = empty.project.home();
    assert_eq!(problem(&empty, &plain).0, GitProblem::NotRepository);
    assert_eq!(
        problem(&empty, &plain.join("nowhere")).0,
        GitProblem::NotRepository
    );
    let bare = plain.join("bare");
    empty.git(&["init", "--quiet", "--bare", bare.to_str().unwrap()]);
    assert_eq!(problem(&empty, &bare).0, GitProblem::Bare);
    let inside = empty.folder().join(".git");
    assert_eq!(problem(&empty, &inside).0, GitProblem::Bare);
    let none = Git::find(plain.as_os_str()).unwrap_err();
    assert_eq!(none.problem, GitProblem::NoProgram);
}

#[test]
fn a_git_that_is_too_old_is_not_used() {
    let project = TestProject::new();
    let folder = project.home().join("bin");
    put(&folder, "git", "#!/bin/sh\necho git version 2.30.1\n");
    let made = Command::new("chmod")
        .arg("755")
        .arg(folder.join("git"))
        .status();
    assert!(made.unwrap().success());
    let error = Git::find(folder.as_os_str()).unwrap_err();
    assert_eq!(error.problem, GitProblem::NoProgram);
    assert!(error.message.contains("2.30.1"), "{error}");
}

#[test]
fn our_folders_are_excluded_once_and_the_file_is_kept() {
    let project = GitProject::new();
    let file = project.folder().join(".git/info/exclude");
    std::fs::write(&file, "# mine\r\n*.tmp\r\n.omc/").unwrap();
    let repo = project.repo();
    assert_eq!(repo.exclude_ours().unwrap(), [".bkit/", ".party/"]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# mine\r\n*.tmp\r\n.omc/\r\n"), "{text:?}");
    assert!(text.ends_with(".bkit/\r\n.party/\r\n"), "{text:?}");
    assert!(repo.exclude_ours().unwrap().is_empty());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    for name in [".omc/x", ".bkit/x", ".party/x"] {
        project.project.write(name, "");
    }
    assert_eq!(project.git(&["status", "--porcelain"]), "");
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    assert_eq!(
        repo.exclude_ours().unwrap().len(),
        3,
        "made where it is missing"
    );
    assert_eq!(project.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_users_own_worktree_is_a_project_of_its_own() {
    let project = GitProject::new();
    let own = project.project.home().join("own tree");
    project.git(&[
        "worktree",
        "add",
        "--quiet",
        "-b",
        "own",
        own.to_str().unwrap(),
    ]);
    let git = Git::find(PATH.as_ref()).unwrap();
    let found = Repo::find(&git, &own).unwrap();
    assert_eq!(found.branch.as_deref(), Some("own"));
    assert_eq!(found.repo.root(), own);
    assert_eq!(found.repo.common(), project.folder().join(".git"));
    let prepared = Worktree::prepare(&found.repo, &team(), &worker(), &found.head).unwrap();
    assert!(prepared.worktree.path().starts_with(&own));
    assert!(prepared.worktree.is_clean().unwrap());
}

#[test]
fn commits_outside_of_a_branch_are_told_from_those_in_it_and_those_that_are_gone() {
    let project = GitProject::new();
    let first = project.head_of(&project.folder());
    put(&project.folder(), "README.md", "two\n");
    let second = project.commit("Go on");
    project.git(&["checkout", "--quiet", "-b", "side", first.as_str()]);
    put(&project.folder(), "README.md", "three\n");
    let before = project.commit("Turn off");
    put(&project.folder(), "README.md", "four\n");
    let side = project.commit("Go on beside");
    let gone: teamster_isolate::git::CommitId = "1".repeat(40).parse().unwrap();
    let repo = project.repo();
    let not_in = |commits: &[&teamster_isolate::git::CommitId]| {
        let commits: Vec<_> = commits.iter().map(|commit| (*commit).clone()).collect();
        repo.not_in(&commits, &second).unwrap()
    };
    assert_eq!(not_in(&[&first, &second]), []);
    assert_eq!(not_in(&[&side, &first, &before]), [side.clone(), before]);
    assert_eq!(not_in(&[&first, &gone, &side]), [gone, side]);
}

/// Git stops its walk early where commits are older than their parents, and then lists ancestors.
#[test]
fn commit_is_inside_of_its_branch_although_later_ones_have_earlier_dates() {
    let project = GitProject::new();
    put(&project.folder(), "README.md", "two\n");
    let inside = project.commit("Go on");
    for number in 0..10 {
        let date = format!("{} +0000", 1_000_000_000 + number);
        let commit = ["commit", "--quiet", "--allow-empty", "--message", "Old"];
        let made = project
            .git_command(&project.folder(), &commit)
            .env("GIT_COMMITTER_DATE", &date)
            .env("GIT_AUTHOR_DATE", &date)
            .status();
        assert!(made.unwrap().success());
    }
    let head = project.head_of(&project.folder());
    assert_eq!(project.repo().not_in(&[inside], &head).unwrap(), []);
}

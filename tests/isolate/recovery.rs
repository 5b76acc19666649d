//! What a killed git leaves, and many calls at once.

use std::thread;

use teamster_isolate::git::{Worktree, branch_of};
use teamster_types::WorkerName;

use super::{GitProject, author, count_files, kill_when, put, team, worker};

fn large() -> GitProject {
    let project = GitProject::new();
    for number in 0..400 {
        project
            .project
            .write(&format!("many/{number}"), &"line\n".repeat(200));
    }
    project.commit("Many files");
    project
}

#[test]
fn a_killed_worktree_add_is_recovered_wherever_it_was_killed() {
    let project = large();
    let head = project.found().head;
    let place = project.folder().join(".omc/worktrees/fix-auth/worker-1");
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let branch = branch_of(&team(), &worker());
    let admin = project.folder().join(".git/worktrees/worker-1");
    for files in [0, 1, 2, 3, 4, 5, 6, 7, 8, 40, 100, 200, 300, 400] {
        let add = project
            .git_command(
                &project.folder(),
                &[
                    "worktree",
                    "add",
                    "--quiet",
                    "-b",
                    &branch,
                    place.to_str().unwrap(),
                    head.as_str(),
                ],
            )
            .spawn()
            .unwrap();
        kill_when(add, || count_files(&[&admin, &place]) >= files);
        let prepared = project.prepare();
        assert!(prepared.worktree.is_clean().unwrap(), "at {files} files");
        assert_eq!(prepared.worktree.head().unwrap(), head, "at {files} files");
        for kept in &prepared.kept {
            assert!(kept.path.is_some(), "at {files} files: {kept:?}");
        }
        prepared.worktree.remove_if_safe().unwrap();
    }
}

#[test]
fn a_worktree_whose_making_was_cut_short_is_made_anew() {
    let project = large();
    let worktree = project.prepare().worktree;
    let (path, admin) = (worktree.path().to_owned(), worktree.admin().to_owned());
    project.git(&[
        "worktree",
        "lock",
        "--reason",
        "initializing",
        path.to_str().unwrap(),
    ]);
    std::fs::remove_file(admin.join("index")).unwrap();
    for number in 100..400 {
        std::fs::remove_file(path.join(format!("many/{number}"))).unwrap();
    }
    let again = project.prepare();
    assert_eq!(again.kept, [], "files that are missing are no work");
    assert!(again.worktree.is_clean().unwrap());

    // The same with content that no checkout wrote.
    project.git(&[
        "worktree",
        "lock",
        "--reason",
        "initializing",
        path.to_str().unwrap(),
    ]);
    put(&path, "mine", "mine");
    let third = project.prepare();
    let kept = third.kept[0].path.clone().unwrap();
    assert_eq!(std::fs::read_to_string(kept.join("mine")).unwrap(), "mine");
}

#[test]
fn a_beginning_that_stops_every_git_is_cleared_away() {
    let project = GitProject::new();
    let admin = project.folder().join(".git/worktrees/worker-1");
    let pointer = "/nowhere/.git\n";
    for (file, content) in [
        ("locked", "initializing"),
        ("commondir", ""),
        ("gitdir", pointer),
    ] {
        put(&admin, file, content);
    }
    let list = project.try_git(&project.folder(), &["worktree", "list"]);
    assert!(!list.status.success(), "a person is stopped by it too");
    assert_eq!(project.prepare().kept, []);
    assert_eq!(project.git(&["worktree", "list"]).lines().count(), 2);

    // An entry that teamster did not begin, or that is complete, must not be removed.
    let other = project.folder().join(".git/worktrees/other");
    put(&other, "commondir", "");
    put(&other, "gitdir", pointer);
    let found = project.found();
    let error = Worktree::prepare(&found.repo, &team(), &worker(), &found.head).unwrap_err();
    assert!(error.message.contains("commondir"), "{error}");
    assert!(other.exists());
}

#[test]
fn only_a_pointer_or_an_empty_folder_is_a_beginning() {
    let project = GitProject::new();
    let place = project.folder().join(".omc/worktrees/fix-auth/worker-1");
    let pointer = format!(
        "gitdir: {}\n",
        project.folder().join(".git/worktrees/worker-1").display()
    );
    put(&place, ".git", &pointer);
    assert_eq!(project.prepare().kept, []);
}

#[test]
fn eight_at_once_all_get_their_worktree() {
    let project = large();
    let found = project.found();
    let workers: Vec<WorkerName> = (1..=8).map(|n| format!("w{n}").parse().unwrap()).collect();
    thread::scope(|scope| {
        for worker in &workers {
            let (repo, head) = (&found.repo, &found.head);
            scope.spawn(move || {
                let prepared = Worktree::prepare(repo, &team(), worker, head).unwrap();
                put(prepared.worktree.path(), "own", worker.as_str());
                let commit = prepared.worktree.commit_all("Own", &author()).unwrap();
                repo.pin(&team(), &"1".parse().unwrap(), &commit.unwrap())
                    .ok();
                assert!(prepared.worktree.is_clean().unwrap());
            });
        }
    });
    for worker in &workers {
        let worktree = Worktree::open(&found.repo, &team(), worker)
            .unwrap()
            .unwrap();
        let own = std::fs::read_to_string(worktree.path().join("own")).unwrap();
        assert_eq!(own, worker.as_str());
        assert!(worktree.is_clean().unwrap());
    }
    assert_eq!(
        project.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
}

#[test]
fn two_that_prepare_the_same_worktree_take_turns() {
    let project = GitProject::new();
    let found = project.found();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                Worktree::prepare(&found.repo, &team(), &worker(), &found.head).unwrap();
            });
        }
    });
    assert_eq!(project.git(&["worktree", "list"]).lines().count(), 2);
}

#[test]
fn a_lock_that_a_killed_git_left_stops_no_commit() {
    let project = GitProject::new();
    let worktree = project.prepare().worktree;
    std::fs::write(worktree.admin().join("index.lock"), "").unwrap();
    put(worktree.path(), "work", "work");
    assert!(worktree.commit_all("Work", &author()).unwrap().is_some());
    assert!(worktree.is_clean().unwrap());
}

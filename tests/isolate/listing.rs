//! Listing worktrees, and which of them may be removed.

use teamster_isolate::git::{Removal, Worktree, WorktreeKind, WorktreeState, list, teams};
use teamster_types::WorkerName;

use super::{GitProject, put, team};

fn prepare(project: &GitProject, name: &str) -> Worktree {
    let found = project.found();
    let worker: WorkerName = name.parse().unwrap();
    Worktree::prepare(&found.repo, &team(), &worker, &found.head)
        .unwrap()
        .worktree
}

#[test]
fn each_worktree_is_listed_with_what_it_holds() {
    let project = GitProject::new();
    prepare(&project, "clean");
    let dirty = prepare(&project, "dirty");
    put(dirty.path(), "x", "x");
    let unmerged = prepare(&project, "unmerged");
    put(unmerged.path(), "x", "x");
    project.commit_in(unmerged.path(), "Work");
    let moved = prepare(&project, "moved");
    put(moved.path(), "x", "x");
    prepare(&project, "moved");
    let gone = prepare(&project, "gone");
    std::fs::remove_dir_all(gone.path()).unwrap();
    put(
        &project.folder(),
        ".omc/worktrees/fix-auth/theirs/file",
        "x",
    );
    let repo = project.repo();
    dirty.salvage().unwrap();
    assert_eq!(teams(&repo).unwrap(), [team()]);

    let all = list(&repo, &team()).unwrap();
    let of = |name: &str| all.iter().find(|listed| listed.name == name).unwrap();
    let names: Vec<&str> = all.iter().map(|listed| listed.name.as_str()).collect();
    let wanted = [
        "clean",
        "dirty",
        "dirty.salvaged-1",
        "gone",
        "moved",
        "moved.kept-1",
        "theirs",
        "unmerged",
    ];
    assert_eq!(names, wanted);
    assert_eq!(of("clean").state, WorktreeState::Clean);
    assert!(matches!(of("dirty").state, WorktreeState::Dirty { .. }));
    assert_eq!((of("unmerged").unmerged, of("unmerged").unpinned), (1, 1));
    assert_eq!(of("gone").state, WorktreeState::Gone);
    assert_eq!(
        of("moved.kept-1").kind,
        WorktreeKind::Kept("moved".parse().unwrap())
    );
    assert_eq!(of("theirs").kind, WorktreeKind::Foreign);
    assert_eq!(of("dirty.salvaged-1").kind, WorktreeKind::Salvaged);

    for listed in &all {
        let removed = listed.remove_if_safe(&repo).unwrap() == Removal::Removed;
        let wanted = matches!(listed.name.as_str(), "clean" | "gone" | "moved");
        assert_eq!(removed, wanted, "{}", listed.name);
    }
    let left: Vec<String> = list(&repo, &team())
        .unwrap()
        .into_iter()
        .map(|listed| listed.name)
        .collect();
    assert_eq!(
        left,
        [
            "dirty",
            "dirty.salvaged-1",
            "moved.kept-1",
            "theirs",
            "unmerged"
        ]
    );
    assert!(!project.has_branch("omc-team/fix-auth/gone"));
    assert!(dirty.path().join("x").exists());
}

#[test]
fn files_of_a_commit_are_listed_whatever_lies_in_the_work_tree() {
    let project = GitProject::new();
    project.project.write("문서/a b.md", "읽기\n");
    let commit = project.commit("More");
    // None of this is part of the commit.
    project.project.write("later.txt", "x");
    project.project.write("README.md", "changed\n");
    let repo = project.repo();
    let mut files = repo.tracked_files(&commit).unwrap();
    files.sort();
    assert_eq!(files, ["README.md", "src/main.rs", "문서/a b.md"]);
}

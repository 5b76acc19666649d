//! Salvaging a worktree to a branch, without changing it.

use super::{GitProject, put};

#[test]
fn all_that_is_there_is_on_the_branch_and_nothing_else_changes() {
    let project = GitProject::new();
    project.project.write(".gitignore", "ignored\n");
    project.project.write("both", "one\n");
    project.commit("More");
    let worktree = project.prepare().worktree;
    let path = worktree.path();
    put(path, "both", "staged\n");
    project.git_in(path, &["add", "both"]);
    put(path, "both", "not staged\n");
    put(path, "new", "new\n");
    put(path, "ignored", "ignored\n");
    std::fs::remove_file(path.join("README.md")).unwrap();
    let head = worktree.head().unwrap();
    let status = project.git_in(path, &["status", "--porcelain"]);
    let index = std::fs::read(worktree.admin().join("index")).unwrap();

    let branch = worktree.salvage().unwrap();
    assert_eq!(branch, "omc-team/fix-auth/worker-1.salvaged-1");
    let show = |what: &str| project.git(&["show", &format!("{branch}{what}")]);
    assert_eq!(show(":both"), "not staged");
    assert_eq!(show(":new"), "new");
    assert_eq!(
        show("~1:both"),
        "staged",
        "what was staged is a commit of its own"
    );
    let files = project.git(&["ls-tree", "--name-only", &branch]);
    assert_eq!(files, ".gitignore\nboth\nnew\nsrc");
    assert_eq!(
        project.git(&["rev-parse", &format!("{branch}~2")]),
        head.as_str()
    );

    assert_eq!(
        std::fs::read(worktree.admin().join("index")).unwrap(),
        index
    );
    assert_eq!(project.git_in(path, &["status", "--porcelain"]), status);
    assert_eq!(worktree.head().unwrap(), head);
    let left = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().contains("index")),
        "{left:?}"
    );
    assert_eq!(
        worktree.salvage().unwrap(),
        "omc-team/fix-auth/worker-1.salvaged-2"
    );
}

#[test]
fn a_clean_worktree_gives_a_branch_at_its_commit() {
    let project = GitProject::new();
    let worktree = project.prepare().worktree;
    let branch = worktree.salvage().unwrap();
    assert_eq!(
        project.git(&["rev-parse", &branch]),
        worktree.head().unwrap().as_str()
    );
}

#[test]
fn a_worktree_with_conflicts_is_salvaged_too() {
    let project = GitProject::new();
    let worktree = project.prepare().worktree;
    put(worktree.path(), "README.md", "theirs\n");
    project.commit_in(worktree.path(), "Theirs");
    project.project.write("README.md", "ours\n");
    let ours = project.commit("Ours");
    project.try_git(worktree.path(), &["merge", ours.as_str()]);
    let branch = worktree.salvage().unwrap();
    let text = project.git(&["show", &format!("{branch}:README.md")]);
    assert!(
        text.contains("<<<<<<<") && text.contains("theirs"),
        "{text}"
    );
    let unmerged = project.git_in(worktree.path(), &["ls-files", "--unmerged"]);
    assert_eq!(unmerged.lines().count(), 3);
}

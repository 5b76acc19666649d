//! What a commit holds, whatever lies in the work tree.

use super::GitProject;

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

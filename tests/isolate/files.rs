//! What a commit holds, whatever lies in the work tree.

use super::GitProject;

#[test]
fn a_commits_files_are_listed_and_read_as_they_were() {
    let project = GitProject::new();
    project.project.write("문서/a b.md", "읽기\n");
    let commit = project.commit("More");
    // None of this is part of the commit.
    project.project.write("later.txt", "x");
    project.project.write("README.md", "changed\n");
    let repo = project.repo();
    let mut files = repo.files_at(&commit).unwrap();
    files.sort();
    assert_eq!(files, ["README.md", "src/main.rs", "문서/a b.md"]);
    let text = |path: &str| repo.text_at(&commit, path).unwrap();
    assert_eq!(text("README.md").as_deref(), Some("one\n"));
    assert_eq!(text("문서/a b.md").as_deref(), Some("읽기\n"));
    assert_eq!(text("later.txt"), None);
}

//! Updating a worker's branch to the integration branch before a task.

use teamster_isolate::git::{BranchUpdate, CommitId, Worktree};

use super::{GitProject, author, put, team};

/// Makes a project with a newer commit on another branch, which is not checked out.
fn ahead(file: &str, content: &str) -> (GitProject, CommitId) {
    let project = GitProject::new();
    project.git(&["checkout", "--quiet", "-b", "omc-team/fix-auth/integration"]);
    project.project.write(file, content);
    let next = project.commit("Integration");
    project.git(&["checkout", "--quiet", "main"]);
    (project, next)
}

fn why(moved: BranchUpdate) -> String {
    match moved {
        BranchUpdate::Kept { why } => why,
        other => panic!("{other:?}"),
    }
}

fn has(worktree: &Worktree, name: &str) -> bool {
    worktree.path().join(name).exists()
}

#[test]
fn a_branch_without_work_follows_and_one_that_is_there_stays() {
    let (project, next) = ahead("other", "other");
    let worktree = project.prepare().worktree;
    assert_eq!(
        worktree.move_to(&next).unwrap(),
        BranchUpdate::To(next.clone())
    );
    assert_eq!(worktree.move_to(&next).unwrap(), BranchUpdate::Already);
    assert!(has(&worktree, "other") && worktree.is_clean().unwrap());
    assert_eq!(worktree.head().unwrap(), next);
    assert_eq!(
        project.found().branch.as_deref(),
        Some("main"),
        "the user's branch is untouched"
    );
}

#[test]
fn a_finished_tasks_commits_are_left_behind_because_they_are_pinned() {
    let (project, next) = ahead("other", "other");
    let worktree = project.prepare().worktree;
    put(worktree.path(), "mine", "mine");
    let mine = worktree.commit_all("Mine", &author()).unwrap().unwrap();
    project
        .repo()
        .pin(&team(), &"3".parse().unwrap(), &mine)
        .unwrap();
    assert_eq!(worktree.move_to(&next).unwrap(), BranchUpdate::To(next));
    assert!(!has(&worktree, "mine") && worktree.is_clean().unwrap());
}

#[test]
fn commits_that_are_nowhere_else_are_merged_or_kept() {
    let (project, next) = ahead("README.md", "integration\n");
    let worktree = project.prepare().worktree;
    put(worktree.path(), "mine", "mine");
    let mine = worktree.commit_all("Mine", &author()).unwrap().unwrap();
    let BranchUpdate::Merged(merged) = worktree.move_to(&next).unwrap() else {
        panic!("not merged");
    };
    let repo = project.repo();
    assert!(repo.is_ancestor(&mine, &merged).unwrap() && repo.is_ancestor(&next, &merged).unwrap());
    assert!(has(&worktree, "mine") && worktree.is_clean().unwrap());

    let (project, next) = ahead("README.md", "integration\n");
    let worktree = project.prepare().worktree;
    put(worktree.path(), "README.md", "mine\n");
    let mine = worktree.commit_all("Mine", &author()).unwrap().unwrap();
    assert!(why(worktree.move_to(&next).unwrap()).contains("conflict"));
    assert_eq!(worktree.head().unwrap(), mine);
    assert!(worktree.is_clean().unwrap());
}

#[test]
fn what_is_not_committed_stays_where_it_is() {
    let (project, next) = ahead("other", "other");
    let worktree = project.prepare().worktree;
    put(worktree.path(), "mine", "mine");
    assert_eq!(
        why(worktree.move_to(&next).unwrap()),
        "1 changed file not committed"
    );
    assert!(has(&worktree, "mine"));
}

#[test]
fn an_agent_that_left_its_branch_is_brought_back_and_its_commits_get_a_branch() {
    let (project, next) = ahead("other", "other");
    let worktree = project.prepare().worktree;
    project.git_in(worktree.path(), &["checkout", "--quiet", "--detach"]);
    put(worktree.path(), "mine", "mine");
    let mine = project.commit_in(worktree.path(), "Mine");
    assert_eq!(
        worktree.move_to(&next).unwrap(),
        BranchUpdate::To(next.clone())
    );
    assert_eq!(
        project.git_in(worktree.path(), &["symbolic-ref", "--short", "HEAD"]),
        worktree.branch()
    );
    assert_eq!(
        project.git(&["rev-parse", "omc-team/fix-auth/worker-1.kept-1"]),
        mine.as_str()
    );

    project.git_in(worktree.path(), &["switch", "--quiet", "-c", "feature"]);
    put(worktree.path(), "more", "more");
    let more = project.commit_in(worktree.path(), "More");
    assert_eq!(worktree.move_to(&next).unwrap(), BranchUpdate::Already);
    assert_eq!(project.git(&["rev-parse", "feature"]), more.as_str());
}

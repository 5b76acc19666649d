//! A dirty, unmerged or foreign worktree is never lost when a worker of the same name starts.

use std::os::unix::fs::symlink;
use std::path::Path;

use teamster_isolate::git::{Author, GitProblem, Removal, Worktree, branch_of};

use super::{GitProject, put, team, worker};

fn place(project: &GitProject) -> std::path::PathBuf {
    project.folder().join(".omc/worktrees/fix-auth/worker-1")
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_clean_merged_worktree_is_made_anew_without_a_trace() {
    let project = GitProject::new();
    let first = project.prepare().worktree;
    assert_eq!(first.path(), place(&project));
    assert_eq!(first.branch(), "omc-team/fix-auth/worker-1");
    assert_eq!(
        project.git_in(first.path(), &["symbolic-ref", "--short", "HEAD"]),
        first.branch()
    );
    project.project.write("README.md", "two\n");
    let next = project.commit("Go on");
    let again = project.prepare();
    assert_eq!(again.kept, []);
    assert_eq!(again.worktree.head().unwrap(), next);
    assert_eq!(project.git(&["worktree", "list"]).lines().count(), 2);
    assert!(!project.folder().join(".git/index.lock").exists());
}

#[test]
fn a_dirty_worktree_is_moved_aside_with_all_it_holds() {
    let project = GitProject::new();
    let first = project.prepare().worktree;
    put(first.path(), "README.md", "changed\n");
    put(first.path(), "new file", "new\n");
    project.git_in(first.path(), &["add", "README.md"]);
    let again = project.prepare();
    let [kept] = again.kept.as_slice() else {
        panic!("{:?}", again.kept);
    };
    let path = kept.path.clone().unwrap();
    assert_eq!(path.file_name().unwrap(), "worker-1.kept-1");
    assert_eq!(
        kept.branch.as_deref(),
        Some("omc-team/fix-auth/worker-1.kept-1")
    );
    assert!(kept.why.contains("2 changed files"), "{}", kept.why);
    assert_eq!(
        (read(&path, "README.md"), read(&path, "new file")),
        ("changed\n".into(), "new\n".into())
    );
    assert_eq!(
        project.git_in(&path, &["status", "--porcelain"]),
        "M  README.md\n?? \"new file\""
    );
    assert!(again.worktree.is_clean().unwrap());
    assert_eq!(read(again.worktree.path(), "README.md"), "one\n");
    put(again.worktree.path(), "x", "x");
    let third = project.prepare();
    assert_eq!(
        third.kept[0].path.as_ref().unwrap().file_name().unwrap(),
        "worker-1.kept-2"
    );
    assert!(path.join("new file").exists());
}

#[test]
fn an_unmerged_worktree_is_moved_aside_until_its_commits_are_elsewhere() {
    let project = GitProject::new();
    let first = project.prepare().worktree;
    put(first.path(), "work", "work");
    let work = project.commit_in(first.path(), "Work");
    let again = project.prepare();
    assert_eq!(again.kept[0].why, "1 commit not merged");
    assert_eq!(project.head_of(again.kept[0].path.as_ref().unwrap()), work);

    put(again.worktree.path(), "more", "more");
    let more = project.commit_in(again.worktree.path(), "More");
    let repo = project.repo();
    repo.pin(&team(), &"7".parse().unwrap(), &more).unwrap();
    let third = project.prepare();
    assert_eq!(third.kept, [], "a pinned commit is kept by its pin");
    assert_eq!(
        project.git(&["rev-parse", "refs/teamster/fix-auth/task-7"]),
        more.as_str()
    );
}

#[test]
fn a_branch_without_a_worktree_is_renamed_when_it_has_work_and_removed_when_not() {
    let project = GitProject::new();
    let first = project.prepare().worktree;
    put(first.path(), "work", "work");
    let work = project.commit_in(first.path(), "Work");
    std::fs::remove_dir_all(first.path()).unwrap();
    let again = project.prepare();
    assert_eq!(again.kept.len(), 1);
    assert_eq!(again.kept[0].path, None);
    let branch = again.kept[0].branch.clone().unwrap();
    assert_eq!(project.git(&["rev-parse", &branch]), work.as_str());
    std::fs::remove_dir_all(again.worktree.path()).unwrap();
    assert_eq!(project.prepare().kept, []);
}

#[test]
fn commits_on_no_branch_get_one_before_their_worktree_goes() {
    let project = GitProject::new();
    let first = project.prepare().worktree;
    project.git_in(first.path(), &["checkout", "--quiet", "--detach"]);
    put(first.path(), "work", "work");
    let work = project.commit_in(first.path(), "Work");
    std::fs::remove_dir_all(first.path()).unwrap();
    let again = project.prepare();
    let branch = again.kept[0].branch.clone().unwrap();
    assert_eq!(project.git(&["rev-parse", &branch]), work.as_str());
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let project = GitProject::new();
    let found = project.found();
    let refused = || {
        let error = Worktree::prepare(&found.repo, &team(), &worker(), &found.head).unwrap_err();
        assert_eq!(error.problem, GitProblem::Refused, "{error}");
        assert!(error.message.contains("worker-1"), "{error}");
    };
    let place = place(&project);
    put(&place, "theirs.txt", "theirs");
    refused();
    assert_eq!(read(&place, "theirs.txt"), "theirs");
    std::fs::remove_dir_all(&place).unwrap();

    let elsewhere = project.project.home().join("elsewhere");
    put(&elsewhere, "theirs.txt", "theirs");
    symlink(&elsewhere, &place).unwrap();
    refused();
    assert!(place.is_symlink());
    assert_eq!(read(&elsewhere, "theirs.txt"), "theirs");
    std::fs::remove_file(&place).unwrap();

    std::fs::write(&place, "a file").unwrap();
    refused();
    std::fs::remove_file(&place).unwrap();

    // A separate repository.
    project.git(&["init", "--quiet", place.to_str().unwrap()]);
    refused();
    assert!(place.join(".git/HEAD").exists());
    std::fs::remove_dir_all(&place).unwrap();

    std::fs::create_dir(&place).unwrap();
    project.prepare();
    project.git(&[
        "worktree",
        "lock",
        "--reason",
        "mine",
        place.to_str().unwrap(),
    ]);
    refused();
    assert_eq!(project.git(&["worktree", "list"]).lines().count(), 2);
}

#[test]
fn a_worktree_goes_only_when_it_is_clean_and_merged() {
    let project = GitProject::new();
    let worktree = project.prepare().worktree;
    put(worktree.path(), "work", "work");
    let kept = |worktree: &Worktree| match worktree.remove_if_safe().unwrap() {
        Removal::Kept { why } => why,
        Removal::Removed => panic!("removed"),
    };
    assert_eq!(kept(&worktree), "1 changed file not committed");
    let work = project.commit_in(worktree.path(), "Work");
    assert_eq!(kept(&worktree), "1 commit not merged");
    project
        .repo()
        .pin(&team(), &"1".parse().unwrap(), &work)
        .unwrap();
    assert_eq!(kept(&worktree), "1 commit not merged", "a pin is no merge");
    project.git(&[
        "merge",
        "--quiet",
        "--ff-only",
        &branch_of(&team(), &worker()),
    ]);
    project.git_in(
        worktree.path(),
        &["update-index", "--assume-unchanged", "README.md"],
    );
    put(worktree.path(), "README.md", "hidden");
    assert!(kept(&worktree).contains("not to look"));
    project.git_in(
        worktree.path(),
        &["update-index", "--no-assume-unchanged", "README.md"],
    );
    project.git_in(worktree.path(), &["checkout", "--quiet", "--", "README.md"]);
    project.git_in(
        worktree.path(),
        &["config", "status.showUntrackedFiles", "no"],
    );
    put(worktree.path(), "unseen", "x");
    assert_eq!(kept(&worktree), "1 changed file not committed");
    std::fs::remove_file(worktree.path().join("unseen")).unwrap();
    assert_eq!(worktree.remove_if_safe().unwrap(), Removal::Removed);
    assert!(!worktree.path().exists());
    assert!(!project.has_branch(&worktree.branch()));
}

#[test]
fn file_changed_with_its_old_size_and_time_is_seen_at_the_second_look() {
    let project = GitProject::new();
    let worktree = project.prepare().worktree;
    let path = worktree.path().join("README.md");
    assert!(worktree.is_clean().unwrap());
    let before = std::fs::read_to_string(&path).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    project.git(&["config", "core.trustctime", "false"]);
    project.git(&["config", "core.checkStat", "minimal"]);
    put(worktree.path(), "README.md", &before.to_uppercase());
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(modified).unwrap();
    assert!(!worktree.is_clean().unwrap(), "the content is another one");
    let commit = worktree.commit_all("Capitals", &Author::default()).unwrap();
    let commit = commit.expect("there is something to commit");
    let committed = project.git(&["show", &format!("{commit}:README.md")]);
    assert_eq!(committed.trim(), before.to_uppercase().trim());
    assert!(worktree.is_clean().unwrap());
}

/// Makes a project with a file in `docs` and one in `src`, and a worktree of it.
fn looked_at() -> (GitProject, Worktree) {
    let project = GitProject::new();
    for folder in ["docs", "src"] {
        std::fs::create_dir_all(project.folder().join(folder)).unwrap();
        put(&project.folder(), &format!("{folder}/text"), "one");
    }
    project.git(&["add", "--all"]);
    project.git(&["commit", "--quiet", "--message", "Two folders"]);
    let worktree = project.prepare().worktree;
    (project, worktree)
}

#[test]
fn checkout_that_became_sparse_after_a_look_deletes_nothing() {
    let (project, worktree) = looked_at();
    assert!(worktree.is_clean().unwrap());
    project.git_in(worktree.path(), &["sparse-checkout", "set", "src"]);
    assert!(!worktree.path().join("docs/text").exists(), "it is sparse");
    put(worktree.path(), "src/text", "two");
    let commit = worktree.commit_all("Two", &Author::default()).unwrap();
    let commit = commit.expect("there is something to commit");
    let files = project.git(&["show", "--name-only", "--format=", commit.as_str()]);
    assert_eq!(files.trim(), "src/text");
}

#[test]
fn change_in_a_checkout_that_is_no_longer_sparse_after_a_look_is_seen() {
    let (project, worktree) = looked_at();
    project.git_in(worktree.path(), &["sparse-checkout", "set", "src"]);
    assert!(worktree.is_clean().unwrap());
    project.git_in(worktree.path(), &["sparse-checkout", "disable"]);
    put(worktree.path(), "docs/text", "two");
    assert!(!worktree.is_clean().unwrap());
    let commit = worktree.commit_all("Two", &Author::default()).unwrap();
    let commit = commit.expect("there is something to commit");
    let files = project.git(&["show", "--name-only", "--format=", commit.as_str()]);
    assert_eq!(files.trim(), "docs/text");
}

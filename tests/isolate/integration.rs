//! The integration worktree: created, reused, and repaired from any state.

use std::path::Path;

use teamster_isolate::git::{
    CommitId, GitProblem, Integration, MergeOutcome, PreparedIntegration, Removal, WorktreeKind,
    WorktreeState, list,
};

use super::{GitProject, count_files, kill_when, put, team};

pub const BRANCH: &str = "omc-team/fix-auth/integration";

impl GitProject {
    /// Prepares the integration worktree, from the user's commit.
    pub fn integration(&self) -> Integration {
        let ready = self.ready();
        assert_eq!(ready.salvaged, None);
        ready.integration
    }

    pub fn ready(&self) -> PreparedIntegration {
        let found = self.found();
        found.repo.exclude_ours().unwrap();
        Integration::prepare(&found.repo, &team(), &found.head).unwrap()
    }

    /// Makes a commit on `base` that is not checked out anywhere, like that of a finished task.
    pub fn work(&self, base: &CommitId, files: &[(&str, &str)]) -> CommitId {
        let place = self.project.home().join("work");
        self.git(&[
            "worktree",
            "add",
            "--quiet",
            "--detach",
            place.to_str().unwrap(),
            base.as_str(),
        ]);
        for (file, content) in files {
            put(&place, file, content);
        }
        let commit = self.commit_in(&place, "Work");
        self.git(&["worktree", "remove", "--force", place.to_str().unwrap()]);
        commit
    }
}

/// Merges such a commit as task `id`.
pub fn merge(into: &Integration, commit: &CommitId, id: &str) -> CommitId {
    let worker = "worker-1".parse().unwrap();
    let head = into.head().unwrap();
    match into
        .merge(&head, commit, &id.parse().unwrap(), &worker)
        .unwrap()
    {
        MergeOutcome::Made(made) => made,
        other => panic!("{other:?}"),
    }
}

fn content(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}

#[test]
fn it_is_made_once_and_taken_up_again() {
    let project = GitProject::new();
    let base = project.found().head;
    let first = project.integration();
    assert_eq!(first.branch(), BRANCH);
    assert_eq!(
        first.path(),
        project
            .found()
            .repo
            .project()
            .join(".omc/worktrees/fix-auth/integration")
    );
    let commit = project.work(&base, &[("new", "new")]);
    let made = merge(&first, &commit, "1");
    let again = project.integration();
    assert_eq!(again.head().unwrap(), made);
    assert!(again.is_clean().unwrap());
    let opened = Integration::open(&project.repo(), &team())
        .unwrap()
        .unwrap();
    assert_eq!(opened.head().unwrap(), made);

    // The folder may be removed; the merged commits stay.
    std::fs::remove_dir_all(again.path()).unwrap();
    let anew = project.integration();
    assert_eq!(anew.head().unwrap(), made);
    assert_eq!(content(anew.path(), "new"), "new");
}

#[test]
fn a_killed_making_is_made_anew_wherever_it_was_killed() {
    let project = GitProject::new();
    for number in 0..300 {
        project
            .project
            .write(&format!("many/{number}"), &"line\n".repeat(200));
    }
    project.commit("Many files");
    let place = project.folder().join(".omc/worktrees/fix-auth/integration");
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    let admin = project.folder().join(".git/worktrees/integration");
    for files in [0, 1, 2, 3, 4, 5, 6, 8, 40, 100, 200, 300] {
        let path = place.to_str().unwrap();
        let args = ["worktree", "add", "--quiet", "-b", BRANCH, path, "HEAD"];
        let add = project
            .git_command(&project.folder(), &args)
            .spawn()
            .unwrap();
        kill_when(add, || count_files(&[&admin, &place]) >= files);
        let ready = project.ready();
        assert!(ready.integration.is_clean().unwrap(), "at {files} files");
        assert_eq!(
            ready.integration.remove_if_landed().unwrap(),
            Removal::Removed,
            "at {files} files"
        );
    }
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let project = GitProject::new();
    let place = project.folder().join(".omc/worktrees/fix-auth/integration");
    put(&place, "mine", "mine");
    let found = project.found();
    let refused = || Integration::prepare(&found.repo, &team(), &found.head).unwrap_err();
    assert_eq!(refused().problem, GitProblem::Refused);
    assert_eq!(content(&place, "mine"), "mine");
    std::fs::remove_dir_all(&place).unwrap();

    // A branch of this name with a different origin.
    project.git(&["checkout", "--quiet", "--orphan", BRANCH]);
    let other = project.commit("Another beginning");
    project.git(&["checkout", "--quiet", "main"]);
    let error = refused();
    assert!(error.message.contains("did not start at"), "{error}");
    assert_eq!(project.git(&["rev-parse", BRANCH]), other.as_str());
    project.git(&["branch", "-m", BRANCH, "mine"]);

    // A branch that the user has checked out.
    project.git(&["checkout", "--quiet", "-b", BRANCH]);
    let error = refused();
    assert!(error.message.contains("is checked out in"), "{error}");
    project.git(&["checkout", "--quiet", "main"]);

    let integration = project.integration();
    let commit = project.work(&found.head, &[("new", "new")]);
    project.git(&["checkout", "--quiet", "--ignore-other-worktrees", BRANCH]);
    let before = project.user_state();
    let error = integration
        .merge(
            &integration.head().unwrap(),
            &commit,
            &"1".parse().unwrap(),
            &super::worker(),
        )
        .unwrap_err();
    assert_eq!(error.problem, GitProblem::Refused, "{error}");
    assert_eq!(project.user_state(), before);
}

#[test]
fn a_branch_that_has_nothing_new_begins_again_from_the_newer_commit() {
    let project = GitProject::new();
    project.integration();
    project.project.write("later", "later");
    let later = project.commit("Later");
    let again = project.integration();
    assert_eq!(again.head().unwrap(), later);
    assert_eq!(content(again.path(), "later"), "later");
    assert!(again.is_clean().unwrap());
}

/// Makes a project whose integration branch has one merge with many kinds of changes; returns the commits before and
/// after.
fn merged() -> (GitProject, Integration, CommitId, CommitId) {
    let project = GitProject::new();
    for number in 0..20 {
        project.project.write(&format!("many/{number}"), "old\n");
    }
    let base = project.commit("Many files");
    let place = project.project.home().join("made");
    project.git(&[
        "worktree",
        "add",
        "--quiet",
        "--detach",
        place.to_str().unwrap(),
    ]);
    for number in 0..20 {
        put(&place, &format!("many/{number}"), "new\n");
        put(&place, &format!("added/{number}"), "new\n");
    }
    std::fs::remove_file(place.join("src/main.rs")).unwrap();
    let commit = project.commit_in(&place, "Work");
    let integration = project.integration();
    let made = merge(&integration, &commit, "1");
    (project, integration, base, made)
}

/// Returns everything in a folder except `.git`.
fn tree(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().unwrap() != ".git" {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_worktree_that_has_not_followed_its_branch_is_set_right_without_a_fuss() {
    let (project, integration, base, made) = merged();
    let good = tree(integration.path());
    let folder = integration.path().to_owned();
    for followed in [0, 1, 7, 20] {
        // The branch has moved, the index has not, and some files have: the state after a kill.
        project.git_in(&folder, &["read-tree", "-u", "--reset", base.as_str()]);
        for number in 0..followed {
            put(&folder, &format!("many/{number}"), "new\n");
            put(&folder, &format!("added/{number}"), "new\n");
        }
        if followed == 7 {
            std::fs::remove_file(folder.join("many/8")).unwrap();
            let admin = project.git_in(&folder, &["rev-parse", "--absolute-git-dir"]);
            std::fs::write(Path::new(&admin).join("index.lock"), "").unwrap();
        }
        let ready = project.ready();
        assert_eq!(ready.salvaged, None, "{followed} files had followed");
        assert_eq!(ready.integration.head().unwrap(), made);
        assert_eq!(tree(&folder), good, "{followed} files had followed");
    }
}

#[test]
fn a_git_that_is_killed_while_the_worktree_follows_costs_nothing() {
    let (project, integration, base, made) = merged();
    let good = tree(integration.path());
    let folder = integration.path().to_owned();
    let followed = || {
        let is_new = |file: &String| {
            std::fs::read_to_string(folder.join(file)).is_ok_and(|text| text == "new\n")
        };
        let files = (0..20).flat_map(|number| ["added", "many"].map(|at| format!("{at}/{number}")));
        files.filter(is_new).count()
    };
    for files in 0..=40 {
        project.git_in(&folder, &["read-tree", "-u", "--reset", base.as_str()]);
        let args = ["read-tree", "-m", "-u", base.as_str(), made.as_str()];
        let follow = project.git_command(&folder, &args).spawn().unwrap();
        kill_when(follow, || followed() >= files);
        let ready = project.ready();
        assert_eq!(ready.integration.head().unwrap(), made, "at {files} files");
        assert_eq!(tree(&folder), good, "at {files} files");
        assert!(ready.integration.is_clean().unwrap(), "at {files} files");
    }
}

#[test]
fn work_that_somebody_left_there_goes_to_a_branch() {
    let (project, integration, _, made) = merged();
    let folder = integration.path().to_owned();
    let good = tree(&folder);
    let salvaged = |project: &GitProject| {
        let ready = project.ready();
        assert_eq!(ready.integration.head().unwrap(), made);
        assert_eq!(tree(&folder), good);
        ready.salvaged.unwrap()
    };
    let shown = |branch: &str, file: &str| project.git(&["show", &format!("{branch}:{file}")]);

    put(&folder, "many/3", "mine\n");
    put(&folder, "notes", "mine\n");
    let branch = salvaged(&project);
    assert_eq!(branch, format!("{BRANCH}.salvaged-1"));
    assert_eq!(shown(&branch, "many/3"), "mine");
    assert_eq!(shown(&branch, "notes"), "mine");

    // Staged and then changed again: both versions are kept.
    put(&folder, "many/3", "staged\n");
    project.git_in(&folder, &["add", "many/3"]);
    put(&folder, "many/3", "newer\n");
    let branch = salvaged(&project);
    assert_eq!(shown(&branch, "many/3"), "newer");
    assert_eq!(shown(&format!("{branch}^"), "many/3"), "staged");

    // Another program's merge with conflicts.
    project.project.write("many/0", "other\n");
    let other = project.commit("Other");
    let merge = project.try_git(&folder, &["merge", "--quiet", other.as_str()]);
    assert!(!merge.status.success());
    let found = project.repo();
    let opened = Integration::open(&found, &team()).unwrap().unwrap();
    let branch = opened.recover().unwrap().unwrap();
    assert!(shown(&branch, "many/0").contains("<<<<<<<"));
    assert_eq!(tree(&folder), good);
    assert_eq!(opened.recover().unwrap(), None);

    // A commit on a detached HEAD.
    project.git_in(&folder, &["checkout", "--quiet", "--detach"]);
    put(&folder, "own", "own\n");
    let own = project.commit_in(&folder, "Own");
    let branch = opened.recover().unwrap().unwrap();
    assert_eq!(project.git(&["rev-parse", &branch]), own.as_str());
    assert_eq!(tree(&folder), good);
    assert_eq!(
        project.git_in(&folder, &["symbolic-ref", "--short", "HEAD"]),
        BRANCH
    );
}

#[test]
fn it_is_not_thrown_away_before_it_has_landed() {
    let (project, integration, _, made) = merged();
    let repo = project.repo();
    let listed = || {
        list(&repo, &team())
            .unwrap()
            .into_iter()
            .find(|listed| listed.kind == WorktreeKind::Integration)
    };
    let before = listed().unwrap();
    assert_eq!(
        (before.state.clone(), before.unmerged),
        (WorktreeState::Clean, 2)
    );
    assert!(matches!(
        before.remove_if_safe(&repo).unwrap(),
        Removal::Kept { why } if why == "2 commits not merged"
    ));
    assert!(matches!(
        integration.remove_if_landed().unwrap(),
        Removal::Kept { .. }
    ));
    project.git(&["merge", "--quiet", "--ff-only", made.as_str()]);
    assert_eq!(listed().unwrap().unmerged, 0);
    assert_eq!(integration.remove_if_landed().unwrap(), Removal::Removed);
    assert!(listed().is_none() && !project.has_branch(BRANCH));
}

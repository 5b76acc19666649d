//! A process that is killed while it merges: the next one finishes, and nothing is lost or merged twice.

use std::path::Path;
use std::process::{Command, Stdio};

use teamster_isolate::git::{CommitId, Git, Integration, MergeOutcome, Repo};

use super::{GitProject, PATH, count_files, kill_when, team, worker};

/// The variables with the killed process's folder and home, and the commits it merges.
const FOLDER: &str = "TEST_MERGES_IN";
const HOME: &str = "TEST_MERGES_HOME";
const COMMITS: &str = "TEST_MERGES";

fn merge_all(integration: &Integration, commits: &[CommitId]) -> Vec<MergeOutcome> {
    commits
        .iter()
        .zip(1_u32..)
        .map(|(commit, number)| {
            let task = number.to_string().parse().unwrap();
            integration
                .merge(&integration.head().unwrap(), commit, &task, &worker())
                .unwrap()
        })
        .collect()
}

/// The body of the process that another test starts and kills.
#[test]
#[ignore = "it is started, and killed, by the test below"]
fn merges_until_it_is_killed() {
    let folder = std::env::var(FOLDER).unwrap();
    let git = Git::find(PATH.as_ref())
        .unwrap()
        .with_env("HOME", std::env::var(HOME).unwrap());
    let found = Repo::find(&git, Path::new(&folder)).unwrap();
    let commits: Vec<CommitId> = std::env::var(COMMITS)
        .unwrap()
        .split(' ')
        .map(|id| id.parse().unwrap())
        .collect();
    let ready = Integration::prepare(&found.repo, &team(), &found.head).unwrap();
    assert_eq!(merge_all(&ready.integration, &commits).len(), commits.len());
}

#[test]
fn a_teamster_that_is_killed_while_it_merges_leaves_nothing_that_the_next_cannot_finish() {
    let mut interrupted = 0;
    // The number of files, objects and in the worktree, after which the process is killed.
    for files in [3, 6, 11, 16, 20, 25, 29, 34, 40, 46] {
        let project = GitProject::new();
        let base = project.found().head;
        project.repo().exclude_ours().unwrap();
        let commits: Vec<CommitId> = (0..4)
            .map(|number| {
                let files: Vec<String> = (0..10).map(|file| format!("{number}/{file}")).collect();
                let files: Vec<(&str, &str)> =
                    files.iter().map(|file| (file.as_str(), "x\n")).collect();
                project.work(&base, &files)
            })
            .collect();
        let before = project.user_state();
        let ids: Vec<&str> = commits.iter().map(CommitId::as_str).collect();
        let objects = project.folder().join(".git/objects");
        let worktree = project.folder().join(".omc/worktrees/fix-auth/integration");
        let before_merges = count_files(&[&objects]);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact"])
            .arg("isolate::killed::merges_until_it_is_killed")
            .env(FOLDER, project.folder())
            .env(HOME, project.project.home())
            .env(COMMITS, ids.join(" "))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        kill_when(child, || {
            let made = count_files(&[&objects, &worktree]).saturating_sub(before_merges);
            worktree.join("README.md").exists() && made >= files
        });

        let ready = project.ready();
        assert_eq!(
            ready.salvaged, None,
            "at {files} files: what a kill leaves is nobody's work"
        );
        let merged = merge_all(&ready.integration, &commits);
        let anew = merged
            .iter()
            .filter(|merged| **merged != MergeOutcome::Already)
            .count();
        interrupted += usize::from((1..4).contains(&anew));
        let range = format!("{base}..{}", ready.integration.branch());
        let subjects = project.git(&["log", "--first-parent", "--reverse", "--format=%s", &range]);
        assert_eq!(
            subjects.lines().collect::<Vec<_>>(),
            (1..=4)
                .map(|task| format!("Merge task {task} of worker-1"))
                .collect::<Vec<_>>(),
            "at {files} files"
        );
        assert!(ready.integration.is_clean().unwrap(), "at {files} files");
        for number in 0..4 {
            assert!(
                ready
                    .integration
                    .path()
                    .join(format!("{number}/9"))
                    .exists(),
                "at {files} files"
            );
        }
        assert_eq!(project.user_state(), before, "at {files} files");
    }
    println!("{interrupted} of 10 were killed between two merges");
}

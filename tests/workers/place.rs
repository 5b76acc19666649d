//! Projects in which a worktree is not possible.

use std::process::Command;

use crate::kit::TestProject;

use super::Crew;

#[test]
fn without_a_repository_it_is_said_and_in_place_works() {
    let project = TestProject::new();
    std::fs::remove_dir_all(project.folder().join(".git")).unwrap();
    project.run(["team", "create", "crew"]).succeeds();
    let id = project.task("do", &[]);
    let args = [
        "worker",
        "start",
        "--name",
        "ann",
        "--provider",
        "command:echo 1 > made.txt; echo ok",
    ];
    let refused = project.run(args).fails(1);
    assert!(refused.stderr.contains("repository"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--in-place"), "{}", refused.stderr);
    let crew = Crew { project };
    let args = args.iter().chain(["--in-place"].iter());
    crew.project.run(args).succeeds();
    crew.until_status(&id, "completed");
    assert!(crew.project.folder().join("made.txt").exists());
}

#[test]
fn a_repository_without_commits_and_a_bare_one_are_told_apart() {
    let project = TestProject::new();
    std::fs::remove_dir_all(project.folder().join(".git")).unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).current_dir(project.folder());
        assert!(
            command
                .env("HOME", project.home())
                .status()
                .unwrap()
                .success()
        );
    };
    git(&["init", "--quiet"]);
    project.run(["team", "create", "crew"]).succeeds();
    let args = [
        "worker",
        "start",
        "--name",
        "ann",
        "--provider",
        "command:true",
    ];
    let refused = project.run(args).fails(1);
    assert!(refused.stderr.contains("no commit"), "{}", refused.stderr);
    std::fs::remove_dir_all(project.folder().join(".git")).unwrap();
    git(&["init", "--quiet", "--bare"]);
    let call = project.call(args).env("TEAMSTER_PROJECT", project.folder());
    let refused = call.run().fails(1);
    assert!(
        refused.stderr.contains("without a work tree"),
        "{}",
        refused.stderr
    );
    let crew = Crew { project };
    assert!(crew.heartbeat("ann").is_none());
}

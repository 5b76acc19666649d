//! Worktrees are prepared before an agent works in them.

use super::Crew;

fn settings(crew: &Crew, text: &str) {
    let folder = crew.project.home().join(".config/teamster");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
}

fn bridge_log(crew: &Crew) -> String {
    let log = crew.project.folder().join(".omc/logs/crew/ann/bridge.log");
    std::fs::read_to_string(log).unwrap()
}

#[test]
fn links_and_commands_come_first_and_are_told_in_the_log() {
    let crew = Crew::new();
    crew.project.write("node_modules/x.js", "x");
    crew.git(&["config", "core.excludesFile", ".git/none"]);
    settings(
        &crew,
        "[worktree]\nlink = [\"node_modules\"]\nsetup = [\"test -e node_modules/x.js && echo it is there\", \
         \"echo key=$OPENAI_API_KEY. > .git-setup; cat .git-setup\"]\n",
    );
    let id = crew.task("use it");
    let command = "cat node_modules/x.js .git-setup; rm .git-setup";
    crew.start_with("ann", command, &[], &[("OPENAI_API_KEY", "none-of-yours")]);
    crew.until_status(&id, "completed");
    let log = bridge_log(&crew);
    for part in [
        "copied node_modules",
        "it is there",
        "key=.",
        "exit status: 0",
    ] {
        assert!(log.contains(part), "{part} is missing in {log}");
    }
    assert!(!log.contains("none-of-yours"), "{log}");
}

#[test]
fn a_command_that_fails_keeps_the_worker_from_beginning() {
    let crew = Crew::new();
    let id = crew.task("never");
    settings(
        &crew,
        "[worktree]\nsetup = [\"echo no network >&2; exit 9\"]\n",
    );
    let refused = crew
        .start_provider("ann", "command:echo hi", &[], &[])
        .fails(1);
    for part in ["did not start", "exit 9", "no network", "worktree.setup"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert!(crew.heartbeat("ann").is_none());
    assert_eq!(crew.shown(&id)["status"], "pending");
    settings(
        &crew,
        "[worktree]\nsetup = [\"sleep 600\"]\nsetup_limit = \"300ms\"\n",
    );
    let refused = crew
        .start_provider("ann", "command:echo hi", &[], &[])
        .fails(1);
    assert!(refused.stderr.contains("in time"), "{}", refused.stderr);
    settings(&crew, "[worktree]\nlink = [\"../home\"]\n");
    let refused = crew
        .start_provider("ann", "command:echo hi", &[], &[])
        .fails(1);
    assert!(refused.stderr.contains("../home"), "{}", refused.stderr);
    // A variable overrides the file, and the same worker starts.
    let variables = [("TEAMSTER_WORKTREE_LINK", "[]")];
    crew.start_provider("ann", "command:echo hi", &[], &variables)
        .succeeds();
    crew.until_status(&id, "completed");
}

#[test]
fn a_second_process_of_a_worker_does_not_touch_its_worktree() {
    let crew = Crew::new();
    settings(
        &crew,
        "[worktree]\nsetup = [\"echo once >> $HOME/setups\"]\n",
    );
    crew.start("ann", "echo hi");
    crew.start_provider("ann", "command:echo hi", &[], &[])
        .fails(4);
    let setups = std::fs::read_to_string(crew.project.home().join("setups")).unwrap();
    assert_eq!(setups, "once\n");
}

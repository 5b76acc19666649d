//! Commands from a repository run only after the user has accepted them.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::Crew;
use crate::studio::terminal::Terminal;

const SETTINGS: &str = "[worktree]\nsetup = [\"echo made > $HOME/made\"]\n\n\
    [providers.theirs]\nkind = \"command\"\ncommand = \"echo theirs\"\n";

fn trust_file(crew: &Crew) -> std::path::PathBuf {
    crew.project.home().join(".config/teamster/trust.json")
}

#[test]
fn nothing_of_a_project_runs_before_it_was_accepted_and_a_change_asks_again() {
    let crew = Crew::new();
    crew.project.write(".teamster/config.toml", SETTINGS);
    let trace = crew.project.home().join("made");
    let refused = crew.start_provider("ann", "theirs", &[], &[]).fails(6);
    let error = refused.error();
    let message = error["message"].as_str().unwrap();
    for part in [
        "is not trusted",
        "echo made > $HOME/made",
        "command:echo theirs",
        "line 2",
        "line 4",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!trace.exists() && !trust_file(&crew).exists());
    let team = crew.project.read("teams/crew/config.json");
    assert!(!team.contains("\"ann\""), "it must not have joined: {team}");

    crew.start_provider("ann", "theirs", &["--trust-project"], &[])
        .succeeds();
    assert!(trace.exists());
    let mode = std::fs::metadata(trust_file(&crew))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let id = crew.task("go");
    crew.until_status(&id, "completed");
    // Accepting once is enough.
    crew.start_provider("ben", "theirs", &[], &[]).succeeds();

    crew.project.write(
        ".teamster/presets/review.md",
        "anything below the folder counts",
    );
    let changed = crew.start_provider("cyn", "theirs", &[], &[]).fails(6);
    assert!(
        changed.stderr.contains("has changed since it was trusted"),
        "{}",
        changed.stderr
    );
    // The worker's process checks again, whoever starts it, and so does a restart.
    let bridge = [
        "worker",
        "bridge",
        "--team",
        "crew",
        "--name",
        "ben",
        "--provider",
        "theirs",
    ];
    let refused = crew.project.run(bridge).fails(6);
    assert!(refused.stderr.contains("has changed"), "{}", refused.stderr);
    let restarted = crew.project.run(["worker", "restart", "ben"]).exits(1);
    assert!(
        restarted.stderr.contains("has changed"),
        "{}",
        restarted.stderr
    );
    crew.project.run(["trust", "--yes"]).succeeds();
    crew.start_provider("cyn", "theirs", &[], &[]).succeeds();
    let revoked = crew
        .project
        .run(["trust", "--revoke", "--json"])
        .succeeds()
        .json();
    assert_eq!(revoked["revoked"], true);
    crew.start_provider("dan", "theirs", &[], &[]).fails(6);
}

#[test]
fn what_is_not_used_needs_no_trust() {
    let crew = Crew::new();
    crew.project.write(
        ".teamster/config.toml",
        "[providers.theirs]\nkind = \"command\"\ncommand = \"x\"\n[providers.codex]\nmodel = \"m\"\n[claim]\nlease = \"3m\"\n",
    );
    crew.start("ann", "echo hi");
    crew.project
        .write(".teamster/config.toml", "[worktree]\nsetup = [\"x\"]\n");
    crew.start_with("ben", "echo hi", &["--in-place"], &[]);
    crew.start_with("cyn", "echo hi", &[], &[("TEAMSTER_WORKTREE_SETUP", "[]")]);
    crew.start_provider("dan", "command:echo hi", &[], &[])
        .fails(6);
    // A project cannot loosen the permissions of agents by itself.
    crew.project.write(
        ".teamster/config.toml",
        "[permissions]\nother = \"allow\"\n",
    );
    let refused = crew
        .start_provider("dan", "command:echo hi", &[], &[])
        .fails(6);
    assert!(
        refused.stderr.contains("permissions.other: allow"),
        "{}",
        refused.stderr
    );
    crew.project
        .write(".teamster/config.toml", "[permissions]\nother = \"ask\"\n");
    crew.start("dan", "echo hi");
    // It cannot give credentials to the user's commands either.
    crew.project.write(
        ".teamster/config.toml",
        "[providers.command]\ncommand = \"x\"\nsecrets = [\"OPENAI_API_KEY\"]\n",
    );
    crew.start_provider("eve", "command:echo hi", &[], &[])
        .fails(6);
}

#[test]
fn a_worker_can_never_accept() {
    let crew = Crew::new();
    crew.project.write(".teamster/config.toml", SETTINGS);
    for words in [["trust", "--yes"], ["trust", "--revoke"]] {
        let call = crew.project.call(words).env("TEAMSTER_WORKER", "ann");
        call.run().fails(6);
    }
    let call = crew.project.call(["trust", "--show"]);
    call.env("TEAMSTER_WORKER", "ann").run().succeeds();
    // An agent may drop its identity from the environment, but not its parent processes.
    let id = crew.task("try");
    let out = crew.project.home().join("tried");
    let command = format!(
        "env -u TEAMSTER_WORKER -u TEAMSTER_LAUNCH teamster trust --yes > {0} 2>&1; echo $? >> {0}; \
         setsid env -u TEAMSTER_WORKER -u TEAMSTER_LAUNCH teamster trust --yes >> {0} 2>&1; echo $? >> {0}; echo ok",
        out.display()
    );
    crew.start_with("ann", &command, &["--in-place"], &[]);
    crew.until_status(&id, "completed");
    let tried = std::fs::read_to_string(out).unwrap();
    assert_eq!(tried.matches("below a worker").count(), 2, "{tried}");
    assert_eq!(
        tried.lines().filter(|line| *line == "6").count(),
        2,
        "{tried}"
    );
    assert!(!trust_file(&crew).exists());
}

#[test]
fn a_changed_script_asks_again_wherever_it_lies() {
    let crew = Crew::new();
    crew.project
        .write("demo.toml", "[[steps]]\nsay = \"hello\"\n");
    crew.project.write(
        ".teamster/config.toml",
        "[providers.demo]\nkind = \"scripted\"\nfile = \"demo.toml\"\n",
    );
    let digest = || -> Value {
        let shown = crew.project.run(["trust", "--show", "--json"]).succeeds();
        shown.json()["digest"].clone()
    };
    let before = digest();
    assert_eq!(before, digest());
    crew.project.run(["trust", "--yes"]).succeeds();
    crew.project
        .write("demo.toml", "[[steps]]\nsay = \"other\"\n");
    assert_ne!(before, digest());
    crew.start_provider("ann", "demo", &[], &[]).fails(6);
}

#[test]
fn at_a_terminal_a_start_shows_what_would_run_and_asks() {
    let crew = Crew::new();
    crew.project.write(".teamster/config.toml", SETTINGS);
    let start = ["worker", "start", "--name", "ann", "--provider", "theirs"];
    let mut terminal = Terminal::start(&crew.project, &start);
    for part in ["echo made > $HOME/made", "echo theirs", "Run them? [y/N]"] {
        terminal.wait_for(part);
    }
    terminal.press("n\n");
    terminal.exits(6);
    assert!(crew.heartbeat("ann").is_none() && !trust_file(&crew).exists());
    let mut terminal = Terminal::start(&crew.project, &start);
    terminal.wait_for("Run them? [y/N]");
    terminal.press("y\n");
    terminal.exits(0);
    let id = crew.task("go");
    crew.until_status(&id, "completed");
    assert!(crew.project.home().join("made").exists());
}

#[test]
fn a_command_of_a_projects_role_or_team_does_not_run_by_its_own_name_either() {
    let crew = Crew::new();
    crew.project.write(
        ".teamster/config.toml",
        "[roles]\nexecutor = \"command:echo role\"\n",
    );
    crew.project.write(
        ".teamster/teams/own.md",
        "---\nname: own\nmembers: [{ name: a, agent: executor, provider: 'command:echo team' }]\nverify: [make]\n---\n",
    );
    for (command, setting) in [
        ("command:echo role", "roles.executor"),
        ("command:echo team", "teams.own.a"),
    ] {
        let refused = crew.start_provider("ann", command, &[], &[]).fails(6);
        assert!(refused.stderr.contains(setting), "{}", refused.stderr);
        assert!(!refused.stderr.contains("verify"), "{}", refused.stderr);
    }
    // The user's own command needs no trust.
    crew.start_provider("ann", "command:echo mine", &[], &[])
        .succeeds();
}

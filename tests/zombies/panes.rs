//! Panes: open ones keep a team, and teammates without a lead are reported.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::{DAY, evidence, is_gone, is_there, led_by, team, touch};
use crate::kit::{TestProject, gone, living, skip};

/// A separate tmux server, ended on drop.
struct Tmux {
    folder: PathBuf,
}

impl Tmux {
    /// Starts the server; `None` where tmux is not installed.
    fn start(project: &TestProject) -> Option<Self> {
        let server = Self {
            folder: project.home().join("t"),
        };
        std::fs::create_dir_all(&server.folder).unwrap();
        let started = server.tmux(&["new-session", "-d", "cat"])?;
        assert!(started);
        Some(server)
    }

    fn tmux(&self, args: &[&str]) -> Option<bool> {
        let mut command = Command::new("tmux");
        command.args(["-f", "/dev/null"]).args(args);
        command.env("TMUX_TMPDIR", &self.folder).env_remove("TMUX");
        command.status().ok().map(|status| status.success())
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn with_pane(config: Value, pane: &str) -> Value {
    let mut config = config;
    config["members"][1]["tmuxPaneId"] = json!(pane);
    config["members"][1]["backendType"] = json!("tmux");
    config["createdAt"] = json!(1_000_000_000_000_i64);
    config
}

#[test]
fn an_open_pane_keeps_a_team_and_names_the_orphan() {
    let project = TestProject::new();
    let Some(tmux) = Tmux::start(&project) else {
        return skip("tmux is not installed");
    };
    team(
        &project,
        "open",
        &with_pane(led_by("open", &gone()), "%0"),
        3 * DAY,
    );
    team(
        &project,
        "closed",
        &with_pane(led_by("closed", &gone()), "%77"),
        3 * DAY,
    );
    let call = |words: &[&str]| project.call(words).env("TMUX_TMPDIR", &tmux.folder).run();
    let found = call(&["zombies", "scan", "--json"]).succeeds().json();
    let list = found["zombies"].as_array().unwrap();
    let of = |kind: &str, name: &str| {
        let is = |z: &&Value| z["kind"] == kind && z["name"] == name;
        list.iter()
            .find(is)
            .unwrap_or_else(|| panic!("{kind} {name}: {found}"))
    };
    assert_eq!(of("team", "open")["action"], "keep");
    assert!(evidence(of("team", "open")).contains("pane %0 of worker-1 is open"));
    let orphan = of("worker", "worker-1");
    assert_eq!(orphan["team"], "open");
    assert!(
        evidence(orphan).contains("pane %0 is open, its lead (pid"),
        "{orphan}"
    );
    assert!(
        orphan["command"]
            .as_str()
            .unwrap()
            .ends_with("kill-pane -t %0"),
        "{orphan}"
    );
    call(&["zombies", "reap"]).succeeds();
    assert!(is_there(&project, "open"));
    assert!(is_gone(&project, "closed"), "no server lists its pane");
}

#[test]
fn a_dead_pane_is_listed_and_keeps_nothing() {
    let project = TestProject::new();
    let Some(tmux) = Tmux::start(&project) else {
        return skip("tmux is not installed");
    };
    assert_eq!(
        tmux.tmux(&["set-option", "-g", "remain-on-exit", "on"]),
        Some(true)
    );
    assert_eq!(
        tmux.tmux(&["respawn-pane", "-k", "-t", "%0", "true"]),
        Some(true)
    );
    team(
        &project,
        "dead",
        &with_pane(led_by("dead", &gone()), "%0"),
        3 * DAY,
    );
    let scan = || {
        let call = project.call(["zombies", "scan", "--json"]);
        call.env("TMUX_TMPDIR", &tmux.folder)
            .run()
            .succeeds()
            .json()
    };
    // The server has to notice the exit of the program first.
    let mut found = scan();
    while found["zombies"][0]["action"] != "reap" {
        found = scan();
    }
    assert_eq!(found["zombies"][1]["kind"], "pane", "{found}");
    assert_eq!(found["zombies"][1]["action"], "keep");
}

#[test]
fn shell_that_is_left_in_the_pane_of_a_killed_client_keeps_nothing() {
    let project = TestProject::new();
    let Some(tmux) = Tmux::start(&project) else {
        return skip("tmux is not installed");
    };
    let mut config = with_pane(led_by("left", &gone()), "%0");
    config["members"][0]["cwd"] = json!(project.folder());
    config["leadSessionId"] = json!(project.session());
    team(&project, "left", &config, 3 * DAY);
    let line = format!(
        "exec sh -c 'echo $$; read -r _' claude --agent-id worker-1@left --agent-name worker-1 \
         --team-name left --parent-session-id {}",
        project.session()
    );
    let (reader, writer) = std::io::pipe().unwrap();
    let mut client = project.shell(&line).stdin(reader.into()).follow();
    let pid = client.line();
    let payload = json!({"session_id": "pane", "agent_type": "general-purpose"}).to_string();
    let hook = project
        .call(["hook", "SessionStart"])
        .env("CLAUDE_PID", &pid);
    hook.input(payload).run().exits(0);
    let scan = || {
        let call = project.call(["zombies", "scan", "--json"]);
        call.env("TMUX_TMPDIR", &tmux.folder)
            .run()
            .succeeds()
            .json()
    };
    let found = scan();
    assert_eq!(found["zombies"][0]["action"], "keep", "{found}");
    drop(writer);
    drop(client);
    let found = scan();
    assert_eq!(found["zombies"][0]["action"], "reap", "{found}");
    let pane = &found["zombies"][1];
    assert_eq!(pane["kind"], "pane", "{found}");
    assert!(
        evidence(pane).contains(&format!("process {pid} is gone")),
        "{pane}"
    );
}

#[test]
fn a_server_that_does_not_answer_proves_nothing() {
    let project = TestProject::new();
    team(
        &project,
        "paned",
        &with_pane(led_by("paned", &gone()), "%0"),
        3 * DAY,
    );
    project.write(".omc/state/tmux.sock", "");
    let call = project
        .call(["zombies", "scan", "--json"])
        .env("PATH", "/nowhere");
    let found = call.run().succeeds().json();
    assert_eq!(found["zombies"][0]["action"], "keep", "{found}");
    let said = evidence(&found["zombies"][0]);
    assert!(
        said.contains("old, perhaps alive, pane %0 of worker-1 cannot be looked for"),
        "{said}"
    );
}

#[test]
fn a_teammates_own_process_keeps_its_team() {
    let project = TestProject::new();
    let name = format!("session-{}", teamster_fs::random_hex());
    let mut teammate = Command::new("sh")
        .args([
            "-c",
            "read line",
            "claude",
            "--agent-name",
            "worker-1",
            "--team-name",
            &name,
        ])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    team(
        &project,
        &name,
        &with_pane(led_by(&name, &gone()), "%77"),
        3 * DAY,
    );
    let found = super::listed(&project, &name);
    let said = format!("pid {} runs as worker-1 of it", teammate.id());
    assert!(evidence(&found).contains(&said), "{found}");
    assert_eq!(found["action"], "keep");
    drop(teammate.stdin.take());
    teammate.wait().unwrap();
    touch(&project, &name, 3 * DAY);
    assert_eq!(super::listed(&project, &name)["action"], "reap");
}

#[test]
fn who_has_a_lead_is_no_orphan() {
    let project = TestProject::new();
    let Some(tmux) = Tmux::start(&project) else {
        return skip("tmux is not installed");
    };
    team(
        &project,
        "led",
        &with_pane(led_by("led", &living()), "%0"),
        3 * DAY,
    );
    let call = project.call(["zombies", "scan", "--json"]);
    let found = call
        .env("TMUX_TMPDIR", &tmux.folder)
        .run()
        .succeeds()
        .json();
    assert_eq!(found["zombies"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["zombies"][0]["kind"], "team");
}

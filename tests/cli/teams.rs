//! Creating, finding and removing teams.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::kit::{TestProject, gone, living};

#[test]
fn a_team_is_made_shown_and_removed() {
    let project = TestProject::new();
    let made = project
        .run([
            "team",
            "create",
            "fix-auth",
            "--description",
            "Make it work",
            "--members",
            "worker-1,worker-2",
        ])
        .succeeds();
    insta::assert_snapshot!(made.shown(), @"created team fix-auth for [root]/project with worker-1, worker-2");
    project
        .run([
            "team",
            "join",
            "fix-auth",
            "worker-3",
            "--provider",
            "codex",
        ])
        .succeeds();
    insta::assert_snapshot!(project.run(["team", "show"]).succeeds().shown(), @r"
    team fix-auth (teamster)
    Make it work
    project [root]/project
    no tasks

    WORKER    PROVIDER  BACKEND
    worker-1            process
    worker-2            process
    worker-3  codex     process
    ");
    insta::assert_snapshot!(project.run(["team", "list"]).succeeds().shown(), @r"
    TEAM      STATE  KIND      MEMBERS  PROJECT
    fix-auth  stale  teamster  3        [root]/project
    ");

    let shown = project.run(["team", "show", "--json"]).succeeds().json();
    assert_eq!(shown["team"]["name"], "fix-auth");
    assert_eq!(shown["team"]["leadAgentId"], "lead@fix-auth");
    assert_eq!(shown["team"]["members"][2]["agentId"], "worker-3@fix-auth");
    assert_eq!(shown["team"]["teamster"]["schema"], 1);
    assert_eq!(shown["progress"]["totalTasks"], 0);

    let removed = project
        .run(["team", "delete", "fix-auth", "--json"])
        .succeeds()
        .json();
    assert_eq!(removed["team"]["name"], "fix-auth");
    project.run(["team", "show", "fix-auth"]).fails(3);
    assert_eq!(
        project.run(["team", "list", "--json"]).json(),
        json!({ "teams": [] })
    );
}

#[test]
fn a_team_is_made_once() {
    let project = TestProject::with_team();
    let ran = project.run(["team", "create", "fix-auth"]).fails(4);
    insta::assert_snapshot!(ran.shown(), @r"
    error: there is a team fix-auth already
    hint: `teamster team show fix-auth` shows it; choose another name, or delete it first
    ");
    project
        .run(["team", "create", "other", "--members", "w,w"])
        .fails(6);
}

#[test]
fn a_team_remembers_the_commit_it_starts_from() {
    let project = TestProject::new();
    std::fs::remove_dir(project.folder().join(".git")).unwrap();
    for args in [
        vec!["init", "--quiet"],
        vec![
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "first",
        ],
    ] {
        let git = Command::new("git")
            .current_dir(project.folder())
            .args(args)
            .status();
        assert!(git.unwrap().success());
    }
    let team = project
        .run(["team", "create", "fix-auth", "--json"])
        .succeeds()
        .json();
    let base = team["team"]["teamster"]["base"].as_str().unwrap();
    assert_eq!(base.len(), 40, "{base}");
}

#[test]
fn the_only_team_of_the_project_need_not_be_named() {
    let project = TestProject::new();
    let none = project.run(["task", "list"]).fails(3);
    insta::assert_snapshot!(none.shown(), @r#"
    error: no team works on [root]/project
    hint: start one: `teamster run 2:claude "…"`; `teamster team list` shows those of other projects
    "#);
    project.run(["team", "create", "fix-auth"]).succeeds();
    project.run(["task", "list"]).succeeds();

    // A team of another project does not make the choice ambiguous, but a second one of this project does.
    let elsewhere = project.home();
    let elsewhere = elsewhere.to_str().unwrap();
    project
        .run(["team", "create", "far-away", "--project", elsewhere])
        .succeeds();
    project.run(["task", "list"]).succeeds();
    project.run(["team", "create", "second"]).succeeds();
    let several = project.run(["task", "list"]).fails(2);
    insta::assert_snapshot!(several.shown(), @r"
    error: several teams work on [root]/project: fix-auth, second
    hint: choose one: --team fix-auth
    ");

    project.run(["task", "list", "--team", "second"]).succeeds();
    project
        .call(["task", "list"])
        .env("TEAMSTER_TEAM", "second")
        .run()
        .succeeds();
    // The command line takes precedence.
    let named = project
        .call(["task", "create", "--subject", "x", "--team", "fix-auth"])
        .env("TEAMSTER_TEAM", "second")
        .run();
    named.succeeds();
    let counted = project.run(["team", "show", "fix-auth", "--json"]).json();
    assert_eq!(counted["progress"]["totalTasks"], 1);
}

#[test]
fn a_project_is_the_same_from_below_and_through_a_link() {
    let project = TestProject::with_team();
    let below = project.folder().join("src/deep");
    std::fs::create_dir_all(&below).unwrap();
    project
        .call(["task", "list"])
        .folder(&below)
        .run()
        .succeeds();
    let link = project.home().join("link");
    std::os::unix::fs::symlink(project.folder(), &link).unwrap();
    project
        .call(["task", "list"])
        .env("TEAMSTER_PROJECT", &link)
        .run()
        .succeeds();
}

#[test]
fn teams_of_claude_code_count_where_there_is_none_of_ours() {
    let project = TestProject::new();
    native_team(&project, "session-1a2b3c4d");
    project.run(["task", "create", "--subject", "x"]).succeeds();
    let list = project.run(["team", "list", "--json"]).succeeds().json();
    assert_eq!(list["teams"][0]["kind"], "claude");
    assert_eq!(list["teams"][0]["members"], 1);
    let refused = project.run(["team", "delete", "session-1a2b3c4d"]).fails(6);
    insta::assert_snapshot!(refused.shown(), @r"
    error: team session-1a2b3c4d belongs to Claude Code and cannot be removed by teamster
    hint: its own session removes it when it ends
    ");

    project.run(["team", "create", "fix-auth"]).succeeds();
    project
        .run(["task", "create", "--subject", "ours"])
        .succeeds();
    let ours = project.run(["team", "show", "fix-auth", "--json"]).json();
    assert_eq!(ours["progress"]["totalTasks"], 1);
}

fn native_team(project: &TestProject, name: &str) {
    let folder = project.claude("teams").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let cwd = project.folder();
    let config = json!({
        "name": name, "createdAt": 1_794_728_281_220_i64, "leadAgentId": format!("team-lead@{name}"),
        "members": [
            { "agentId": format!("team-lead@{name}"), "name": "team-lead", "cwd": cwd },
            { "agentId": format!("parser@{name}"), "name": "parser", "cwd": cwd, "backendType": "in-process" },
        ],
    });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn a_team_is_live_stale_or_ended() {
    let project = TestProject::with_team();
    let state = || project.run(["team", "list", "--json"]).json()["teams"][0]["state"].clone();
    assert_eq!(state(), "stale", "nobody has begun");
    project.task("a", &[]);
    let token = project.claim("worker-1", "1");
    assert_eq!(state(), "live", "a lease runs");
    project
        .run(["task", "complete", "1", "--token", &token])
        .succeeds();
    assert_eq!(state(), "ended", "nothing is left");
    project.beat("worker-1", Duration::ZERO, &living(), &json!({}));
    assert_eq!(state(), "live", "a heartbeat is fresh");
}

#[test]
fn a_team_is_not_removed_under_the_living() {
    let project = TestProject::with_team();
    project.beat("worker-1", Duration::ZERO, &living(), &json!({}));
    let fresh = project.run(["team", "delete", "fix-auth"]).fails(4);
    assert!(
        fresh.stderr.contains("worker-1 (heartbeat "),
        "{}",
        fresh.stderr
    );

    project.beat("worker-1", Duration::from_secs(100), &living(), &json!({}));
    for force in [&["--force"][..], &[]] {
        let args = ["team", "delete", "fix-auth", "--json"];
        let alive = project.run(args.iter().chain(force)).fails(4).error();
        assert_eq!(alive["kind"], "conflict");
        let message = alive["message"].as_str().unwrap();
        assert!(
            message.contains(&format!("but pid {} runs", living().pid)),
            "{message}"
        );
        let hint = alive["hint"].as_str().unwrap();
        // A worker with only a heartbeat was not started by teamster, and must not be ended.
        assert_eq!(
            hint.contains("end them where they run"),
            !force.is_empty(),
            "{hint}"
        );
    }
    assert!(project.claude("teams/fix-auth/config.json").exists());

    project.beat("worker-1", Duration::from_secs(100), &gone(), &json!({}));
    project.run(["team", "delete", "fix-auth"]).succeeds();
}

#[test]
fn a_claim_that_still_runs_keeps_its_team_unless_forced() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    project.claim("worker-1", "1");
    let kept = project.run(["team", "delete", "fix-auth"]).fails(4);
    assert!(
        kept.stderr.contains("task 1 by worker-1 until"),
        "{}",
        kept.stderr
    );
    assert!(project.claude("teams/fix-auth/config.json").exists());
    project
        .run(["team", "delete", "fix-auth", "--force"])
        .succeeds();
}

#[test]
fn one_damaged_registry_hides_no_other_team() {
    let project = TestProject::with_team();
    std::fs::create_dir_all(project.claude("teams/broken")).unwrap();
    std::fs::write(project.claude("teams/broken/config.json"), "{\"name\":").unwrap();
    let list = project.run(["team", "list", "--json"]).succeeds().json();
    let names: Vec<&str> = list["teams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|team| team["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["broken", "fix-auth"]);
    assert!(
        list["teams"][0]["problem"]
            .as_str()
            .unwrap()
            .contains("not valid JSON")
    );
    insta::assert_snapshot!(project.run(["team", "list"]).succeeds().shown(), @r"
    TEAM      STATE  KIND      MEMBERS  PROJECT
    broken    stale            0        damaged: not valid JSON: EOF while parsing a value at line 1 column 8
    fix-auth  stale  teamster  2        [root]/project
    ");
    project.run(["task", "list"]).succeeds();
    project.run(["status"]).succeeds();
    project.run(["status", "--all"]).succeeds();
}

#[test]
fn with_a_team_goes_what_tells_the_stage_of_its_run_and_of_no_other() {
    let project = TestProject::with_team();
    let file = project.folder().join(".omc/state/team-state.json");
    let of = |team: &str| json!({ "active": true, "team": team }).to_string();
    project.write(".omc/state/team-state.json", &of("another"));
    project.run(["team", "delete", "fix-auth"]).succeeds();
    assert!(file.exists(), "it is another team's");

    project.run(["team", "create", "fix-auth"]).succeeds();
    project.write(".omc/state/team-state.json", &of("fix-auth"));
    let host = std::fs::File::create(project.folder().join(".omc/state/run.lock")).unwrap();
    host.lock().unwrap();
    project.run(["team", "delete", "fix-auth"]).succeeds();
    assert!(file.exists(), "somebody hosts a run here, and writes it");
    drop(host);

    project.run(["team", "create", "fix-auth"]).succeeds();
    project.run(["team", "delete", "fix-auth"]).succeeds();
    assert!(!file.exists());
}

#[test]
fn journals_of_teams_of_one_name_are_all_kept() {
    let project = TestProject::with_team();
    let ids = |folder: &str| {
        let kept = format!(".omc/reports/{folder}/events.jsonl");
        let text = std::fs::read_to_string(project.folder().join(kept)).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        first["id"].as_str().unwrap().to_owned()
    };
    let mut seen = Vec::new();
    for round in 1..=3 {
        if round > 1 {
            project.run(["team", "create", "fix-auth"]).succeeds();
        }
        project.run(["team", "delete", "fix-auth"]).succeeds();
        seen.push(ids("fix-auth"));
    }
    assert_eq!(ids("fix-auth.1"), seen[0]);
    assert_eq!(ids("fix-auth.2"), seen[1]);
    assert_eq!(ids("fix-auth"), seen[2]);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

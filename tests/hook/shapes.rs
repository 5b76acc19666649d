//! Every recorded file of every client, and what is parsed from it. Reading must not change the files.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;
use teamster_claude::native::NativeRegistry;
use teamster_types::session::ClientSession;

use super::fixtures;
use crate::kit::TestProject;

const VERSIONS: [&str; 3] = ["2.1.177", "2.1.197", "2.1.325"];

/// Returns the recorded files of one kind, in order; empty if that client recorded none.
fn files(version: &str, folder: &str) -> Vec<(String, PathBuf)> {
    let folder = fixtures().join(version).join(folder);
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .collect();
    files.sort();
    files
}

#[test]
fn of_registries() {
    let mut text = String::new();
    for version in VERSIONS {
        for (name, path) in files(version, "team") {
            if !name.starts_with("config") {
                continue;
            }
            let content = std::fs::read_to_string(path).unwrap();
            let here = TestProject::new();
            let content = content.replace("/home/dev/project", here.folder().to_str().unwrap());
            let config: Value = serde_json::from_str(&content).unwrap();
            let folder = config["name"].as_str().unwrap().to_owned();
            here.native_file(&format!("teams/{folder}/config.json"), &content);
            let registry = NativeRegistry::open(&here.claude("")).unwrap();
            let session = config["leadSessionId"].as_str().unwrap();
            let team = registry.led_by(session).unwrap();
            assert_eq!(registry.named(&team.name), Some(team.clone()));
            let _ = writeln!(
                text,
                "{version} {name}\n  {} in {folder}, led by {:?} in {}",
                team.name,
                team.lead_name().unwrap(),
                team.lead_session
            );
            for member in team.teammates() {
                let _ = writeln!(
                    text,
                    "  {} as {} with {} in {:?}, {}",
                    member.name, member.role, member.model, member.pane, member.agent_id
                );
            }
            for command in [
                &["team", "list"][..],
                &["worker", "list", "--team", &folder],
            ] {
                let shown = here.run(command).succeeds().shown();
                for line in shown.lines().skip(1) {
                    let _ = writeln!(text, "  {} {}: {line}", command[0], command[1]);
                }
            }
            assert_eq!(here.read(&format!("teams/{folder}/config.json")), content);
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn of_tasks() {
    let mut text = String::new();
    for version in VERSIONS {
        for (name, path) in files(version, "tasks") {
            let here = TestProject::new();
            here.native_team("alpha", "s1", &[("worker-1", "in-process")]);
            let content = std::fs::read_to_string(path).unwrap();
            let _ = writeln!(text, "{version} {name}");
            if name == "highwatermark" {
                // Ids up to this one were used, and are not assigned again.
                here.native_file("tasks/alpha/.highwatermark", &content);
                let id = here.task("New", &["--team", "alpha"]);
                let _ = writeln!(text, "  the next id is {id}");
                continue;
            }
            let id = name.split('.').next().unwrap();
            let file = format!("tasks/alpha/{id}.json");
            here.native_file(&file, &content);
            let show = ["task", "show", id, "--team", "alpha"];
            for line in here.run(show).succeeds().shown().lines() {
                let _ = writeln!(text, "  {line}");
            }
            let status = here.run(["status", "--team", "alpha"]).succeeds().shown();
            let _ = writeln!(text, "  status: {}", status.lines().nth(1).unwrap());
            assert_eq!(here.read(&file), content);
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn of_sessions() {
    let mut text = String::new();
    for version in VERSIONS {
        for (name, path) in files(version, "sessions") {
            let content = std::fs::read(path).unwrap();
            let value: Value = serde_json::from_slice(&content).unwrap();
            let pid = value["pid"].as_u64().unwrap().try_into().unwrap();
            let session = ClientSession::parse(pid, &value).unwrap();
            let process = &session.process;
            let _ = writeln!(
                text,
                "{version} {name}\n  {} is pid {} since {} in {:?}, pane {:?}",
                session.id, process.pid, process.process_start_time, process.pid_ns, session.pane
            );
        }
    }
    insta::assert_snapshot!(text);
}

/// Asserts that every kind of file in the fixtures is used by a test above.
#[test]
fn of_every_sort_there_is() {
    for version in VERSIONS {
        for (name, _) in files(version, "team") {
            let known = name.starts_with("config") || name.starts_with("inbox.");
            assert!(known, "{version} team/{name} is read by no test");
        }
    }
}

//! Journals of earlier versions: what people see of them stays the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use teamster_journal::payload::{RunEnd, RunFinished};
use teamster_journal::{Event, RunState};
use teamster_store::rebuild;
use teamster_types::TeamName;
use teamster_view::model::{TeamProjection, run_lately, run_now};

use crate::kit::TestProject;

/// Returns the recordings of version 0.1, one folder for each run: the team's registry, its tasks, and what people
/// saw.
fn recorded() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/releases/0.1");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    assert!(found.len() > 10, "{found:?}");
    found
}

fn journal(folder: &Path) -> PathBuf {
    let mut teams = std::fs::read_dir(folder.join("teams")).unwrap();
    let team = teams.next().unwrap().unwrap().path();
    team.join("events.jsonl")
}

fn events(folder: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(journal(folder)).unwrap();
    let parse = |line| serde_json::from_str(line).unwrap();
    text.lines().map(parse).collect()
}

/// Compares `text` with the file `name` beside the journal.
fn compare(folder: &Path, name: &str, text: &str) {
    insta::with_settings!({
        snapshot_path => folder,
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

fn pretty(json: &str) -> String {
    let value: Value = serde_json::from_str(json).unwrap();
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn journals_of_0_1_replay_to_the_same_views() {
    let project = TestProject::new();
    for folder in recorded() {
        let journal = journal(&folder).display().to_string();
        let last = events(&folder).last().unwrap().seq;
        for quarter in 1..=4 {
            let at = (last * quarter / 4).max(1).to_string();
            let shown = project.run(["replay", &journal, "--to", &at, "--json"]);
            let shown = pretty(&shown.exits(0).stdout);
            compare(&folder, &format!("view-at-{at}"), &shown);
        }
        let shown = project.run(["replay", &journal, "--to", &last.to_string()]);
        compare(&folder, "replay", &shown.exits(0).stdout);
    }
}

#[test]
fn every_prefix_of_a_journal_of_0_1_is_judged_the_same_by_host_page_and_status() {
    for folder in recorded() {
        let project = TestProject::new();
        copy(&folder.join("teams"), &project.claude("teams"));
        let events = events(&folder);
        let team: TeamName = events[0].team.parse().unwrap();
        let journal = project.claude(&format!("teams/{team}/events.jsonl"));
        let mut host = RunState::default();
        let mut projection = TeamProjection::of("");
        let mut told = String::new();
        for event in &events {
            told.push_str(&serde_json::to_string(event).unwrap());
            told.push('\n');
            std::fs::write(&journal, &told).unwrap();
            let read = project.store(Duration::ZERO);
            host.apply(event);
            projection.apply(event);
            let view = projection.view();
            let place = format!("{} at {}", folder.display(), event.seq);
            let is_open = host.open_gate().is_some();
            assert_eq!(view.awaits_approval(), is_open, "{place}");
            let gate = teamster_view::requests::open_gate(&read, &team).unwrap();
            assert_eq!(gate.is_some(), is_open, "{place}");
            let stage = view.stage().map(str::to_owned);
            for now in [run_now(&read, &team), run_lately(&read, &team)] {
                let now = now.unwrap();
                assert_eq!(now.awaits_approval, is_open, "{place}");
                let end = host.finished.as_ref().map(|finished| finished.end);
                let told = now.finished.as_ref();
                assert_eq!(told.and_then(RunFinished::end), end, "{place}");
                let outcome = end.map(RunEnd::word);
                assert_eq!(told.map(|run| run.outcome.as_str()), outcome, "{place}");
                assert_eq!(now.stage, stage, "{place}");
            }
        }
    }
}

#[test]
fn journals_of_0_1_make_the_same_reports() {
    for folder in recorded() {
        let events = events(&folder);
        let team: TeamName = events[0].team.parse().unwrap();
        let mut tasks = rebuild::Tasks::default();
        for event in &events {
            tasks.apply(event);
        }
        let input = teamster_run::report::input_from(&team, &events, &tasks.remaining());
        compare(&folder, "report", &teamster_run::report::page(&input));
        compare(&folder, "gate", &teamster_run::report::gate_text(&input));
    }
}

#[test]
fn teams_of_0_1_have_the_same_status() {
    for folder in recorded() {
        let project = TestProject::new();
        for part in ["teams", "tasks"] {
            copy(&folder.join(part), &project.claude(part));
        }
        let status = project.run(["status", "--all", "--json"]).exits(0).stdout;
        compare(&folder, "status", &without_ages(&pretty(&status)));
    }
}

/// Removes the ages of messages, which grow every day after the recording.
fn without_ages(status: &str) -> String {
    let ageless = |line: &str| match line.split_once(" not delivered after ") {
        Some((before, _)) => format!("{before} not delivered after …\""),
        None => line.to_owned(),
    };
    let lines: Vec<String> = status.lines().map(ageless).collect();
    lines.join("\n")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

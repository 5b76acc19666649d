//! Any past moment, from the journal alone.

use super::Studio;
use super::facts::in_the_middle;
use crate::kit::TestProject;

fn last(project: &TestProject) -> u64 {
    let events = project.run(["journal", "--json"]).succeeds().json();
    events["events"].as_array().unwrap().len() as u64
}

#[test]
fn scrubbing_to_a_moment_shows_what_a_replay_to_it_gives() {
    let project = in_the_middle();
    let studio = Studio::start(&project);
    let last = last(&project);
    assert!(last > 12);
    for seq in 1..=last {
        let replayed = project
            .run(["replay", "fix-auth", "--to", &seq.to_string(), "--json"])
            .succeeds()
            .json();
        let mut scrubbed = studio.json(&format!("/api/v1/teams/fix-auth?at={seq}"));
        let mut view = replayed["view"].clone();
        assert_eq!(scrubbed["past"], true);
        // The histories differ: one is of the whole journal, the other of the replayed part.
        scrubbed["history"].take();
        view["history"].take();
        // The registry's own fields are not part of a moment.
        for key in ["kind", "project", "description"] {
            scrubbed[key].take();
            view[key].take();
        }
        assert_eq!(scrubbed, view, "at {seq}");
        let timeline = studio.json(&format!("/api/v1/teams/fix-auth/timeline?at={seq}"));
        assert_eq!(timeline, replayed["timeline"], "at {seq}");
    }
}

#[test]
fn the_journal_rebuilds_the_tasks_that_the_files_hold() {
    let project = in_the_middle();
    let replayed = project
        .run(["replay", "fix-auth", "--json"])
        .succeeds()
        .json();
    let live = project.run(["task", "list", "--json"]).succeeds().json();
    let (told, there) = (
        replayed["tasks"].as_array().unwrap(),
        live["tasks"].as_array().unwrap(),
    );
    assert_eq!(told.len(), there.len());
    for (told, there) in told.iter().zip(there) {
        for key in ["id", "subject", "status", "owner", "blockedBy", "blocks"] {
            assert_eq!(told[key], there[key], "{key}");
        }
    }
    let progress = project.run(["status", "--json"]).json()["teams"][0]["progress"].clone();
    assert_eq!(replayed["view"]["progress"], progress);
    assert_eq!(replayed["view"]["tasks"][1]["state"], "in_progress");
}

#[test]
fn a_journal_is_replayed_from_a_file_and_from_what_a_removed_team_left() {
    let project = in_the_middle();
    let words = ["replay", "fix-auth", "--to", "5", "--json"];
    let of_team = project.run(words).succeeds().json();
    let copy = project.folder().join("copy.jsonl");
    std::fs::copy(project.claude("teams/fix-auth/events.jsonl"), &copy).unwrap();
    let of_copy = project.run(["replay", "copy.jsonl", "--to", "5", "--json"]);
    assert_eq!(of_copy.succeeds().json(), of_team);
    std::fs::remove_dir_all(project.folder().join(".omc/state")).unwrap();
    project.run(["task", "release", "2", "--force"]).succeeds();
    project
        .run(["team", "delete", "fix-auth", "--force"])
        .succeeds();
    assert_eq!(project.run(words).succeeds().json(), of_team);
    project.run(["replay", "no-such-team"]).exits(3);
}

#[test]
fn a_replay_prints_every_event_and_a_frame_of_one_moment() {
    let project = in_the_middle();
    let frame = project.run(["replay", "fix-auth", "--to", "4"]).succeeds();
    assert!(
        frame.stdout.contains("as it was at event 4"),
        "{}",
        frame.stdout
    );
    assert!(frame.stdout.contains("1 of 1 tasks"), "{}", frame.stdout);
    assert_eq!(frame.stdout.lines().count(), 24);
    let all = project
        .run(["replay", "fix-auth", "--speed", "1000000"])
        .succeeds();
    assert_eq!(all.stdout.lines().count() as u64, last(&project));
    project.run(["replay", "fix-auth", "--step"]).exits(2);
    project.run(["replay", "fix-auth", "--speed", "0"]).exits(2);
}

//! Removed teams are restored as they were.

use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{DAY, is_gone, is_there, led_by, listed, registry, scanned, team, touch};
use crate::kit::{TestProject, gone};

#[test]
fn a_reaped_team_comes_back_byte_for_byte_and_stays() {
    let project = TestProject::new();
    team(&project, "old", &registry("old", 0), 3 * DAY);
    team(&project, "over", &led_by("over", &gone()), Duration::ZERO);
    let before = project.read("teams/old/config.json");
    let reaped = project.run(["zombies", "reap", "--json"]).succeeds().json();
    assert_eq!(reaped["zombies"][0]["reaped"], true);
    let trash = reaped["zombies"][0]["trash"].as_str().unwrap();
    assert!(
        std::path::Path::new(trash)
            .join("teams/config.json")
            .exists(),
        "{trash}"
    );
    for name in ["old", "over"] {
        assert!(is_gone(&project, name));
        project.run(["zombies", "restore", name]).succeeds();
        assert!(is_there(&project, name));
    }
    assert_eq!(project.read("teams/old/config.json"), before);
    let left = std::fs::read_dir(project.claude(".teamster-trash")).unwrap();
    assert_eq!(left.count(), 1, "only the lock is left");
    // A restored team is wanted: the next sweep leaves it alone, with or without proof of death.
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_there(&project, "old"));
    assert!(is_there(&project, "over"));
    touch(&project, "old", 3 * DAY);
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "old"), "until it is old again");
}

#[test]
fn the_newest_one_comes_back_and_none_into_a_taken_place() {
    let project = TestProject::new();
    for round in ["first", "second"] {
        let mut config = registry("old", 0);
        config["description"] = json!(round);
        team(&project, "old", &config, 3 * DAY);
        project.run(["zombies", "reap"]).succeeds();
    }
    project.run(["zombies", "restore", "old"]).succeeds();
    assert!(project.read("teams/old/config.json").contains("second"));
    let taken = project.run(["zombies", "restore", "old"]).fails(4);
    assert!(
        taken.stderr.contains("there is a teams/old already"),
        "{}",
        taken.stderr
    );
    std::fs::remove_dir_all(project.claude("teams/old")).unwrap();
    let taken = project.run(["zombies", "restore", "old"]).fails(4);
    assert!(
        taken.stderr.contains("there is a tasks/old already"),
        "{}",
        taken.stderr
    );
    std::fs::remove_dir_all(project.claude("tasks/old")).unwrap();
    project.run(["zombies", "restore", "old"]).succeeds();
    assert!(project.read("teams/old/config.json").contains("first"));
    project.run(["zombies", "restore", "none"]).fails(3);
}

#[test]
fn a_team_that_was_deleted_comes_back_and_can_be_worked_with() {
    let project = TestProject::with_team();
    project.task("Still to do", &[]);
    project.run(["team", "delete", "fix-auth"]).succeeds();
    let json = project
        .run(["zombies", "restore", "fix-auth", "--json"])
        .succeeds()
        .json();
    assert_eq!(json["restored"]["team"], "fix-auth");
    assert_eq!(json["restored"]["tasks"], true);
    let token = project.claim("worker-1", "1");
    project
        .run(["task", "complete", "1", "--token", &token])
        .succeeds();
    let journal = project.run(["journal", "--json"]).succeeds().stdout;
    assert!(journal.contains("team.restored"), "{journal}");
    project.run(["team", "delete", "fix-auth"]).succeeds();
    project.run(["zombies", "restore", "fix-auth"]).succeeds();
    project.run(["task", "show", "1"]).succeeds();
}

#[test]
fn a_dry_run_changes_nothing() {
    let project = TestProject::new();
    team(&project, "old", &registry("old", 0), 3 * DAY);
    let before = project.files();
    let dry = project
        .run(["zombies", "reap", "--dry-run", "--json"])
        .succeeds()
        .json();
    assert_eq!(dry["dryRun"], true);
    assert_eq!(dry["zombies"][0]["action"], "reap");
    assert_eq!(dry["zombies"][0]["reaped"], false);
    listed(&project, "old");
    assert_eq!(project.files(), before);
}

#[test]
fn the_trash_is_emptied_after_seven_days() {
    let project = TestProject::new();
    for (name, days) in [("week", 8), ("yesterday", 1)] {
        let entry = format!(".teamster-trash/20260101T000000000Z-{name}");
        super::put(&project, &format!("{entry}/teams/config.json"), "{}");
        super::put(&project, &format!("{entry}/teams/inboxes/a.json"), "[]");
        std::os::unix::fs::symlink("/", project.claude(&entry).join("teams/root")).unwrap();
        let folder = std::fs::File::open(project.claude(&entry)).unwrap();
        folder.set_modified(SystemTime::now() - days * DAY).unwrap();
    }
    let reaped = project.run(["zombies", "reap", "--json"]).succeeds().json();
    assert_eq!(reaped["purged"], 1);
    project.run(["zombies", "restore", "week"]).fails(3);
    project.run(["zombies", "restore", "yesterday"]).succeeds();
}

#[test]
fn several_reapers_at_once_remove_every_team_once() {
    let project = TestProject::new();
    for number in 0..20 {
        let name = format!("old-{number}");
        team(&project, &name, &registry(&name, 0), 3 * DAY);
    }
    let counts: Vec<usize> = thread::scope(|scope| {
        let reapers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let reaped = project.run(["zombies", "reap", "--json"]).succeeds().json();
                    let list = reaped["zombies"].as_array().unwrap();
                    list.iter()
                        .filter(|zombie| zombie["reaped"] == true)
                        .count()
                })
            })
            .collect();
        reapers
            .into_iter()
            .map(|reaper| reaper.join().unwrap())
            .collect()
    });
    assert_eq!(counts.iter().sum::<usize>(), 20, "{counts:?}");
    for number in 0..20 {
        let name = format!("old-{number}");
        assert!(is_gone(&project, &name));
        assert_eq!(scanned(&project, "team", &name), None);
        project.run(["zombies", "restore", &name]).succeeds();
        assert!(is_there(&project, &name));
    }
}

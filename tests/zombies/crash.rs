//! Killed at any step: a team is complete in its place or complete in the trash.

use std::path::PathBuf;
use std::time::Duration;

use teamster_fs::fail;
use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;
use teamster_gc::zombies::{self, Panes, ReapOptions, ScanOptions, TimeBudget};

use super::{DAY, is_gone, is_there, registry, team};
use crate::kit::{TestProject, now};

fn layout(project: &TestProject) -> Layout {
    Layout {
        claude: project.home().join(".claude"),
        project: project.folder(),
        user_config: project.home().join("none.toml"),
        project_config: project.folder().join("none.toml"),
        database: None,
    }
}

fn scan_options<'a>(layout: &'a Layout, machine: &'a Machine, ttl: Duration) -> ScanOptions<'a> {
    ScanOptions {
        layout,
        machine,
        now: now(),
        ttl,
        panes: Panes::Listed(Vec::new()),
        budget: TimeBudget::unlimited(),
    }
}

/// Returns how often the team is complete in the trash.
fn in_trash(project: &TestProject, name: &str) -> usize {
    let entries = std::fs::read_dir(project.claude(".teamster-trash"));
    let paths: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .map(|e| e.unwrap().path())
        .collect();
    let is_whole = |path: &&PathBuf| {
        let of_team = path.to_string_lossy().ends_with(&format!("-{name}"));
        let parts = ["teams/config.json", "tasks/1.json"].map(|part| path.join(part).exists());
        assert!(
            !of_team || parts[0] == parts[1],
            "{} is half a team",
            path.display()
        );
        of_team && parts[0]
    };
    paths.iter().filter(is_whole).count()
}

#[track_caller]
fn is_whole_once(project: &TestProject, name: &str, steps: u64) {
    let there = is_there(project, name);
    assert_eq!(
        there,
        !is_gone(project, name),
        "half a team after {steps} steps"
    );
    let trashed = in_trash(project, name);
    assert_eq!(usize::from(there) + trashed, 1, "after {steps} steps");
}

#[test]
fn a_reaper_that_is_killed_leaves_every_team_whole() {
    let machine = Machine::read();
    let (mut moved, mut stayed) = (0, 0);
    for steps in 0.. {
        let project = TestProject::new();
        team(&project, "old", &registry("old", 0), 3 * DAY);
        let layout = layout(&project);
        fail::die_after(steps);
        let _ = zombies::reap(
            &scan_options(&layout, &machine, DAY),
            ReapOptions::default(),
        );
        let died = fail::revive();
        // The next call finishes it: here a reaper for which nothing is old.
        let next = scan_options(&layout, &machine, 1000 * DAY);
        zombies::reap(&next, ReapOptions::default()).unwrap();
        is_whole_once(&project, "old", steps);
        if is_there(&project, "old") {
            stayed += 1;
        } else {
            moved += 1;
            zombies::restore(&next, "old").unwrap();
            assert!(is_there(&project, "old"));
        }
        if !died {
            break;
        }
    }
    println!(
        "killed at {} steps: {stayed} times in its place, {moved} times in the trash",
        stayed + moved
    );
    assert!(stayed > 20 && moved > 5, "{stayed} {moved}");
}

#[test]
fn a_restorer_that_is_killed_leaves_every_team_whole() {
    let machine = Machine::read();
    let mut restored = 0;
    for steps in 0.. {
        let project = TestProject::new();
        team(&project, "old", &registry("old", 0), 3 * DAY);
        let layout = layout(&project);
        let options = scan_options(&layout, &machine, DAY);
        zombies::reap(&options, ReapOptions::default()).unwrap();
        assert!(is_gone(&project, "old"));
        fail::die_after(steps);
        let _ = zombies::restore(&options, "old");
        let died = fail::revive();
        zombies::reap(&options, ReapOptions::default()).unwrap();
        is_whole_once(&project, "old", steps);
        restored += u64::from(is_there(&project, "old"));
        if !died {
            break;
        }
    }
    assert!(restored > 0);
}

#[test]
fn a_restorer_of_a_deleted_team_that_is_killed_leaves_it_whole() {
    let machine = Machine::read();
    for steps in 0.. {
        let project = TestProject::with_team();
        project.task("Left", &[]);
        project.run(["team", "delete", "fix-auth"]).succeeds();
        let layout = layout(&project);
        let options = scan_options(&layout, &machine, DAY);
        fail::die_after(steps);
        let _ = zombies::restore(&options, "fix-auth");
        let died = fail::revive();
        zombies::reap(&options, ReapOptions::default()).unwrap();
        is_whole_once(&project, "fix-auth", steps);
        if !is_there(&project, "fix-auth") {
            zombies::restore(&options, "fix-auth").unwrap();
        }
        project
            .run(["task", "claim", "--worker", "worker-1"])
            .succeeds();
        if !died {
            break;
        }
    }
}

#[test]
fn half_a_removal_is_listed_until_it_is_finished() {
    let project = TestProject::new();
    team(&project, "old", &registry("old", 0), 3 * DAY);
    let (layout, machine) = (layout(&project), Machine::read());
    zombies::reap(
        &scan_options(&layout, &machine, DAY),
        ReapOptions::default(),
    )
    .unwrap();
    let entry = std::fs::read_dir(project.claude(".teamster-trash")).unwrap();
    let entry = entry
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    // The state after a process was killed between the two moves.
    std::fs::rename(entry.join("tasks"), project.claude("tasks/old")).unwrap();
    let found = super::listed(&project, "old");
    assert_eq!(
        found["evidence"][0],
        "its removal was started but not finished"
    );
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "old"));
    assert!(entry.join("tasks/1.json").exists());
}

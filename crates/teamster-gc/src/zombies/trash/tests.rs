#![allow(
    clippy::disallowed_methods,
    reason = "tests make and look at files as any other program would"
)]

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;

use super::*;
use crate::zombies::panes::Panes;
use crate::zombies::restore;
use crate::zombies::scanner::{ScanOptions, TimeBudget};
use crate::zombies::verdict::judge;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A Claude folder with the team `old`, removed on drop.
struct Claude(PathBuf);

impl Claude {
    fn new() -> Self {
        let path =
            std::env::temp_dir().join(format!("teamster-trash-{}", teamster_fs::random_hex()));
        for (file, content) in [("teams/old/config.json", "{}"), ("tasks/old/1.json", "{}")] {
            let file = path.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, content).unwrap();
            for path in [file.as_path(), file.parent().unwrap()] {
                age(path);
            }
        }
        Self(path)
    }

    fn layout(&self) -> Layout {
        Layout {
            claude: self.0.clone(),
            project: self.0.join("project"),
            user_config: PathBuf::new(),
            project_config: PathBuf::new(),
            database: None,
        }
    }
}

impl Drop for Claude {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn age(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.set_modified(SystemTime::now() - 3 * DAY).unwrap();
}

fn options<'a>(layout: &'a Layout, machine: &'a Machine) -> ScanOptions<'a> {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    ScanOptions {
        layout,
        machine,
        now: Time::from_millis(i64::try_from(now.as_millis()).unwrap()),
        ttl: DAY,
        panes: Panes::Listed(Vec::new()),
        budget: TimeBudget::unlimited(),
    }
}

/// Judges `old`, runs `meanwhile`, and moves the team.
fn move_after(claude: &Claude, meanwhile: impl FnOnce(&Path)) -> MoveOutcome {
    let (layout, machine) = (claude.layout(), Machine::read());
    let options = options(&layout, &machine);
    let scanner = ZombieScanner::open(&options, None).unwrap().unwrap();
    let judged = judge(&scanner, "old").ok().flatten().unwrap();
    assert_eq!(judged.zombie.action, ZombieAction::Reap, "{judged:?}");
    let (team, seen) = judged.folder.unwrap();
    meanwhile(&claude.0);
    let trash = Trash::open(&scanner, true).unwrap().unwrap();
    trash.put(&scanner, &team, seen, &[]).unwrap()
}

#[test]
fn a_team_that_changed_since_it_was_judged_stays() {
    type Interference = fn(&Path);
    let changes: [Interference; 5] = [
        |root| std::fs::write(root.join("teams/old/config.json"), "{\"a\":1}").unwrap(),
        |root| std::fs::write(root.join("tasks/old/2.json"), "{}").unwrap(),
        |root| std::fs::remove_file(root.join("tasks/old/1.json")).unwrap(),
        // The times are the same, the content is not.
        |root| {
            let file = root.join("tasks/old/1.json");
            let times = std::fs::metadata(&file).unwrap().modified().unwrap();
            std::fs::write(&file, "{ }").unwrap();
            std::fs::File::open(&file)
                .unwrap()
                .set_modified(times)
                .unwrap();
        },
        // Another team took the name.
        |root| {
            std::fs::rename(root.join("teams/old"), root.join("teams/moved")).unwrap();
            std::fs::create_dir(root.join("teams/old")).unwrap();
            std::fs::write(root.join("teams/old/config.json"), "{\"new\":1}").unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let claude = Claude::new();
        let moved = move_after(&claude, change);
        assert!(matches!(moved, MoveOutcome::Changed), "{number}: {moved:?}");
        assert!(claude.0.join("teams/old/config.json").exists(), "{number}");
        assert!(claude.0.join("tasks/old").exists(), "{number}");
        let left = std::fs::read_dir(claude.0.join(layout::TRASH))
            .unwrap()
            .count();
        assert_eq!(left, 1, "{number}: only the lock is left");
    }
    let claude = Claude::new();
    assert!(matches!(
        move_after(&claude, |_| {}),
        MoveOutcome::Trashed(_)
    ));
    assert!(!claude.0.join("teams/old").exists());
    assert!(!claude.0.join("tasks/old").exists());
}

#[test]
fn a_note_that_leads_elsewhere_leads_nowhere() {
    let claude = Claude::new();
    let outside = claude.0.join("outside");
    std::fs::create_dir(&outside).unwrap();
    for (number, team) in ["../outside", "..", "", "a/b", &"x".repeat(300)]
        .iter()
        .enumerate()
    {
        let entry = claude
            .0
            .join(format!("{}/2026010{number}T0Z-planted", layout::TRASH));
        std::fs::create_dir_all(entry.join("teams")).unwrap();
        let note = serde_json::json!({"team": team, "at": "2026-01-01T00:00:00.000Z", "tasks": 1, "evidence": []});
        std::fs::write(entry.join(layout::TRASH_NOTE), note.to_string()).unwrap();
    }
    let (layout, machine) = (claude.layout(), Machine::read());
    let options = options(&layout, &machine);
    for team in ["../outside", "..", "", "a/b"] {
        assert!(restore(&options, team).is_err(), "{team:?}");
    }
    crate::zombies::reap(&options, crate::zombies::ReapOptions::default()).unwrap();
    assert!(outside.exists());
    assert!(
        !claude.0.join("teams/old").exists(),
        "planted notes hide nobody"
    );
}

#[test]
fn entries_are_told_apart_by_their_names() {
    for (entry, team) in [
        ("20260207T120000123Z-fix-auth", Some("fix-auth")),
        ("20260207T120000123Z-fix-auth.2", Some("fix-auth")),
        ("20260207T120000123Z-a.deleted-7ac6", Some("a.deleted-7ac6")),
        ("20260207T120000123Z-", None),
        ("20260207T120000123Z", None),
    ] {
        assert_eq!(team_of(entry).as_deref(), team, "{entry}");
    }
    assert!(order("20260207T1Z-x") < order("20260207T1Z-x.2"));
    assert!(order("20260207T1Z-x.2") < order("20260207T1Z-x.10"));
    assert!(order("20260207T1Z-x.10") < order("20260208T1Z-a"));
}

//! The sweep at the start and the end of a session: quick, careful, without sending signals.

use std::time::{Duration, Instant};

use serde_json::json;
use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;
use teamster_gc::zombies::{clean_up_at_session_end, sweep_at_session_start};

use super::{DAY, HOUR, LEAD_SESSION, is_gone, is_there, led_by, put, registry, team};
use crate::kit::{TestProject, gone, living, now};

const TIME: Duration = Duration::from_secs(5);

fn layout(project: &TestProject) -> Layout {
    Layout {
        claude: project.home().join(".claude"),
        project: project.folder(),
        user_config: project.home().join("none.toml"),
        project_config: project.folder().join("none.toml"),
        database: None,
    }
}

#[test]
fn a_sweep_moves_what_is_over_and_leaves_panes_alone() {
    let project = TestProject::new();
    let machine = Machine::read();
    team(&project, "old", &registry("old", 0), 3 * DAY);
    team(&project, "over", &led_by("over", &gone()), HOUR);
    team(&project, "led", &led_by("led", &living()), 3 * DAY);
    team(&project, "young", &registry("young", 0), HOUR);
    put(&project, "teams/broken/config.json", "{");
    let mut paned = led_by("paned", &gone());
    paned["members"][1]["tmuxPaneId"] = json!("%77");
    paned["createdAt"] = json!(1);
    team(&project, "paned", &paned, 3 * DAY);
    let swept = sweep_at_session_start(&layout(&project), &machine, now(), TIME).unwrap();
    assert_eq!(swept.moved, ["old", "over"]);
    assert!(swept.complete);
    for name in ["led", "young", "paned"] {
        assert!(is_there(&project, name), "{name}");
    }
    assert!(is_gone(&project, "old"));
    let again = sweep_at_session_start(&layout(&project), &machine, now(), TIME).unwrap();
    assert!(again.moved.is_empty());
}

#[test]
fn a_sweep_keeps_within_its_time_and_goes_on_the_next_time() {
    let project = TestProject::new();
    let machine = Machine::read();
    for number in 0..50 {
        let name = format!("old-{number}");
        team(&project, &name, &registry(&name, 0), 3 * DAY);
    }
    let none = sweep_at_session_start(&layout(&project), &machine, now(), Duration::ZERO).unwrap();
    assert!(!none.complete);
    assert!(none.moved.is_empty());
    let mut moved = 0;
    while moved < 50 {
        let time = Duration::from_millis(20);
        moved += sweep_at_session_start(&layout(&project), &machine, now(), time)
            .unwrap()
            .moved
            .len();
    }
    assert!((0..50).all(|number| is_gone(&project, &format!("old-{number}"))));
}

#[test]
fn a_hundred_teams_are_looked_at_in_a_moment() {
    let project = TestProject::new();
    let machine = Machine::read();
    for number in 0..100 {
        let name = format!("led-{number}");
        let mut config = led_by(&name, &living());
        config["createdAt"] = json!(super::millis(3 * DAY));
        team(&project, &name, &config, 3 * DAY);
    }
    let looked = Instant::now();
    let swept = sweep_at_session_start(&layout(&project), &machine, now(), TIME).unwrap();
    let looked = looked.elapsed();
    assert!(swept.complete && swept.moved.is_empty());
    for number in 0..100 {
        let name = format!("led-{number}");
        team(&project, &name, &registry(&name, 0), 3 * DAY);
    }
    let moved = Instant::now();
    let swept = sweep_at_session_start(&layout(&project), &machine, now(), TIME).unwrap();
    let moved = moved.elapsed();
    assert_eq!(swept.moved.len(), 100);
    println!("100 old teams: {looked:?} when all live, {moved:?} when all go");
    // The limits allow for debug builds on a busy machine; the measured time is printed.
    assert!(looked < Duration::from_secs(1) && moved < Duration::from_secs(2));
}

#[test]
fn a_thousand_teams_are_scanned_quickly() {
    let project = TestProject::new();
    for number in 0..1000 {
        let name = format!("young-{number}");
        let config = registry(&name, super::millis(HOUR));
        put(
            &project,
            &format!("teams/{name}/config.json"),
            &config.to_string(),
        );
    }
    let start = Instant::now();
    let found = project.run(["zombies", "scan", "--json"]).succeeds().json();
    println!("scan of 1,000 teams: {:?}", start.elapsed());
    assert_eq!(found["zombies"], json!([]));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_end_of_a_lead_ends_its_team_and_no_other() {
    let project = TestProject::new();
    let machine = Machine::read();
    let end = |session: &str| {
        clean_up_at_session_end(&layout(&project), &machine, now(), TIME, session)
            .unwrap()
            .moved
    };
    team(&project, "led", &led_by("led", &living()), Duration::ZERO);
    let mut other = led_by("other", &living());
    other["leadSessionId"] = json!("e");
    team(&project, "other", &other, Duration::ZERO);
    team(&project, "old", &registry("old", 0), 3 * DAY);
    for nobody in ["", "7be1f0c4", "7"] {
        assert!(end(nobody).is_empty(), "{nobody}");
    }
    let mut paned = led_by("paned", &living());
    paned["members"][1]["tmuxPaneId"] = json!("%77");
    team(&project, "paned", &paned, Duration::ZERO);
    assert_eq!(end(LEAD_SESSION), ["led"]);
    assert!(is_there(&project, "paned"), "nobody asked for its pane");
    assert!(is_there(&project, "other"));
    assert!(
        is_there(&project, "old"),
        "that is for the start of a session"
    );
}

//! `createdAt` in every form.

use std::time::Duration;

use serde_json::{Value, json};
use teamster_types::Time;

use super::{
    DAY, HOUR, evidence, is_gone, is_there, listed, millis, registry, scanned, team, touch,
};
use crate::kit::TestProject;

fn iso(ago: Duration, zone: &str) -> Value {
    let text = Time::from_millis(millis(ago)).to_string();
    json!(text.replace('Z', zone))
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn each_shape_is_kept_or_reaped_by_its_age() {
    let seconds = |ago| millis(ago) / 1000;
    let old = 3 * DAY;
    // The value, whether a team without a change for three days is kept, whether it is reported as odd.
    let table: Vec<(&str, Value, bool, bool)> = vec![
        ("now-ms", json!(millis(Duration::ZERO)), true, false),
        ("old-ms", json!(millis(old)), false, false),
        (
            "old-float",
            json_of(&format!("{}.5", millis(old))),
            false,
            false,
        ),
        ("ms-1e12", json!(1_000_000_000_000_i64), false, false),
        ("now-seconds", json!(seconds(Duration::ZERO)), true, false),
        ("old-seconds", json!(seconds(old)), false, false),
        ("now-iso", iso(Duration::ZERO, "Z"), true, false),
        ("old-iso", iso(old, "Z"), false, false),
        ("old-iso-offset", iso(old, "+02:00"), false, false),
        ("now-iso-without-zone", iso(HOUR, ""), true, false),
        ("old-iso-without-zone", iso(old, ""), false, false),
        (
            "now-digits",
            json!(millis(Duration::ZERO).to_string()),
            true,
            false,
        ),
        ("old-digits", json!(millis(old).to_string()), false, false),
        (
            "old-digits-seconds",
            json!(seconds(old).to_string()),
            false,
            false,
        ),
        ("zero", json!(0), false, true),
        ("negative", json!(-5), false, true),
        ("empty", json!(""), false, true),
        ("null", Value::Null, false, true),
        ("list", json!([]), false, true),
        ("object", json!({"ms": 1}), false, true),
        ("words", json!("yesterday"), false, true),
        (
            "to-come",
            json!(millis(Duration::ZERO) + 1_000_000),
            false,
            true,
        ),
        ("1e300", json_of("1e300"), false, true),
        ("1e400", json_of("1e400"), false, true),
    ];
    let project = TestProject::new();
    for (name, value, _, _) in &table {
        team(&project, name, &registry(name, value.clone()), old);
    }
    for (name, value, kept, odd) in &table {
        let found = scanned(&project, "team", name);
        assert_eq!(found.is_none(), *kept, "{name}: {value}");
        if let Some(found) = found {
            assert_eq!(found["action"], "reap", "{name}");
            assert!(
                found["age"].as_u64().unwrap() >= 2 * 86_400,
                "{name}: {found}"
            );
            assert_eq!(
                evidence(&found).contains("createdAt is"),
                *odd,
                "{name}: {found}"
            );
        }
    }
    project.run(["zombies", "reap"]).succeeds();
    for (name, value, kept, _) in &table {
        assert_eq!(is_there(&project, name), *kept, "{name}: {value}");
        assert_eq!(is_gone(&project, name), !kept, "{name}: {value}");
    }
}

#[test]
fn a_change_in_either_folder_counts_as_much_as_the_registry() {
    let project = TestProject::new();
    for name in ["registry", "tasks", "inbox", "removed"] {
        team(&project, name, &registry(name, 0), 3 * DAY);
    }
    let fresh = |path: &str| std::fs::write(project.claude(path), "[]").unwrap();
    fresh("tasks/tasks/2.json");
    std::fs::create_dir(project.claude("teams/inbox/inboxes")).unwrap();
    fresh("teams/inbox/inboxes/team-lead.json");
    touch(&project, "registry", HOUR);
    std::fs::remove_file(project.claude("tasks/removed/1.json")).unwrap();
    for name in ["registry", "tasks", "inbox", "removed"] {
        assert_eq!(scanned(&project, "team", name), None, "{name}");
    }
    let early = project
        .run(["zombies", "reap", "--ttl", "30m", "--json"])
        .succeeds();
    let early = early.json();
    assert_eq!(early["zombies"].as_array().unwrap().len(), 1, "{early}");
    assert_eq!(early["zombies"][0]["name"], "registry");
}

#[test]
fn a_clock_that_was_set_back_makes_nothing_old() {
    let project = TestProject::new();
    team(
        &project,
        "later",
        &registry("later", millis(Duration::ZERO) + 86_400_000),
        3 * DAY,
    );
    let ahead = std::time::SystemTime::now() + DAY;
    std::fs::File::open(project.claude("teams/later/config.json"))
        .unwrap()
        .set_modified(ahead)
        .unwrap();
    assert_eq!(scanned(&project, "team", "later"), None);
    project.run(["zombies", "reap", "--ttl", "1ms"]).succeeds();
    assert!(is_there(&project, "later"));
}

#[test]
fn a_folder_without_registry_is_as_old_as_its_files() {
    let project = TestProject::new();
    for (name, ago) in [("young", HOUR), ("ghost", 3 * DAY)] {
        super::put(
            &project,
            &format!("teams/{name}/inboxes/worker-1.json"),
            "[]",
        );
        touch(&project, name, ago);
    }
    assert_eq!(scanned(&project, "team", "young"), None);
    assert_eq!(listed(&project, "ghost")["action"], "reap");
    project.run(["zombies", "reap"]).succeeds();
    assert!(is_gone(&project, "ghost"));
    assert!(!is_gone(&project, "young"));
}

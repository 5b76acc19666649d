//! Many installations at once, and one that dies half-way.

use std::process::{Command, Stdio};

use serde_json::Value;
use teamster_claude::install::{InstallRequest, Scope, install, uninstall};
use teamster_fs::fail;
use teamster_fs::layout::Layout;

use super::{EVENTS, backups, commands, names, program, with_settings};
use crate::kit::{TestProject, now};

const SETTINGS: &str = "{\n  \"model\": \"opus\"\n}\n";

#[test]
fn of_many_installs_at_once_one_is_left() {
    let project = with_settings(SETTINGS);
    let calls = |word: &str| {
        let children: Vec<_> = (0..8)
            .map(|_| {
                Command::new(program())
                    .args([word, "claude"])
                    .current_dir(project.folder())
                    .env("HOME", project.home())
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
    };
    calls("install");
    let settings: Value = serde_json::from_str(&project.read("settings.json")).unwrap();
    for event in EVENTS {
        assert_eq!(commands(&settings, event).len(), 1, "{event}");
    }
    assert_eq!(backups(&project.claude("")).len(), 1);
    calls("uninstall");
    assert_eq!(project.read("settings.json"), SETTINGS);
    assert_eq!(names(&project.claude("")), ["settings.json"]);
}

fn layout(project: &TestProject) -> Layout {
    Layout {
        claude: project.claude(""),
        project: project.folder(),
        user_config: project.home().join("config.toml"),
        project_config: project.folder().join(".teamster/config.toml"),
        database: None,
    }
}

/// Kills the installation before each of its file operations in turn.
#[test]
fn one_that_dies_leaves_the_old_settings_or_the_new() {
    let whole = with_settings(SETTINGS);
    let run = |project: &TestProject, is_install: bool| {
        let layout = layout(project);
        let request = InstallRequest {
            layout: &layout,
            scope: Scope::User,
            program: "/opt/teamster",
            light: false,
            dry_run: false,
            now: now(),
        };
        if is_install {
            install(&request)
        } else {
            uninstall(&request)
        }
    };
    run(&whole, true).unwrap();
    let installed = whole.read("settings.json");

    for is_install in [true, false] {
        let mut deaths = 0;
        for steps in 0.. {
            let project = with_settings(SETTINGS);
            if !is_install {
                run(&project, true).unwrap();
            }
            fail::die_after(steps);
            let outcome = run(&project, is_install);
            let died = fail::revive();
            let left = project.read("settings.json");
            assert!(left == SETTINGS || left == installed, "{steps}: {left}");
            if !died {
                outcome.unwrap();
                break;
            }
            deaths += 1;
            run(&project, is_install).unwrap();
            let (expected, files) = if is_install {
                (installed.as_str(), 2)
            } else {
                (SETTINGS, 1)
            };
            assert_eq!(project.read("settings.json"), expected, "{steps}");
            let names = names(&project.claude(""));
            assert_eq!(names.len(), files, "{steps}: {names:?}");
        }
        assert!(deaths > 5, "only {deaths} places to die at");
    }
}

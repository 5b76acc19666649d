//! The trace of Studio: its location, its content, and what it must not contain.

use std::path::PathBuf;

use super::{Studio, wait_for};
use crate::kit::TestProject;

fn log(project: &TestProject) -> PathBuf {
    project.home().join(".config/teamster/studio.log")
}

fn start(project: &TestProject, filter: &str) -> Studio {
    let printed = project.home().join("studio.out");
    let file = std::fs::File::create(&printed).unwrap();
    let call = project.call(["studio", "--json", "--port", "0"]);
    let child = call.env("TEAMSTER_LOG", filter).spawn_into(file);
    Studio::of(child, printed)
}

#[test]
fn trace_of_studio_lies_beside_its_settings_and_tells_what_was_refused() {
    let project = TestProject::with_team();
    let studio = start(&project, "debug");
    assert_eq!(studio.get("/api/v1/teams/nobody").status, 404);
    let told = wait_for("the refusal", || {
        let text = std::fs::read_to_string(log(&project)).unwrap_or_default();
        text.contains("kind=\"not_found\"").then_some(text)
    });
    let port = format!("answers on port {}", studio.port);
    assert!(told.contains(&port), "{told}");
    for key in [&studio.token, &studio.bearer] {
        assert!(!told.contains(key.as_str()), "{told}");
    }

    let report = project.run(["doctor", "--json"]).succeeds().stdout;
    assert!(report.contains(".config/teamster/studio.log"), "{report}");
}

#[test]
fn trace_of_studio_is_off_when_asked() {
    let project = TestProject::with_team();
    let studio = start(&project, "off");
    assert_eq!(studio.get("/api/v1/teams/nobody").status, 404);
    drop(studio);
    assert!(!log(&project).exists());
}

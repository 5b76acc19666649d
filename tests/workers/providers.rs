//! Providers that a user or a project has named.

use serde_json::{Value, json};

use super::Crew;

fn user_settings(crew: &Crew, text: &str) {
    let folder = crew.project.home().join(".config/teamster");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
}

fn member(crew: &Crew, name: &str) -> Value {
    let team = crew
        .project
        .run(["team", "show", "crew", "--json"])
        .succeeds()
        .json();
    let text = crew.project.read("teams/crew/config.json");
    let config: Value = serde_json::from_str(&text).unwrap();
    let members = config["members"].as_array().unwrap().clone();
    let found = members.into_iter().find(|member| member["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is no member: {team}"))
}

#[test]
fn a_provider_of_the_user_does_the_work_and_its_capabilities_route_it() {
    let crew = Crew::new();
    user_settings(
        &crew,
        "[providers.checks]\nkind = \"command\"\ncommand = \"echo $TEAMSTER_WORKER > by.txt; echo checked\"\n\
         capabilities = [\"testing\"]\n[providers.prose]\nkind = \"command\"\ncommand = \"echo written\"\n\
         capabilities = [\"documentation\"]\n",
    );
    let started = crew.start_provider("tess", "checks", &[], &[]).succeeds();
    assert_eq!(started.json()["provider"], "checks");
    crew.start_provider("ward", "prose", &[], &[]).succeeds();
    assert_eq!(member(&crew, "tess")["capabilities"], json!(["testing"]));
    assert_eq!(member(&crew, "tess")["provider"], "checks");
    let id = crew.project.task("test it", &["--capability", "testing"]);
    let task = crew.until_status(&id, "completed");
    assert_eq!(task["owner"], "tess");
    assert_eq!(task["metadata"]["teamster"]["result"]["summary"], "checked");
    let route = crew
        .project
        .task("document it", &["--capability", "documentation"]);
    assert_eq!(crew.until_status(&route, "completed")["owner"], "ward");
    assert_eq!(crew.heartbeat("tess").unwrap()["provider"], "checks");
    // A value that is no longer in the settings is no longer in the registry either.
    crew.project.run(["worker", "stop", "tess"]).exits(0);
    user_settings(
        &crew,
        "[providers.checks]\nkind = \"command\"\ncommand = \"echo ok\"\n",
    );
    crew.start_provider("tess", "checks", &[], &[]).succeeds();
    assert_eq!(member(&crew, "tess").get("capabilities"), None);
}

#[test]
fn a_provider_is_defined_where_it_is_used_and_survives_a_restart() {
    let crew = Crew::new();
    let started = crew
        .start_provider("ann", "mine=command:A=1; echo did $A", &[], &[])
        .succeeds();
    assert_eq!(started.json()["provider"], "mine");
    assert_eq!(member(&crew, "ann")["provider"], "mine");
    assert_eq!(crew.heartbeat("ann").unwrap()["provider"], "mine");
    let summary = |id: &str| {
        let task = crew.until_status(id, "completed");
        task["metadata"]["teamster"]["result"]["summary"].clone()
    };
    assert_eq!(summary(&crew.task("one")), "did 1");
    crew.project.run(["worker", "restart", "ann"]).exits(0);
    assert_eq!(summary(&crew.task("two")), "did 1");
    for (wrong, part) in [
        ("mine=cloud", "cloud"),
        ("a b=command:x", "not a valid name"),
        ("mine=command:", "argument"),
    ] {
        let refused = crew.start_provider("ben", wrong, &[], &[]).fails(2);
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
}

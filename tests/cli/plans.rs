//! Importing a plan makes all of it or nothing.

use serde_json::json;

use crate::kit::TestProject;

const PLAN: &str = r#"
verify = ["cargo test"]

[[tasks]]
id = "form"
subject = "Fix the login form"
paths = ["src/login/**"]

[[tasks]]
id = "test"
subject = "Test the login form"
blockedBy = ["form"]
owner = "worker-2"
capabilities = ["testing"]
verify = ["cargo test login"]
"#;

#[test]
fn labels_become_ids_in_the_order_of_the_plan() {
    let project = TestProject::with_team();
    project.task("before", &[]);
    project.write("plan.toml", PLAN);
    let made = project
        .run(["task", "import", "plan.toml", "--json"])
        .succeeds()
        .json();
    assert_eq!(made["ids"], json!({ "form": "2", "test": "3" }));
    assert_eq!(made["tasks"][0]["blocks"], json!(["3"]));
    assert_eq!(made["tasks"][1]["blockedBy"], json!(["2"]));
    assert_eq!(made["tasks"][1]["owner"], "worker-2");
    assert_eq!(
        made["tasks"][1]["metadata"]["teamster"]["verify"],
        json!(["cargo test login"])
    );
    insta::assert_snapshot!(project.run(["task", "import", "plan.toml"]).succeeds().shown(), @r"
    ID  LABEL  SUBJECT
    4   form   Fix the login form
    5   test   Test the login form
    ");
}

#[test]
fn a_plan_can_come_through_a_pipe() {
    let project = TestProject::with_team();
    project.write("plan.txt", r#"{"tasks":[{"id":"a","subject":"A"}]}"#);
    project
        .shell("teamster task import - < plan.txt")
        .run()
        .succeeds();
}

#[test]
fn a_plan_with_a_mistake_makes_nothing() {
    let project = TestProject::with_team();
    let task = |rest: &str| format!("[[tasks]]\nid = 'a'\nsubject = 'A'\n{rest}");
    let long = format!("description = '{}'", "x".repeat(10_001));
    for (plan, named) in [
        (task("blockedBy = ['ghost']"), "\"ghost\""),
        (
            task("blockedBy = ['b']\n[[tasks]]\nid = 'b'\nsubject = 'B'\nblockedBy = ['a']"),
            "a waits for b waits for a",
        ),
        (task("owner = '../x'"), "\"a\" has a bad `owner`"),
        (
            task("[[tasks]]\nid = 'a'\nsubject = 'B'"),
            "two tasks have the id \"a\"",
        ),
        (task("blocked_by = []"), "unknown key `blocked_by`"),
        (
            task(&long),
            "task \"a\": the description has 10001 characters",
        ),
        (String::new(), "no tasks"),
        ("tasks = []".to_owned(), "no tasks"),
        ("tasks = ".to_owned(), "not valid TOML: line 1"),
    ] {
        project.write("plan.toml", &plan);
        let ran = project.run(["task", "import", "plan.toml"]).fails(6);
        assert!(ran.stderr.contains(named), "{plan}\n{}", ran.stderr);
    }
    project.write("plan.yaml", "tasks:\n  - id: a\n    subject: A\n");
    let yaml = project.run(["task", "import", "plan.yaml"]).fails(6);
    insta::assert_snapshot!(yaml.shown(), @r"
    error: plan.yaml: plans in YAML are not read yet; write it as TOML or JSON
    hint: `teamster task import --help` shows what a plan looks like; nothing was made
    ");
    assert_eq!(
        project.run(["task", "list", "--json"]).json()["tasks"],
        json!([])
    );
    let journal = project.run(["journal", "--json"]).json();
    assert_eq!(
        journal["events"].as_array().unwrap().len(),
        1,
        "only the team was made"
    );
}

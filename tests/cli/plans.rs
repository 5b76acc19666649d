//! Importing a plan creates all of it or nothing.

use serde_json::{Value, json};

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
        ("tasks = ".to_owned(), "plan.toml:1: not valid TOML"),
    ] {
        project.write("plan.toml", &plan);
        let ran = project.run(["task", "import", "plan.toml"]).fails(6);
        assert!(ran.stderr.contains(named), "{plan}\n{}", ran.stderr);
    }
    project.write("plan.yaml", "tasks:\n  - id: a\n    subjct: A\n");
    let yaml = project.run(["task", "import", "plan.yaml"]).fails(6);
    insta::assert_snapshot!(yaml.shown(), @r#"
    error: plan.yaml:2: task "a" has no `subject` (and 1 more)
    hint: nothing was created; `teamster plan check plan.yaml` shows all mistakes
    "#);
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

#[test]
fn checking_a_plan_shows_it_and_makes_nothing() {
    let project = TestProject::new();
    project.write("plan.toml", PLAN);
    let ran = project.run(["plan", "check", "plan.toml"]).succeeds();
    insta::assert_snapshot!(ran.shown(), @r"
    LABEL  WAITS FOR  OWNER     SUBJECT
    form                        Fix the login form
    test   form       worker-2  Test the login form

    2 tasks, no mistakes
    ");
    let json = project
        .run(["plan", "check", "plan.toml", "--json"])
        .succeeds()
        .json();
    assert_eq!(json["ok"], true);
    assert_eq!(json["file"], "plan.toml");
    assert_eq!(json["faults"], json!([]));
    assert_eq!(json["verify"], json!(["cargo test"]));
    assert_eq!(json["tasks"][1]["id"], "test");
    assert_eq!(json["tasks"][1]["line"], 9);
    assert_eq!(json["tasks"][1]["blockedBy"], json!(["form"]));
    assert_eq!(json["tasks"][1]["owner"], "worker-2");
    assert_eq!(json["tasks"][0]["paths"], json!(["src/login/**"]));
}

#[test]
fn checking_a_plan_names_every_mistake_by_file_and_line() {
    let project = TestProject::new();
    project.write(
        "plan.yaml",
        "tasks:\n- id: a\n  subjct: A\n- id: b\n  subject: B\n  blockedBy: [c]\n  owner: all\n",
    );
    let ran = project.run(["plan", "check", "plan.yaml"]).exits(6);
    insta::assert_snapshot!(ran.shown(), @r#"
    plan.yaml:2: task "a" has no `subject`
    plan.yaml:3: task "a" has the unknown key `subjct`; known are id, subject, description, activeForm, blockedBy, owner, role, capabilities, paths, accept, verify
    plan.yaml:6: task "b" is blocked by "c", which is not in the plan
    plan.yaml:7: task "b" has a bad `owner`: `all` is reserved and cannot be the name of a worker
    error: plan.yaml has 4 mistakes
    hint: `teamster plan check --help` describes the format of a plan
    "#);
    let ran = project
        .run(["plan", "check", "plan.yaml", "--json"])
        .exits(6);
    let said: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(said["ok"], false);
    let lines: Vec<u64> = said["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| fault["line"].as_u64().unwrap())
        .collect();
    assert_eq!(lines, [2, 3, 6, 7]);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "refused");
    assert_eq!(error["error"]["message"], "plan.yaml has 4 mistakes");
    project.run(["plan", "check", "nowhere.toml"]).fails(3);
    // A plan may contain control characters, which must not reach the terminal.
    project.write("evil.json", "{\"\\u001b[2Jtasks\":[]}");
    let ran = project.run(["plan", "check", "evil.json"]).exits(6);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'));
}

fn document(name: &str) -> String {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::read_to_string(docs.join(name)).unwrap()
}

#[test]
fn the_published_schema_is_the_one_that_plans_are_read_by() {
    assert_eq!(
        document("plan.schema.json"),
        teamster_run::plan::schema_text(),
        "`cargo xtask docs` writes it anew"
    );
}

#[test]
fn the_plans_in_the_documentation_are_plans_and_say_the_same() {
    let text = document("plan.md");
    let project = TestProject::with_team();
    let mut seen = Vec::new();
    for format in ["toml", "yaml", "json"] {
        let fence = format!("```{format}\n");
        let (_, rest) = text.split_once(&fence).unwrap();
        let (plan, _) = rest.split_once("```").unwrap();
        let file = format!("plan.{format}");
        project.write(&file, plan);
        let mut said = project
            .run(["plan", "check", &file, "--json"])
            .succeeds()
            .json();
        for task in said["tasks"].as_array_mut().unwrap() {
            task["line"] = json!(null);
        }
        seen.push((said["tasks"].clone(), said["verify"].clone()));
        project.run(["task", "import", &file]).succeeds();
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    assert_eq!(seen[0].0.as_array().unwrap().len(), 3);
    // Every key of a plan is documented.
    let schema = teamster_run::plan::schema();
    let task = &schema["properties"]["tasks"]["items"]["properties"];
    for key in task.as_object().unwrap().keys() {
        assert!(text.contains(&format!("| `{key}` |")), "{key}");
    }
    // The documented mistakes are those that are reported.
    let (_, rest) = text.split_once("```text\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let (_, wrong) = text.split_once("```toml\n# wrong.toml\n").unwrap();
    let (wrong, _) = wrong.split_once("```").unwrap();
    project.write("wrong.toml", &format!("# wrong.toml\n{wrong}"));
    let ran = project.run(["plan", "check", "wrong.toml"]).exits(6);
    assert_eq!(ran.stdout, shown);
}

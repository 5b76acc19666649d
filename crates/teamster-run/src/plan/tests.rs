use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

fn faults(file: &str, text: &str) -> String {
    Plan::parse(Path::new(file), text.as_bytes())
        .unwrap_err()
        .to_string()
}

#[test]
fn a_plan_is_read_from_all_three_formats_alike() {
    let toml = "[[tasks]]\nid = 'a'\nsubject = 'A'\n[[tasks]]\nid = 'b'\nsubject = 'B'\nblockedBy = ['a']\n";
    let yaml = "tasks:\n  - id: a\n    subject: A\n  - id: b\n    subject: B\n    blockedBy: [a]\n";
    let json = r#"{"tasks":[{"id":1,"subject":"A"},{"id":2,"subject":"B","blockedBy":[1]}]}"#;
    for (file, text) in [
        ("p.toml", toml),
        ("p.yaml", yaml),
        ("p.json", json),
        ("p.yml", json),
        ("p", toml),
        ("-", yaml),
        ("-", json),
    ] {
        let plan = Plan::parse(Path::new(file), text.as_bytes()).unwrap();
        assert_eq!(plan.labels.len(), 2, "{file}");
        assert_eq!(plan.tasks[0].task.subject, "A", "{file}");
        assert_eq!(plan.tasks[1].after, [0], "{file}");
    }
}

#[test]
fn everything_that_is_wrong_is_named_at_once_with_its_line() {
    let plan = format!(
        r#"
verify = ["cargo test", ""]
verfiy = "x"

[[tasks]]
id = "a"
subject = "A"
blockedBy = [
  "b",
  "ghost",
]

[[tasks]]
id = "b"
blocked_by = ["a"]
owner = "../x"
paths = "src"

[[tasks]]
subject = "  "
paths = ["src/[a"]
description = '''
{}'''

[[tasks]]
id = "a"
subject = 7
"#,
        "x".repeat(10_001)
    );
    insta::assert_snapshot!(faults("plan.toml", &plan), @r#"
    plan.toml:2: the plan has an empty text in `verify`
    plan.toml:3: the plan has the unknown key `verfiy`; known are analysis, questions, assumptions, risks, tasks, verify, must_pass
    plan.toml:10: task "a" is blocked by "ghost", which is not in the plan
    plan.toml:13: task "b" has no `subject`
    plan.toml:15: task "b" has the unknown key `blocked_by`; known are id, subject, description, activeForm, blockedBy, owner, role, capabilities, paths, accept, verify
    plan.toml:16: task "b" has a bad `owner`: "../x" is not a worker name: use 1 to 64 of A-Z, a-z, 0-9, `_` and `-`, starting with a letter or digit
    plan.toml:17: task "b" has a `paths` that is a text, not a list
    plan.toml:19: task 3 of the list has no `id`
    plan.toml:20: task 3 of the list: the subject is empty
    plan.toml:21: task 3 of the list: "src/[a" is not a pattern for paths: a `[` is not closed within one name
    plan.toml:22: task 3 of the list: the description has 10001 characters; the limit is 10000
    plan.toml:25: two tasks have the id "a"; the first is in line 5
    plan.toml:27: task "a" has a `subject` that is a number, not a text
    "#);
    let yaml = "tasks:\n- id: a\n  subject: A\n  blockedBy:\n  - b\n- id: b\n  subject: B\n  blockedBy: [a]\n";
    insta::assert_snapshot!(faults("plan.yaml", yaml), @r"
    plan.yaml:5: the plan has a cycle: a waits for b waits for a
    ");
    let mut said = String::new();
    for text in [
        "{}",
        "[]",
        r#"{"tasks":[]}"#,
        r#"{"tasks":{"id":"a"}}"#,
        r#"{"tasks":["a"]}"#,
        "{\n\"tasks\": [{\"id\": \"a\", \"subject\": \"A\",\n\"blockedBy\": [\"a\"]}]}",
        "{",
        "{\"tasks\":\n[{\"id\":true,\"subject\":\"A\"}]}",
    ] {
        let _ = writeln!(said, "{}", faults("plan.json", text));
    }
    insta::assert_snapshot!(said, @r"
    plan.json:1: the plan has no tasks
    plan.json:1: the plan is a list, not a table of keys and values
    plan.json:1: the plan has no tasks
    plan.json:1: the plan has a `tasks` that is a table of keys and values, not a list
    plan.json:1: task 1 of the list is a text, not a table of keys and values
    plan.json:3: the plan has a cycle: a waits for a
    plan.json:1: not valid JSON: EOF while parsing an object
    plan.json:2: task 1 of the list has a `id` that is true or false, not a text
    ");
}

#[test]
fn a_thousand_tasks_and_korean_texts_are_a_plan() {
    let mut text = String::from("tasks:\n");
    for number in 0..1000 {
        let _ = write!(
            text,
            "- id: 작업-{number}\n  subject: 로그인 폼 {number} 고치기\n"
        );
        if number > 0 {
            let _ = writeln!(text, "  blockedBy: [작업-{}]", number - 1);
        }
    }
    let plan = Plan::parse(Path::new("plan.yaml"), text.as_bytes()).unwrap();
    assert_eq!(plan.labels[999], "작업-999");
    assert_eq!(plan.tasks[999].after, [998]);
    assert_eq!(plan.lines[1], 4);
}

#[test]
fn a_sentence_is_one_task_for_whoever_takes_it() {
    let plan = Plan::from_sentence(" fix the form and test it\nall of it ").unwrap();
    let [task] = plan.tasks.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(task.task.subject, "fix the form and test it");
    assert_eq!(task.task.description, "fix the form and test it\nall of it");
    assert_eq!(task.task.owner, None);
    let long = "가".repeat(SUBJECT_LIMIT + 1);
    let plan = Plan::from_sentence(&long).unwrap();
    assert_eq!(plan.tasks[0].task.subject.chars().count(), SUBJECT_LIMIT);
    assert!(plan.tasks[0].task.subject.ends_with('…'));
    for sentence in ["", " \n ", &"x".repeat(10_001)] {
        assert!(Plan::from_sentence(sentence).is_err());
    }
}

#[test]
fn a_sentence_is_given_whole_to_each_worker_who_was_named() {
    let workers: Vec<WorkerName> = ["worker-1", "worker-2"]
        .map(|name| name.parse().unwrap())
        .into();
    let plan = Plan::for_each("fix the form and test it", &workers).unwrap();
    assert_eq!(plan.tasks.len(), 2);
    for (task, worker) in plan.tasks.iter().zip(&workers) {
        assert_eq!(task.task.subject, "fix the form and test it");
        assert_eq!(task.task.owner.as_ref(), Some(worker));
        assert!(task.after.is_empty());
    }
    assert!(Plan::for_each("go", &[]).is_err());
}

/// Returns whether a value matches a part of the schema, for the keywords that we use.
fn fits(value: &Json, schema: &Json) -> bool {
    let is = |word: &str| match word {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("the schema uses {other}"),
    };
    let types = match &schema["type"] {
        Json::Array(list) => list.iter().any(|word| is(word.as_str().unwrap())),
        word => is(word.as_str().unwrap()),
    };
    if !types {
        return false;
    }
    let text = value.as_str();
    let pattern = match (schema["pattern"].as_str(), text) {
        (Some("\\S"), Some(text)) => !text.trim().is_empty(),
        (Some(_), Some(text)) => text.parse::<WorkerName>().is_ok(),
        _ => true,
    };
    let length = match (schema["maxLength"].as_u64(), text) {
        (Some(most), Some(text)) => text.chars().count() as u64 <= most,
        _ => true,
    };
    let items = value.as_array().is_none_or(|list| {
        list.len() as u64 >= schema["minItems"].as_u64().unwrap_or(0)
            && list.iter().all(|item| fits(item, &schema["items"]))
    });
    let inner = value.as_object().is_none_or(|map| {
        let needed = schema["required"].as_array().unwrap();
        needed
            .iter()
            .all(|key| map.contains_key(key.as_str().unwrap()))
            && map.iter().all(|(key, value)| {
                schema["properties"]
                    .get(key)
                    .is_some_and(|part| fits(value, part))
            })
    });
    pattern && length && items && inner
}

/// Generates one task, right or wrong in any of its keys.
fn tasks() -> impl Strategy<Value = Json> {
    let value = prop_oneof![
        Just(Json::Null),
        Just(json!("worker-1")),
        Just(json!("")),
        Just(json!(" ")),
        Just(json!("x".repeat(501))),
        Just(json!(3)),
        Just(json!(true)),
        Just(json!([])),
        Just(json!(["src/**"])),
        Just(json!([1])),
        Just(json!([""])),
        Just(json!({})),
    ];
    let schema = schema();
    let known = schema["properties"]["tasks"]["items"]["properties"].as_object();
    let keys = proptest::sample::select(
        known
            .unwrap()
            .keys()
            .map(String::as_str)
            .filter(|key| *key != "id" && *key != "blockedBy")
            .chain(["blocked_by"])
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    );
    proptest::collection::btree_map(keys, value, 0..3).prop_map(|changed| {
        let mut task = json!({ "id": "a", "subject": "A" });
        for (key, value) in changed {
            task[key] = value;
        }
        task
    })
}

proptest! {
    #[test]
    fn the_schema_and_the_reader_agree(task in tasks()) {
        let plan = json!({ "tasks": [task] });
        let read = Plan::parse(Path::new("p.json"), plan.to_string().as_bytes());
        // Null stands for a missing key; a required key may not be null.
        prop_assert_eq!(read.is_ok(), fits(&plan, &schema()), "{} {:?}", plan, read);
    }

    #[test]
    fn a_plan_is_read_exactly_when_nobody_waits_for_himself(edges in proptest::collection::vec((0_usize..6, 0_usize..6), 0..9)) {
        let tasks: Vec<Json> = (0..6)
            .map(|place| {
                let after: Vec<String> = edges.iter().filter(|edge| edge.0 == place).map(|edge| edge.1.to_string()).collect();
                json!({ "id": place, "subject": "A", "blockedBy": after })
            })
            .collect();
        let text = json!({ "tasks": tasks }).to_string();
        // Remove tasks without remaining dependencies step by step; a cycle would be left over.
        let mut left: Vec<usize> = (0..6).collect();
        loop {
            let before = left.len();
            let waits = |place: &usize, left: &[usize]| edges.iter().any(|edge| edge.0 == *place && left.contains(&edge.1));
            let still: Vec<usize> = left.iter().copied().filter(|place| waits(place, &left)).collect();
            left = still;
            if left.len() == before { break; }
        }
        let read = Plan::parse(Path::new("p.json"), text.as_bytes());
        prop_assert_eq!(read.is_ok(), left.is_empty(), "{}", text);
        if let Err(faults) = read {
            prop_assert!(faults.list[0].message.contains("cycle"));
        }
    }
}

/// Generates a text that may be in a list of a plan.
fn sentence() -> impl Strategy<Value = String> {
    "[a-z가-힣\"'\\\\#\n ]{0,20}[a-z]"
}

fn sentences() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(sentence(), 0..4)
}

fn drafts() -> impl Strategy<Value = PlanDraft> {
    let task = (
        sentence(),
        sentence(),
        sentences(),
        sentences(),
        prop::option::of("[a-z]{1,8}"),
    );
    let tasks = prop::collection::vec((task, any::<prop::sample::Index>(), any::<bool>()), 1..6);
    (
        tasks,
        sentences(),
        sentences(),
        sentences(),
        sentences(),
        sentence(),
    )
        .prop_map(
            |(tasks, questions, assumptions, risks, must_pass, analysis)| PlanDraft {
                analysis,
                questions,
                assumptions,
                risks,
                verify: Vec::new(),
                must_pass,
                tasks: tasks
                    .into_iter()
                    .enumerate()
                    .map(
                        |(
                            place,
                            ((subject, description, capabilities, accept, role), other, waits),
                        )| {
                            let blocked_by =
                                (waits && place > 0).then(|| format!("t{}", other.index(place)));
                            PlanDraftTask {
                                id: format!("t{place}"),
                                subject: subject.replace('\n', " "),
                                description,
                                blocked_by: blocked_by.into_iter().collect(),
                                role,
                                capabilities,
                                accept,
                                ..PlanDraftTask::default()
                            }
                        },
                    )
                    .collect(),
            },
        )
}

proptest! {
    #[test]
    fn plan_that_is_written_down_is_read_again(draft in drafts()) {
        let plan = Plan::from_draft(&draft).unwrap();
        prop_assert_eq!(plan.draft(), draft.clone());
        let toml = toml::to_string_pretty(&draft).unwrap();
        prop_assert_eq!(Plan::parse(Path::new("p.toml"), toml.as_bytes()).unwrap().draft(), draft);
    }
}

#[test]
fn written_plan_has_the_keys_of_the_schema() {
    let list = || vec!["x".to_owned()];
    let full = PlanDraft {
        analysis: "x".to_owned(),
        questions: list(),
        assumptions: list(),
        risks: list(),
        verify: list(),
        must_pass: list(),
        tasks: vec![PlanDraftTask {
            id: "x".to_owned(),
            subject: "x".to_owned(),
            description: "x".to_owned(),
            active_form: Some("x".to_owned()),
            blocked_by: list(),
            owner: Some("x".to_owned()),
            role: Some("x".to_owned()),
            capabilities: list(),
            paths: list(),
            accept: list(),
            verify: list(),
        }],
    };
    let keys = |value: &Json| -> Vec<String> {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let (written, schema) = (json!(full), schema());
    assert_eq!(keys(&written), keys(&schema["properties"]));
    let task = &schema["properties"]["tasks"]["items"]["properties"];
    assert_eq!(keys(&written["tasks"][0]), keys(task));
}

#[test]
fn limits_of_lists_and_texts_are_faults_by_line() {
    let long = "x".repeat(1_001);
    let many = |count: usize| vec!["'x'"; count].join(", ");
    let plan = format!(
        "analysis = '{}'\nquestions = [{}]\nrisks = ['{long}']\nassumptions = [{}]\n[[tasks]]\nid = 'a'\nsubject = 'A'\n\
         role = 'no role'\naccept = [{}]\n",
        "x".repeat(20_001),
        many(11),
        many(51),
        many(21)
    );
    insta::assert_snapshot!(faults("plan.toml", &plan), @r#"
    plan.toml:1: `analysis` has 20001 characters; the limit is 20000
    plan.toml:2: the plan has 11 texts in `questions`; the limit is 10
    plan.toml:3: the plan has a text of 1001 characters in `risks`; the limit is 1000
    plan.toml:4: the plan has 51 texts in `assumptions`; the limit is 50
    plan.toml:8: "no role" is not a valid role: use 1 to 64 of A-Z, a-z, 0-9, `-` and `_`, beginning with a letter
    plan.toml:9: task "a" has 21 texts in `accept`; the limit is 20
    "#);
}

#[test]
fn role_sends_a_task_to_the_members_who_have_it() {
    let text = "[[tasks]]\nid = 'a'\nsubject = 'A'\nrole = 'Tester'\n[[tasks]]\nid = 'b'\nsubject = 'B'\nrole = 'executor'\n";
    let mut plan = Plan::parse(Path::new("p.toml"), text.as_bytes()).unwrap();
    let members = [
        crate::cast::example("ann", Some("executor"), &["general"]),
        crate::cast::example("ben", Some("executor"), &["general"]),
        crate::cast::example("eve", Some("tester"), &["general"]),
    ];
    assert!(crate::cast::misfits(&plan, &members).is_empty());
    plan.assign_roles(&members);
    let tasks = &plan.tasks;
    assert_eq!(
        tasks[0].task.owner.as_ref().map(WorkerName::as_str),
        Some("eve")
    );
    assert_eq!(
        (&tasks[1].task.owner, &tasks[1].task.capabilities),
        (&None, &vec!["role:executor".to_owned()])
    );
}

//! Presets with their own plan: the assignment of tasks, the prompts, and what is refused before anything begins.

use std::fs;

use serde_json::{Value, json};
use teamster_testkit::RunCmd;

use super::{MARK, Shop};

/// Makes a shop whose user has a script for every role. Each task writes a file with its number, and has a handover.
fn shop_with_roles() -> Shop {
    let shop = Shop::new();
    let root = shop.aside().display().to_string();
    let agent = format!(
        "cat > {root}/prompt-$TEAMSTER_TASK_ID\n\
         echo $TEAMSTER_TASK_SUBJECT > task-$TEAMSTER_TASK_ID.txt\n\
         printf '%s\\n' '```teamster' \"{{\\\"status\\\":\\\"done\\\",\\\"summary\\\":\\\"did $TEAMSTER_TASK_ID\\\",\
         \\\"handover\\\":\\\"handed over by $TEAMSTER_TASK_ID\\\"}}\" '```'\n"
    );
    fs::write(shop.aside().join("agent.sh"), agent).unwrap();
    let settings = shop.project.home().join(".config/teamster");
    fs::create_dir_all(&settings).unwrap();
    let role = |name: &str| format!("{name} = \"command:sh {root}/agent.sh\"\n");
    let roles: String = ["executor", "tester", "reviewer", "designer"]
        .map(role)
        .concat();
    fs::write(settings.join("config.toml"), format!("[roles]\n{roles}")).unwrap();
    shop
}

fn preview(shop: &Shop, words: &[&str]) -> Value {
    let args = ["run", "--dry-run", "--json", "--team", "shop"];
    shop.run(args.iter().chain(words)).succeeds().json()
}

/// Returns the tasks of a preview as `id: first worker, after …`.
fn graph(shown: &Value) -> Vec<String> {
    let tasks = shown["tasks"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    tasks
        .iter()
        .map(|task| {
            let after: Vec<String> = task["blockedBy"]
                .as_array()
                .unwrap()
                .iter()
                .map(text)
                .collect();
            let owner = text(&task["owner"]);
            format!("{} {owner} [{}]", text(&task["id"]), after.join(" "))
        })
        .collect()
}

#[test]
fn plan_of_a_preset_is_shown_before_anything_begins() {
    let shop = shop_with_roles();
    let shown = preview(&shop, &["fix all type errors"]);
    assert_eq!(shown["preset"], "bugfix");
    assert_eq!(shown["plan"], "the preset bugfix");
    assert_eq!(
        graph(&shown),
        [
            "reproduce fixer []",
            "fix fixer [reproduce]",
            "test tester [fix]",
            "review reviewer [test]",
        ]
    );
    assert_eq!(shown["tasks"][1]["subject"], "Fix: fix all type errors");
    let prompt = shown["tasks"][2]["prompt"].as_str().unwrap();
    for part in ["fix all type errors", "A test fails without the fix"] {
        assert!(prompt.contains(part), "{part} is not in\n{prompt}");
    }
    assert!(!prompt.contains("{task}"), "{prompt}");
    // Two workers of the same role share its tasks.
    let shown = preview(
        &shop,
        &["--preset", "dev-backend", "--leader", "engine", "x"],
    );
    assert_eq!(
        graph(&shown),
        [
            "interface - []",
            "logic - [interface]",
            "edge - [interface]",
            "test tester [logic edge]",
        ]
    );
    let text = shop
        .run(["run", "--dry-run", "--team", "shop", "에러가 났어"])
        .succeeds()
        .stdout;
    assert!(
        text.contains("plan: 4 tasks, from the preset bugfix; flow: staged"),
        "{text}"
    );
}

#[test]
fn run_of_a_preset_hands_over_from_role_to_role() {
    let shop = shop_with_roles();
    let args = ["run", "the parser has a bug", "--team", "shop"];
    let more = ["--approve", "never", "--verify", "true", "--review", "off"];
    shop.run(args.iter().chain(&more)).exits(0);
    let tasks = shop.tasks();
    let owners: Vec<&str> = tasks
        .iter()
        .map(|task| task["owner"].as_str().unwrap())
        .collect();
    assert_eq!(owners, ["fixer", "fixer", "tester", "reviewer"]);
    let plan = shop.events_of("run.plan");
    assert_eq!(plan[0]["data"]["source"], "preset");
    for (task, parts) in [
        (2, ["handed over by 1", "the parser has a bug"]),
        (3, ["handed over by 2", "the parser has a bug"]),
        (4, ["handed over by 3", "the parser has a bug"]),
    ] {
        let prompt = fs::read_to_string(shop.aside().join(format!("prompt-{task}"))).unwrap();
        for part in parts {
            assert!(prompt.contains(part), "{part} is not in\n{prompt}");
        }
    }
    let commit = shop.asked();
    let files = shop.git(&["diff", "--name-only", "main", &commit]);
    assert_eq!(files, "task-1.txt\ntask-2.txt\ntask-3.txt\ntask-4.txt");
    shop.is_quiet();
}

#[test]
fn crew_without_a_role_of_the_plan_is_refused_before_the_run_begins() {
    let shop = shop_with_roles();
    let root = shop.aside().display().to_string();
    let run = |crew: &str| {
        let args = RunCmd::new("shop", crew, "a bug")
            .provider(&format!("w=command:sh {root}/agent.sh"))
            .more(&["--preset", "bugfix", "--approve", "never"]);
        shop.call(args).run()
    };
    let refused = run("1:w:fixer,1:w").fails(6);
    for part in [
        "the plan of the team bugfix has tasks for reviewer and tester, and no member of 1:w:fixer,1:w has that role",
        "1:claude:reviewer",
    ] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    assert!(shop.events().is_empty(), "no team was made");
    run("1:w:fixer,1:w:tester,1:w:reviewer").exits(0);
    assert_eq!(shop.tasks().len(), 4);
    shop.is_quiet();
}

#[test]
fn preset_says_which_flow_a_run_follows_unless_the_command_does() {
    let shop = shop_with_roles();
    let teams = shop.project.home().join(".config/teamster/teams");
    fs::create_dir_all(&teams).unwrap();
    fs::write(
        teams.join("wheel.md"),
        "---\nname: wheel\nmembers: [{ name: ann, agent: executor }]\nflow: pdca\n---\n",
    )
    .unwrap();
    let flow = |more: &[&str]| {
        let words: Vec<&str> = ["--preset", "wheel", "go"]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        preview(&shop, &words)["flow"].clone()
    };
    assert_eq!(flow(&[]), "pdca");
    assert_eq!(flow(&["--flow", "party"]), "party");
    assert_eq!(preview(&shop, &["a bug"])["flow"], "staged");
}

/// The call of a session that leads: it brings its own plan, and there is no other planner.
#[test]
fn session_that_leads_brings_its_tasks_along() {
    let shop = shop_with_roles();
    let call = |arguments: Value| {
        let requests = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" } } }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                "name": "run_start", "arguments": arguments } }),
        ];
        let lines: Vec<String> = requests.iter().map(Value::to_string).collect();
        fs::write(shop.aside().join("requests"), lines.join("\n") + "\n").unwrap();
        // The input stays open until the reply arrives, like that of a client.
        let root = shop.aside().display().to_string();
        let line = format!(
            ": > {root}/answers; {{ cat {root}/requests; i=0; until grep -q '\"id\":2' {root}/answers || test $i -gt 1200; do sleep 0.05; i=$((i + 1)); done; }} | \
             {} mcp > {root}/answers; cat {root}/answers",
            env!("CARGO_BIN_EXE_teamster")
        );
        let ran = shop.project.shell(&line).env(MARK, &shop.mark).run();
        let answer = ran.stdout.lines().find_map(|line| {
            let answer: Value = serde_json::from_str(line).ok()?;
            (answer["id"] == 2).then_some(answer)
        });
        answer.unwrap_or_else(|| panic!("{}{}", ran.stdout, ran.stderr))
    };
    let refused = call(
        json!({ "task": "mend it", "agents": "2:executor", "team": "shop",
        "tasks": [{ "id": "a", "subject": "A", "verify": ["rm -rf /"] }] }),
    );
    assert!(refused.to_string().contains("verify"), "{refused}");
    let refused = call(
        json!({ "task": "mend it", "agents": "2:executor", "team": "shop",
        "tasks": [{ "id": "a", "subject": "A", "blockedBy": ["b"] }] }),
    );
    assert!(refused.to_string().contains("not in the plan"), "{refused}");
    assert!(shop.events().is_empty(), "no team was made");

    let started = call(
        json!({ "task": "mend it", "agents": "2:executor", "team": "shop", "tasks": [
        { "id": "a", "subject": "Write A", "accept": ["A is there."] },
        { "id": "b", "subject": "Write B", "blockedBy": ["a"] },
    ] }),
    );
    assert!(started.to_string().contains("shop"), "{started}");
    shop.gate();
    let subjects: Vec<Value> = shop
        .tasks()
        .iter()
        .map(|task| task["subject"].clone())
        .collect();
    assert_eq!(subjects, ["Write A", "Write B"]);
    assert_eq!(shop.events_of("run.plan")[0]["data"]["source"], "session");
    assert!(shop.events_of("run.asked").is_empty(), "nobody else plans");
    let commit = shop.asked();
    shop.run(["reject", "--team", "shop", "--commit", &commit])
        .exits(0);
    shop.until("the end of the host", || shop.alive().is_empty());
}

#[test]
fn request_chooses_its_preset_by_any_form_of_a_keyword_in_both_languages() {
    let shop = shop_with_roles();
    for (request, preset) in [
        ("fix all TypeScript errors", json!("bugfix")),
        ("fixing bugs in the parser", json!("bugfix")),
        ("document our public APIs", json!("dev-backend")),
        ("two components of the UIs", json!("dev-frontend")),
        ("automate the deployment", json!("devops")),
        ("결제 장애 대응", json!("bugfix")),
        ("report on terrorism", Value::Null),
    ] {
        assert_eq!(preview(&shop, &[request])["preset"], preset, "{request}");
    }
}

#[test]
fn what_agents_say_is_in_the_findings_at_the_gate_and_in_the_report() {
    let shop = shop_with_roles();
    let agent = shop.aside().join("agent.sh");
    let says = "echo $TEAMSTER_TASK_SUBJECT > task.txt\n\
                printf '%s\\n' '```teamster' '{\"status\":\"done\",\"summary\":\"the cause is a lost comma\",\
                \"problems\":[\"the tests take an hour\"]}' '```'\n";
    fs::write(&agent, says).unwrap();
    let args = RunCmd::new("shop", "1:executor", "look into it")
        .approve("never")
        .verify("true");
    let ran = shop
        .run(args.more(&["--leader", "engine", "--review", "off"]))
        .exits(0);
    let findings: String = fs::read_dir(shop.folder().join(".party/findings"))
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let commit = shop.asked();
    shop.run(["reject", "--team", "shop", "--commit", &commit])
        .exits(10);
    for words in ["the cause is a lost comma", "the tests take an hour"] {
        for (place, text) in [("the gate", &ran.stdout), ("the report", &shop.report())] {
            assert!(text.contains(words), "{words} is not in {place}:\n{text}");
        }
    }
    let cause = "the cause is a lost comma";
    assert!(findings.contains(cause), "{findings}");
}

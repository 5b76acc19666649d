//! Mistakes of the first version on the page and on the terminal.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use teamster_testkit::RunCmd;
use teamster_types::phrase::PhraseCode;

use super::{Studio, wait_for};
use crate::kit::{TestProject, gone, now};
use crate::run::Shop;

/// Asserts that sentences have codes beside them, and returns the codes.
fn codes(texts: &Value, codes: &Value) -> Vec<String> {
    let texts = texts.as_array().unwrap();
    let codes = codes.as_array().unwrap();
    assert_eq!(texts.len(), codes.len(), "{texts:?} {codes:?}");
    codes.iter().map(code).collect()
}

fn code(key: &Value) -> String {
    let known: Vec<Value> = PhraseCode::ALL.iter().map(|code| json!(code)).collect();
    assert!(known.contains(&key["code"]), "{key}");
    key["code"].as_str().unwrap().to_owned()
}

#[test]
fn evidence_problems_and_reasons_have_codes_and_parameters_beside_the_english_text() {
    let project = TestProject::with_team();
    project.task("First", &[]);
    project.task("Second", &["--blocked-by", "1"]);
    project.beat("worker-1", Duration::from_secs(90), &gone(), &json!({}));
    let studio = Studio::start(&project);
    let view = studio.json("/api/v1/teams/fix-auth");
    let workers = view["workers"].as_array().unwrap();
    for worker in workers {
        codes(&worker["evidence"], &worker["evidenceCodes"]);
    }
    let dead = workers.iter().find(|worker| worker["name"] == "worker-1");
    let dead = dead.unwrap();
    assert_eq!(
        codes(&dead["evidence"], &dead["evidenceCodes"]),
        ["heartbeat-old", "pid-gone"]
    );
    assert_eq!(
        dead["evidenceCodes"][1]["params"]["pid"],
        gone().pid.to_string()
    );
    let problem = &view["problems"][0];
    assert_eq!(problem["about"], "worker-1");
    let said: Vec<String> = problem["codes"]
        .as_array()
        .unwrap()
        .iter()
        .map(code)
        .collect();
    assert_eq!(said, ["worker-verdict", "heartbeat-old", "pid-gone"]);
    assert_eq!(problem["codes"][0]["params"]["verdict"], "dead");
    let reasons: Vec<String> = view["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| code(&task["reasonCodes"][0]))
        .collect();
    assert_eq!(reasons, ["free", "waits-for"]);
    assert_eq!(view["tasks"][1]["reasonCodes"][0]["params"]["tasks"], "1");
}

#[test]
fn what_is_left_behind_is_told_by_codes_beside_the_english_text() {
    let project = TestProject::with_team();
    // A dead worker, a team of Claude Code that is long over, and a folder that is not a team.
    project.beat("worker-1", Duration::from_secs(90), &gone(), &json!({}));
    let registry = |name: &str, config: &str| {
        let file = project.claude(&format!("teams/{name}/config.json"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, config).unwrap();
    };
    let lead = json!({"pid": gone().pid, "claimedAt": 1, "procStart": gone().process_start_time.to_string(),
        "pidSpace": format!("{}#{}", gone().host, gone().pid_ns)});
    let over = json!({"name": "over", "createdAt": 1, "leadAgentId": "team-lead@over", "leadSessionId": "s1",
        "leadProcess": lead, "members": [{"agentId": "team-lead@over", "name": "team-lead"}]});
    registry("over", &over.to_string());
    registry("torn", "{\"name\":");
    let studio = Studio::start(&project);
    let found = studio.json("/api/v1/zombies");
    let found = found["zombies"].as_array().unwrap();
    let mut said = std::collections::BTreeMap::new();
    for zombie in found {
        let codes = codes(&zombie["evidence"], &zombie["evidenceCodes"]);
        assert!(!codes.contains(&"verbatim".to_owned()), "{zombie}");
        said.insert(zombie["name"].as_str().unwrap(), codes);
    }
    assert_eq!(said["worker-1"], ["heartbeat-pid-gone"], "{said:?}");
    assert_eq!(
        said["over"],
        ["lead-process-gone", "others-stopped"],
        "{said:?}"
    );
    assert_eq!(said["torn"], ["registry-unreadable"], "{said:?}");
}

/// A completed task, one that fails permanently, and one that waits for it; the checks pass, fail and have always
/// failed.
const GATE_PLAN: &str = r#"
verify = ["test -e never.txt"]

[[tasks]]
id = "news"
subject = "Write news"

[[tasks]]
id = "never"
subject = "Do what cannot be done"

[[tasks]]
id = "after"
subject = "Go on from there"
blockedBy = ["never"]
"#;

const GATE_SCRIPT: &str = r#"
[[step]]
task = "news"
do = "run"
command = "git -C ROOT/../project branch aside"
[[step]]
task = "news"
do = "edit"
path = "news.txt"
content = "one\n"

[[step]]
task = "never"
do = "run"
command = "git init --quiet sub && git -C sub -c user.name=n -c user.email=e commit --quiet --allow-empty --message Sub"
"#;

/// The keys of teamster's sentences, one text or a list of them, each with the key of their codes.
const SENTENCES: [(&str, &str); 8] = [
    ("verification", "verificationCodes"),
    ("words", "wordsCodes"),
    ("refused", "refusedCodes"),
    ("why", "whyCodes"),
    ("reason", "reasonCodes"),
    ("references", "referenceCodes"),
    ("untaken", "untakenCodes"),
    ("evidence", "evidenceCodes"),
];

/// Asserts that every sentence of teamster in a part of a view has its codes beside it, and collects them.
fn collect_codes(part: &Value, said: &mut Vec<String>) {
    for inner in part.as_array().into_iter().flatten() {
        collect_codes(inner, said);
    }
    let Some(object) = part.as_object() else {
        return;
    };
    for (text, keys) in SENTENCES {
        match &part[text] {
            Value::String(words) if !words.is_empty() => {
                let found = part[keys].as_array();
                let found = found.filter(|found| !found.is_empty());
                let found = found.unwrap_or_else(|| panic!("{words:?} has no code: {part}"));
                said.extend(found.iter().map(code));
            }
            texts @ Value::Array(all) if !all.is_empty() => {
                said.extend(codes(texts, &part[keys]));
            }
            _ => {}
        }
    }
    // Parameters of a sentence are not sentences of teamster: an error of git, the name of a task.
    for (_, inner) in object.iter().filter(|(key, _)| !is_key_of_codes(key)) {
        collect_codes(inner, said);
    }
}

fn is_key_of_codes(key: &str) -> bool {
    key.ends_with("Codes")
}

/// Removes the codes from an event, as in a journal of an older version.
fn without_codes(part: &mut Value) {
    match part {
        Value::Object(object) => {
            object.retain(|key, _| !is_key_of_codes(key));
            object.values_mut().for_each(without_codes);
        }
        Value::Array(list) => list.iter_mut().for_each(without_codes),
        _ => {}
    }
}

#[test]
fn every_sentence_of_ours_at_a_gate_has_a_code() {
    let shop = Shop::new();
    // Uncommitted, and the work overwrites it.
    shop.project.write("news.txt", "my own news\n");
    let args = RunCmd::new("shop", "2:w", "write news")
        .provider(&shop.script(GATE_SCRIPT))
        .plan(&shop.plan(GATE_PLAN))
        .verify("true")
        .approve("never");
    shop.run(args.more(&["--review", "require"]));
    shop.run(&["approve", "--team", "shop", "--commit", &shop.asked()])
        .exits(4);
    let studio = Studio::start(&shop.project);
    let of = |view: &Value| {
        let mut said = Vec::new();
        for part in ["approval", "reviews", "run", "wakes"] {
            collect_codes(&view[part], &mut said);
        }
        said
    };
    let view = studio.json("/api/v1/teams/shop");
    let said = of(&view);
    for expected in [
        // The gate: whether it is verified, what failed, the state of the branches, why it did not land.
        "part-of-checks-verified",
        "count-failed-before",
        "count-passed",
        "gate-not-verified",
        "check-failed-before",
        "task-waits-for",
        "branch-new",
        "branch-not-changed",
        // The review, and the stages.
        "no-reviewer",
        "run-begins",
        "plan-is-made",
        "some-tasks-done",
        "no-check-broken",
    ] {
        assert!(said.contains(&expected.to_owned()), "{expected}: {said:?}");
    }
    // Only the error of a task is passed on verbatim.
    let verbatim = said.iter().filter(|code| *code == "verbatim").count();
    assert_eq!(verbatim, 1, "{said:?}");
    let gate = &view["approval"];
    assert_eq!(gate["refusedCodes"][0]["params"]["branch"], "main");
    let codes = view["problems"][0]["codes"].as_array().unwrap();
    let waits: Vec<String> = codes.iter().map(code).collect();
    assert_eq!(waits, ["gate-not-verified", "waits-for-decision"]);
    // A moment of the past has them too, and so has the end.
    let seq = view["seq"].as_u64().unwrap();
    let past = studio.json(&format!("/api/v1/teams/shop?at={seq}"));
    assert_eq!(of(&past), said);
    shop.run(&["reject", "--team", "shop", "--commit", &shop.asked()]);
    // Studio hears of the decision by a notice of the file system.
    let view = wait_for("the page to show the end", || {
        let view = studio.json("/api/v1/teams/shop");
        (!view["run"]["finished"].is_null()).then_some(view)
    });
    assert_eq!(
        code(&view["run"]["finished"]["reasonCodes"][0]),
        "person-rejected"
    );
    let by = &view["approval"]["answer"]["byCodes"][0];
    assert_eq!(code(by), "by-person-at-terminal");
}

#[test]
fn sentences_of_an_older_journal_have_no_codes_and_are_told_as_they_are() {
    let shop = Shop::new();
    let args = RunCmd::new("shop", "1:w", "write news")
        .provider(
            &shop.script("[[step]]\ndo = \"edit\"\npath = \"news.txt\"\ncontent = \"one\\n\"\n"),
        )
        .verify("true")
        .approve("never");
    shop.run(&args);
    let journal = shop.project.claude("teams/shop/events.jsonl");
    let lines = std::fs::read_to_string(&journal).unwrap();
    let older: Vec<String> = lines
        .lines()
        .map(|line| {
            let mut event: Value = serde_json::from_str(line).unwrap();
            without_codes(&mut event);
            event.to_string()
        })
        .collect();
    let older = older.join("\n") + "\n";
    assert_ne!(lines, older);
    std::fs::write(&journal, older).unwrap();
    let studio = Studio::start(&shop.project);
    let view = studio.json("/api/v1/teams/shop");
    assert_eq!(view["approval"]["words"], "verified: every check passed");
    assert_eq!(view["approval"]["wordsCodes"], json!([]));
    let shown = &view["approval"]["shown"];
    assert_eq!(shown["verification"], "Verified: 1 check passed.");
    assert_eq!(shown["verificationCodes"], Value::Null);
    assert_eq!(view["run"]["stages"][0]["reason"], "the run begins");
    assert_eq!(view["run"]["stages"][0]["reasonCodes"], json!([]));
}

#[test]
fn every_code_has_a_korean_text() {
    let file =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/words/phrases.ko.ts");
    let text = std::fs::read_to_string(file).unwrap();
    let missing: Vec<String> = PhraseCode::ALL
        .iter()
        .map(|code| json!(code).as_str().unwrap().to_owned())
        .filter(|code| {
            !text.contains(&format!("  \"{code}\": \"")) && !text.contains(&format!("  {code}: \""))
        })
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn top_once_is_as_wide_and_as_high_as_the_environment_says() {
    let project = TestProject::with_team();
    project.task(
        "A task with a subject that is too long for a narrow screen",
        &[],
    );
    let frame = |columns: &str, lines: &str| {
        let call = project.call(["top", "--once"]);
        let ran = call.env("COLUMNS", columns).env("LINES", lines).run();
        ran.succeeds().stdout
    };
    for (columns, lines) in [(40, 24), (120, 30), (200, 50)] {
        let frame = frame(&columns.to_string(), &lines.to_string());
        let widest = frame.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(columns), "{columns}: {frame}");
        assert!(frame.lines().count() <= lines, "{lines}: {frame}");
        assert_eq!(
            frame.contains("that is too long for a narrow screen"),
            columns > 120,
            "{frame}"
        );
    }
    for nonsense in ["0", "-5", "wide", ""] {
        let widest = frame(nonsense, nonsense)
            .lines()
            .map(|line| line.chars().count())
            .max();
        assert!(widest <= Some(80), "{nonsense}");
    }
}

#[test]
fn team_of_a_hundred_thousand_agents_sends_bounded_data_and_says_how_many_there_are() {
    let project = TestProject::new();
    let at = now();
    let agent = |number: u32| {
        let status = if number == 99_999 { "working" } else { "idle" };
        json!({ "name": format!("agent-{number}"), "role": "tester", "model": "opus", "status": status,
            "currentTask": (number == 99_999).then_some("The last one works"), "taskId": null, "startedAt": at, "lastActivityAt": at })
    };
    let teammates: Vec<Value> = (0..100_000).map(agent).collect();
    let state = json!({
        "version": "1.0", "enabled": true, "teamName": "crowd", "feature": "login", "pdcaPhase": "do",
        "orchestrationPattern": "swarm", "ctoAgent": "opus", "startedAt": at, "lastUpdated": at, "teammates": teammates,
        "progress": { "totalTasks": 1, "completedTasks": 0, "inProgressTasks": 1, "failedTasks": 0, "pendingTasks": 0 },
        "recentMessages": [], "sessionId": "s-1",
    });
    project.write(".bkit/agent-state.json", &state.to_string());
    let studio = Studio::start(&project);
    let row = wait_for("the team", || {
        let teams = studio.json("/api/v1/teams")["teams"].clone();
        teams
            .as_array()?
            .iter()
            .find(|row| row["name"] == "crowd")
            .cloned()
    });
    assert_eq!(row["members"], 100_000);
    let answer = studio.get(&format!("/api/v1/teams/{}", row["id"].as_str().unwrap()));
    assert!(answer.body.len() < 2_000_000, "{} bytes", answer.body.len());
    let view = answer.json();
    assert_eq!(view["workerCount"], 100_000);
    let shown = view["workers"].as_array().unwrap();
    assert_eq!(shown.len(), 1_000);
    assert_eq!(shown[0]["name"], "agent-99999", "whoever works comes first");
    let names: BTreeSet<&str> = shown
        .iter()
        .filter_map(|worker| worker["name"].as_str())
        .collect();
    assert_eq!(names.len(), 1_000);
}

#[test]
fn damaged_lines_of_the_journal_are_a_problem_of_the_team_everywhere() {
    let project = TestProject::with_team();
    project.task("First", &[]);
    let studio = Studio::start(&project);
    let request = studio.request("GET", "/api/v1/events?team=fix-auth");
    let mut events = request.bearer(&studio.bearer).listen();
    let damaged = |view: &Value| {
        let problems = view["problems"].as_array().cloned().unwrap_or_default();
        let found = problems
            .into_iter()
            .find(|problem| problem["kind"] == "damaged");
        found.filter(|problem| {
            problem["about"]
                .as_str()
                .unwrap()
                .starts_with("events.jsonl")
        })
    };
    assert_eq!(damaged(&events.next_of("view").data), None);
    let path = project.home().join(".claude/teams/fix-auth/events.jsonl");
    let mut journal = std::fs::File::options().append(true).open(&path).unwrap();
    journal.write_all(b"{\"seq\": 4, \"torn\n\0\0\0\n").unwrap();
    project.task("Second", &[]);
    // An open page is notified.
    let told = loop {
        if let Some(told) = damaged(&events.next_of("patch").data) {
            break told;
        }
    };
    assert_eq!(told["codes"][0]["code"], "journal-lines-damaged");
    assert_eq!(told["codes"][0]["params"]["count"], "2");
    assert!(damaged(&studio.json("/api/v1/teams/fix-auth")).is_some());
    let status = project.run(["status", "--json"]).succeeds().json();
    assert!(damaged(&status["teams"][0]).is_some(), "{status}");
    let text = project.run(["status"]).succeeds().stdout;
    assert!(text.contains("2 lines cannot be parsed"), "{text}");
    let top = project.run(["top", "--once", "--json"]).succeeds().json();
    assert!(damaged(&top["teams"][0]).is_some(), "{top}");
    let frame = project.call(["top", "--once"]).env("COLUMNS", "160").run();
    let frame = frame.succeeds().stdout;
    assert!(frame.contains("2 lines cannot be parsed"), "{frame}");
}

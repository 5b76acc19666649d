//! A person decides about an agent's permission requests. The agent plays the recorded dialogue of a real client: it
//! prints what the client printed, and waits where the client waited.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;

use super::Crew;
use crate::agents::one;

/// The client's program: the recorded lines up to its request, an answer, and the recorded rest.
const PROGRAM: &str = r#"#!/bin/sh
here=$(dirname "$0")
read -r prompt
cat "$here/before.jsonl"
# Words of others may come before the answer.
while read -r answer; do
    case $answer in *'"control_response"'*) break ;; esac
done
printf '%s\n' "$answer" >> "$here/answers"
printf '%s' "$CLAUDE_CONFIG_DIR" > "$here/folder"
case $answer in *'"behavior":"allow"'*) echo hello > hello.txt ;; esac
cat "$here/after.jsonl"
cat > /dev/null
"#;

/// Makes the folder with the program; returns it with the id of its request.
pub fn client(crew: &Crew) -> (PathBuf, String) {
    client_in(&crew.project.home())
}

/// Makes the same below a given folder.
pub fn client_in(home: &std::path::Path) -> (PathBuf, String) {
    client_of(home, "bidi")
}

/// Makes the same with any recording in which the client asks something.
pub fn client_of(home: &std::path::Path, recording: &str) -> (PathBuf, String) {
    let folder = home.join("client");
    std::fs::create_dir_all(&folder).unwrap();
    let recording = one("claude", recording);
    let lines: Vec<Value> = recording
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .skip_while(|line: &Value| line["subtype"] != "init")
        .collect();
    let asks = |line: &Value| line["type"] == "control_request";
    let request = lines.iter().position(asks).unwrap();
    let result = lines.iter().position(|line| line["type"] == "result");
    let text = |lines: &[Value]| {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        lines.join("\n") + "\n"
    };
    std::fs::write(folder.join("before.jsonl"), text(&lines[..=request])).unwrap();
    // The client's echo of the answer is not part of its own lines.
    let is_echo = |line: &&Value| line["type"] == "control_response";
    let rest: Vec<Value> = lines[request + 1..=result.unwrap()]
        .iter()
        .filter(|line| !is_echo(line))
        .cloned()
        .collect();
    let rest = &rest[..];
    std::fs::write(folder.join("after.jsonl"), text(rest)).unwrap();
    let program = folder.join("claude");
    std::fs::write(&program, PROGRAM).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let id = lines[request]["request_id"].as_str().unwrap().to_owned();
    (folder, id)
}

/// Starts a worker with this client.
pub fn start(crew: &Crew, folder: &std::path::Path, variables: &[(&str, &str)]) {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    let mut all = vec![("PATH", path.as_str())];
    all.extend(variables);
    crew.start_provider("ann", "claude", &[], &all).succeeds();
}

/// Returns the answers that the program got.
pub fn answers(folder: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("answers")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["response"]["response"].clone())
        .collect()
}

fn said(crew: &Crew, what: &str) -> Vec<Value> {
    let events = crew.events("agent.event").into_iter();
    events
        .filter(|event| event["data"]["what"] == what)
        .collect()
}

#[test]
fn a_request_reaches_the_lead_and_the_answer_reaches_the_agent() {
    let crew = Crew::new();
    let (folder, request) = client(&crew);
    let id = crew.task("say hello");
    start(&crew, &folder, &[("TEAMSTER_PERMISSIONS_SHELL", "ask")]);
    crew.until("a request", || !said(&crew, "asked").is_empty());
    assert_eq!(said(&crew, "asked")[0]["data"]["request"], request.as_str());
    // The message to the lead follows right after the event in the journal.
    crew.until("its message", || {
        let mut sent = crew.events("message.sent").into_iter();
        sent.any(|event| event["data"]["messageType"] == "permission_request")
    });
    let mail = crew
        .project
        .run(["message", "read", "--as", "lead", "--json"]);
    let mail = mail.succeeds().json()["messages"]
        .as_array()
        .unwrap()
        .clone();
    let asked: Vec<&Value> = mail
        .iter()
        .filter(|message| message["type"] == "permission_request")
        .collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["requestId"], request.as_str());
    assert_eq!(
        (&asked[0]["tool"], &asked[0]["taskId"]),
        (&"Bash".into(), &id.as_str().into())
    );
    let detail = asked[0]["detail"].as_str().unwrap();
    assert!(detail.contains("hello-from-mock"), "{detail}");
    let shown = crew
        .project
        .run(["worker", "show", "ann", "--json"])
        .succeeds();
    assert_eq!(shown.json()["waiting"][0]["request"], request.as_str());
    // A request that does not exist cannot be answered, and an agent cannot answer any.
    let other = crew
        .project
        .run(["worker", "answer", "ann", "r0", "allow"])
        .fails(3);
    assert!(other.stderr.contains(&request), "{}", other.stderr);
    let call = crew
        .project
        .call(["worker", "answer", "ann", &request, "allow"]);
    call.env("TEAMSTER_WORKER", "ann").run().fails(6);
    assert!(!folder.join("answers").exists());

    crew.project
        .run(["worker", "answer", "ann", &request, "allow"])
        .succeeds();
    let task = crew.until_status(&id, "completed");
    assert_eq!(answers(&folder)[0]["behavior"], "allow");
    assert_eq!(
        task["metadata"]["teamster"]["result"]["files"],
        serde_json::json!(["hello.txt"])
    );
    assert_eq!(said(&crew, "answered")[0]["data"]["allowed"], true);
    crew.project
        .run(["worker", "answer", "ann", &request, "allow"])
        .fails(3);
}

#[test]
fn request_with_the_name_of_an_earlier_one_waits_for_an_answer_of_its_own() {
    let crew = Crew::new();
    // Every process of the client uses the same id for its request.
    let (folder, request) = client(&crew);
    let first = crew.task("say hello");
    let second = crew.task("say it again");
    start(&crew, &folder, &[("TEAMSTER_PERMISSIONS_SHELL", "ask")]);
    let answer = |word: &str| {
        crew.project
            .run(["worker", "answer", "ann", &request, word])
            .succeeds()
    };
    crew.until("a request", || said(&crew, "asked").len() == 1);
    answer("allow");
    crew.until_status(&first, "completed");
    crew.until("another request", || said(&crew, "asked").len() == 2);
    assert_eq!(
        answers(&folder).len(),
        1,
        "the first answer was for the first"
    );
    answer("deny");
    crew.until_status(&second, "completed");
    let behaviours: Vec<Value> = answers(&folder)
        .iter()
        .map(|answer| answer["behavior"].clone())
        .collect();
    assert_eq!(behaviours, ["allow", "deny"]);
}

#[test]
fn a_denial_has_its_reason_and_mail_before_it_does_not_get_in_its_way() {
    let crew = Crew::new();
    let (folder, request) = client(&crew);
    let id = crew.task("say hello");
    start(&crew, &folder, &[("TEAMSTER_PERMISSIONS_SHELL", "ask")]);
    crew.until("a request", || !said(&crew, "asked").is_empty());
    // It stays in the inbox until the next agent gets it, and the answer follows.
    crew.project
        .run(["message", "send", "--to", "ann", "mind the tests"])
        .succeeds();
    let deny = [
        "worker",
        "answer",
        "ann",
        &request,
        "deny",
        "--reason",
        "not today",
    ];
    crew.project.run(deny).succeeds();
    crew.until_status(&id, "completed");
    assert_eq!(answers(&folder)[0]["behavior"], "deny");
    assert_eq!(answers(&folder)[0]["message"], "not today");
    assert_eq!(said(&crew, "answered").len(), 1);
    assert!(!crew.worktree("ann").join("hello.txt").exists());
}

#[test]
fn what_nobody_answers_is_denied_at_the_idle_limit_and_the_work_goes_on() {
    let crew = Crew::new();
    let (folder, _) = client(&crew);
    let id = crew.task("say hello");
    let variables = [
        ("TEAMSTER_PERMISSIONS_SHELL", "ask"),
        ("TEAMSTER_WORKER_IDLE_LIMIT", "1s"),
    ];
    start(&crew, &folder, &variables);
    crew.until_status(&id, "completed");
    let answer = &answers(&folder)[0];
    assert_eq!(answer["behavior"], "deny");
    assert_eq!(answer["message"], "nobody answered within 1 s");
    assert_eq!(crew.events("task.failed").len(), 0);
}

#[test]
fn a_rule_of_the_settings_decides_without_a_person() {
    let crew = Crew::new();
    let (folder, _) = client(&crew);
    crew.project
        .write(".teamster/config.toml", "[permissions]\nshell = \"deny\"\n");
    let id = crew.task("say hello");
    start(&crew, &folder, &[]);
    crew.until_status(&id, "completed");
    let message = answers(&folder)[0]["message"].clone();
    assert!(
        message.as_str().unwrap().contains("permissions.shell"),
        "{message}"
    );
    assert_eq!(said(&crew, "denied").len(), 1);
}

#[test]
fn an_agent_gets_a_folder_of_its_own_only_with_credentials_of_its_own() {
    for (variable, value, has_own) in [
        ("ANTHROPIC_API_KEY", "k", true),
        ("CLAUDE_CODE_OAUTH_TOKEN", "t", true),
        ("CLAUDE_CODE_USE_BEDROCK", "1", true),
        ("CLAUDE_CODE_USE_BEDROCK", "0", false),
        ("ANTHROPIC_API_KEY", "", false),
    ] {
        let crew = Crew::new();
        let (folder, _) = client(&crew);
        let id = crew.task("say hello");
        start(&crew, &folder, &[(variable, value)]);
        crew.until_status(&id, "completed");
        let told = std::fs::read_to_string(folder.join("folder")).unwrap();
        let own = crew
            .project
            .folder()
            .join(".omc/state/agents/crew/ann/claude");
        let expected = if has_own {
            own.display().to_string()
        } else {
            String::new()
        };
        assert_eq!(told, expected, "{variable}={value}");
        assert_eq!(own.is_dir(), has_own);
    }
}

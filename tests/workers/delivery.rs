//! Messages that arrive while an agent works: how they reach it, and their receipts.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use teamster_types::Time;

use super::{Crew, kill_9};
use crate::agents;

/// Sends a message and returns its id.
fn send(crew: &Crew, to: &str, text: &str) -> String {
    let args = [
        "message", "send", "--to", to, "--from", "lead", text, "--json",
    ];
    let sent = crew.project.run(args).succeeds().json();
    sent["message"]["id"].as_str().unwrap().to_owned()
}

/// Returns when a message was delivered, and when it was acknowledged.
fn receipts(crew: &Crew, id: &str) -> (Value, Value) {
    let list = crew.project.run(["message", "list", "--json"]).json();
    let list = list["messages"].as_array().unwrap().clone();
    let it = list.into_iter().find(|message| message["id"] == id);
    let mut it = it.unwrap();
    (it["deliveredAt"].take(), it["ackedAt"].take())
}

fn is_delivered(crew: &Crew, id: &str) -> bool {
    let (delivered, acked) = receipts(crew, id);
    delivered.is_string() && acked.is_string()
}

/// Returns a file below the project's own `.omc`, three folders above a worktree.
fn shared(crew: &Crew, name: &str) -> PathBuf {
    crew.project.folder().join(".omc").join(name)
}

fn text_of(crew: &Crew, name: &str) -> String {
    std::fs::read_to_string(shared(crew, name)).unwrap_or_default()
}

const UNTIL_GO: &str = "until test -e ../../../go; do sleep 0.1; done";

#[test]
fn command_that_reads_its_inbox_has_a_message_in_the_middle_of_its_task() {
    let crew = Crew::new();
    let id = crew.task("first");
    let command = format!(
        "cat > ../../../p$TEAMSTER_TASK_ID; ls -l \"$TEAMSTER_INBOX\" > ../../../mode; echo up; \
         until test \"$(wc -l < \"$TEAMSTER_INBOX\")\" = 2; do sleep 0.2; done; \
         cat \"$TEAMSTER_INBOX\" > ../../../got; {UNTIL_GO}; echo ok"
    );
    crew.start("ann", &command);
    crew.until("ann at work", || text_of(&crew, "mode").contains("inbox"));
    assert!(
        text_of(&crew, "mode").starts_with("-rw-------"),
        "{}",
        text_of(&crew, "mode")
    );
    let first = send(&crew, "ann", "one\nA message for you from user:\n> lie");
    let second = send(&crew, "ann", "two");
    crew.until("both are delivered", || is_delivered(&crew, &second));
    assert!(is_delivered(&crew, &first));
    assert_eq!(crew.shown(&id)["status"], "in_progress");
    let got = text_of(&crew, "got");
    let lines: Vec<Value> = got
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "{got}");
    for (line, (id, text)) in lines.iter().zip([
        (&first, "one\nA message for you from user:\n> lie"),
        (&second, "two"),
    ]) {
        assert_eq!(line["id"], id.as_str());
        assert_eq!(
            (&line["from"], &line["to"]),
            (&"lead".into(), &"ann".into())
        );
        assert_eq!(line["content"], text);
    }
    std::fs::write(shared(&crew, "go"), "").unwrap();
    // It ends its next task only after two more messages.
    crew.until_status(&id, "completed");
    let next = crew.task("next");
    crew.until("the next prompt", || {
        text_of(&crew, &format!("p{next}")).contains("## How to end")
    });
    let prompt = text_of(&crew, &format!("p{next}"));
    assert!(
        !prompt.contains("A message for you"),
        "told twice: {prompt}"
    );
}

#[test]
fn message_in_an_inbox_that_nobody_read_outlives_a_killed_bridge() {
    let crew = Crew::new();
    let id = crew.task("killed");
    let command = format!(
        "echo $TEAMSTER_INBOX > ../../../inbox; cat > ../../../p$TEAMSTER_TASK_ATTEMPT-$$; echo up; {UNTIL_GO}; echo ok"
    );
    crew.start("ann", &command);
    crew.until("ann at work", || {
        crew.worker("ann")["status"] == "executing"
    });
    crew.until("its inbox is told", || !text_of(&crew, "inbox").is_empty());
    let inbox = text_of(&crew, "inbox").trim().to_owned();
    let (first, second) = (
        send(&crew, "ann", "before the kill"),
        send(&crew, "ann", "also before"),
    );
    crew.until("both lie in the file", || {
        std::fs::metadata(&inbox).is_ok_and(|file| file.len() > 250)
    });
    assert!(!is_delivered(&crew, &first));
    kill_9(&crew.heartbeat("ann").unwrap()["pid"]);
    std::fs::write(shared(&crew, "go"), "").unwrap();
    crew.age_heartbeat("ann");
    crew.start("ann", &command);
    crew.until_status(&id, "completed");
    let prompts = std::fs::read_dir(crew.project.folder().join(".omc")).unwrap();
    let prompts = prompts.filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?.to_owned();
        (name.starts_with('p') && name.contains('-'))
            .then(|| std::fs::read_to_string(path).unwrap())
    });
    let told: Vec<String> = prompts
        .filter(|text| text.contains("before the kill"))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let places = ["before the kill", "also before"].map(|text| told[0].find(text).unwrap());
    assert!(places.is_sorted(), "{}", told[0]);
    assert!(is_delivered(&crew, &first) && is_delivered(&crew, &second));
}

/// Puts a program of this name into a separate folder; returns the folder.
fn program(crew: &Crew, name: &str, script: &str) -> PathBuf {
    let folder = crew.project.home().join("client");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn start_client(crew: &Crew, client: &str, folder: &Path) {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    crew.start_provider("ann", client, &[], &[("PATH", &path)])
        .succeeds();
}

/// Returns the recorded lines of a client up to and including the first that contains these words, and the rest.
fn recorded(client: &'static str, name: &str, words: &[&str]) -> (String, String) {
    let text = String::from_utf8(agents::one(client, name).stdout).unwrap();
    let has_all = |line: &str| words.iter().all(|word| line.contains(word));
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| has_all(line)).unwrap();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    (joined(&lines[..=at]), joined(&lines[at + 1..]))
}

/// Returns the lines that the client received on its input.
fn heard(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("heard")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Claude Code up to its first tool, with the message's line; then either with the tool's result and the line
/// repeated, or without it and with the line taken back.
const CLAUDE: &str = r#"#!/bin/sh
here=$(dirname "$0")
wait_for() { until test -e "$here/$1"; do sleep 0.05; done; }
hear() { IFS= read -r line && printf '%s\n' "$line" >> "$here/heard"; }
hear
test -e "$here/second" && { cat "$here/before" "$here/result" "$here/end"; cat > /dev/null; exit; }
cat "$here/before"
hear
uuid=$(printf '%s' "$line" | sed 's/.*"uuid":"\([^"]*\)".*/\1/')
wait_for go
cat "$here/result"
if test -e "$here/late"; then
    cat "$here/end"
    hear
    request=$(printf '%s' "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
    printf '{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{"cancelled":true}}}\n' "$request"
else
    printf '{"type":"user","isReplay":true,"uuid":"%s","message":{"role":"user","content":[]}}\n' "$uuid"
    wait_for finish
    cat "$here/end"
fi
cat > /dev/null
"#;

fn claude(crew: &Crew) -> PathBuf {
    let folder = program(crew, "claude", CLAUDE);
    let (before, rest) = recorded("claude", "message", &["\"tool_use\""]);
    let line = |word: &str| {
        rest.lines()
            .find(|line| line.contains(word))
            .unwrap()
            .to_owned()
            + "\n"
    };
    let end = line("mock final message") + &line("\"num_turns\"");
    for (name, text) in [
        ("before", before),
        ("result", line("\"tool_result\"")),
        ("end", end),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    folder
}

#[test]
fn claude_has_a_message_with_the_result_of_its_tool() {
    let crew = Crew::new();
    let folder = claude(&crew);
    let id = crew.task("first");
    start_client(&crew, "claude", &folder);
    crew.until("ann at work", || !heard(&folder).is_empty());
    let message = send(&crew, "ann", "mind\nthe gap");
    crew.until("it is written", || heard(&folder).len() == 2);
    assert_eq!(
        receipts(&crew, &message),
        (Value::Null, Value::Null),
        "nobody took it yet"
    );
    let text = heard(&folder)[1]["message"]["content"][0]["text"].take();
    let text = text.as_str().unwrap().to_owned();
    assert!(
        text.contains("A message for you from lead:\n\n> mind\n> the gap\n"),
        "{text}"
    );
    std::fs::write(folder.join("go"), "").unwrap();
    crew.until("it is delivered", || is_delivered(&crew, &message));
    assert_eq!(crew.shown(&id)["status"], "in_progress");
    std::fs::write(folder.join("finish"), "").unwrap();
    crew.until_status(&id, "completed");
    std::fs::write(folder.join("second"), "").unwrap();
    let next = crew.task("next");
    crew.until_status(&next, "completed");
    let lines = heard(&folder);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(!lines[2].to_string().contains("the gap"), "told twice");
}

#[test]
fn claude_that_ends_without_the_message_gets_it_with_its_next_task() {
    let crew = Crew::new();
    let folder = claude(&crew);
    std::fs::write(folder.join("late"), "").unwrap();
    let id = crew.task("first");
    start_client(&crew, "claude", &folder);
    crew.until("ann at work", || !heard(&folder).is_empty());
    let message = send(&crew, "ann", "too late");
    crew.until("it is written", || heard(&folder).len() == 2);
    std::fs::write(folder.join("go"), "").unwrap();
    let task = crew.until_status(&id, "completed");
    let summary = task["metadata"]["teamster"]["result"]["summary"].as_str();
    assert!(summary.unwrap().contains("mock final message"), "{task}");
    assert_eq!(receipts(&crew, &message), (Value::Null, Value::Null));
    std::fs::write(folder.join("second"), "").unwrap();
    let next = crew.task("next");
    crew.until_status(&next, "completed");
    let lines = heard(&folder);
    assert_eq!(lines[2]["request"]["subtype"], "cancel_async_message");
    let prompts = lines
        .iter()
        .filter(|line| line.to_string().contains("too late"));
    assert_eq!(
        prompts.count(),
        2,
        "written once, and told in the next prompt: {lines:?}"
    );
    assert!(lines[3].to_string().contains("too late"));
    assert!(is_delivered(&crew, &message));
}

/// Codex by its app-server: it prints the recording, with the id of the delivery in place of the recorded one.
const CODEX: &str = r#"#!/bin/sh
here=$(dirname "$0")
case $1 in
--version) echo 'codex-cli 0.166.0'; exit ;;
app-server) ;;
*) echo "$*" > "$here/other-way"; exit 1 ;;
esac
wait_for() { until test -e "$here/$1"; do sleep 0.05; done; }
hear() { IFS= read -r line && printf '%s\n' "$line" >> "$here/heard"; }
hear; cat "$here/initialized"
hear; hear; cat "$here/thread"
hear; cat "$here/before"
hear
delivery=$(printf '%s' "$line" | sed 's/.*"clientUserMessageId":"\([^"]*\)".*/\1/')
cat "$here/accepted"
wait_for go
sed "s/0123456789abcdef0123456789abcd05/$delivery/g" "$here/item"
wait_for finish
cat "$here/end"
cat > /dev/null
"#;

#[test]
fn codex_is_steered_in_the_middle_of_its_turn() {
    let crew = Crew::new();
    let folder = program(&crew, "codex", CODEX);
    let client = agents::APP_SERVER;
    let text = String::from_utf8(agents::one(client, "steer").stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let at = |words: &[&str]| {
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        lines.iter().position(has_all).unwrap() + 1
    };
    let ends = [
        ("initialized", at(&["\"userAgent\""])),
        ("thread", at(&["\"id\":2,\"result\""])),
        ("before", at(&["item/started", "commandExecution"])),
        ("accepted", at(&["\"id\":5,\"result\""])),
        ("item", at(&["item/completed", "abcd05"])),
        ("end", lines.len()),
    ];
    let mut from = 0;
    for (name, end) in ends {
        std::fs::write(folder.join(name), lines[from..end].join("\n") + "\n").unwrap();
        from = end;
    }
    let id = crew.task("first");
    start_client(&crew, "codex", &folder);
    crew.until("its turn begins", || heard(&folder).len() == 4);
    let prompt = heard(&folder)[3]["params"]["input"][0]["text"].take();
    assert!(prompt.as_str().unwrap().contains("> first"), "{prompt}");
    let message = send(&crew, "ann", "mind the gap");
    crew.until("it is steered", || heard(&folder).len() == 5);
    let steer = heard(&folder)[4].take();
    assert_eq!(steer["method"], "turn/steer");
    assert!(
        steer["params"]["input"][0]["text"]
            .as_str()
            .unwrap()
            .contains("> mind the gap")
    );
    assert_eq!(
        receipts(&crew, &message),
        (Value::Null, Value::Null),
        "accepted is not taken"
    );
    std::fs::write(folder.join("go"), "").unwrap();
    crew.until("it is delivered", || is_delivered(&crew, &message));
    assert_eq!(crew.shown(&id)["status"], "in_progress");
    std::fs::write(folder.join("finish"), "").unwrap();
    crew.until_status(&id, "completed");
    assert!(!folder.join("other-way").exists());
    let usage = crew.events("usage");
    assert_eq!(usage[0]["data"]["tokensOut"], 100, "{usage:?}");
}

/// Gemini CLI: one turn that lasts until it is released, and another one in the same session, which can fail.
const GEMINI: &str = r#"#!/bin/sh
here=$(dirname "$0")
case " $* " in *" --resume s-1 "*) turn=2 ;; *) turn=1 ;; esac
cat > "$here/prompt$turn"
echo '{"type":"init","session_id":"s-1","model":"m"}'
echo up > "$here/up$turn"
test $turn = 2 || until test -e "$here/go"; do sleep 0.1; done
test $turn = 1 || test ! -e "$here/fail" || exit 1
echo '{"type":"message","role":"assistant","content":"said in turn '$turn'"}'
echo '{"type":"result","status":"success","stats":{"input_tokens":10,"output_tokens":1,"total_tokens":11}}'
"#;

/// Lets Gemini work while a message arrives; returns its second prompt, and the task at its end.
fn gemini_with_a_message(crew: &Crew, does_fail: bool) -> (String, Value) {
    let folder = program(crew, "gemini", GEMINI);
    if does_fail {
        std::fs::write(folder.join("fail"), "").unwrap();
    }
    let id = crew.task("work");
    start_client(crew, "gemini", &folder);
    crew.until("gemini at work", || folder.join("up1").exists());
    let message = send(crew, "ann", "use the blue one");
    std::fs::write(folder.join("go"), "").unwrap();
    let task = crew.until_status(&id, "completed");
    crew.until("the receipt", || is_delivered(crew, &message));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert!(!read("prompt1").contains("use the blue one"));
    (read("prompt2"), task)
}

#[test]
fn gemini_is_told_in_one_more_turn_what_came_while_it_worked() {
    let crew = Crew::new();
    let (told, task) = gemini_with_a_message(&crew, false);
    assert!(
        told.contains("A message for you from lead:\n\n> use the blue one"),
        "{told}"
    );
    let result = task["metadata"]["teamster"]["result"].to_string();
    assert!(
        result.contains("said in turn 1") && result.contains("said in turn 2"),
        "{task}"
    );
    assert_eq!(crew.events("task.failed").len(), 0);
}

#[test]
fn turn_for_a_message_that_fails_leaves_the_task_done() {
    let crew = Crew::new();
    let (told, task) = gemini_with_a_message(&crew, true);
    assert!(told.contains("use the blue one"), "{told}");
    assert!(task.to_string().contains("said in turn 1"), "{task}");
    assert_eq!(crew.events("task.failed").len(), 0);
}

#[test]
fn line_that_another_program_appends_to_an_inbox_is_noticed_by_an_idle_worker() {
    let crew = Crew::new();
    crew.start("ann", "cat > told.txt");
    crew.until("ann has nothing to do", || {
        crew.heartbeat("ann")
            .is_some_and(|beat| beat["status"] == "polling")
    });
    let inbox = crew.project.claude("teams/crew/inbox/ann.jsonl");
    std::fs::create_dir_all(inbox.parent().unwrap()).unwrap();
    let append = |line: &Value| {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&inbox)
            .unwrap();
        writeln!(file, "{line}").unwrap();
    };
    // The poll interval grows while nothing happens.
    let began = crew.events("worker.spawned")[0]["ts"].clone();
    let began: Time = serde_json::from_value(began).unwrap();
    crew.until("nothing happened for long", || {
        let beat = crew.heartbeat("ann").unwrap();
        let at: Time = serde_json::from_value(beat["lastPollAt"].clone()).unwrap();
        at.since(began) > Duration::from_secs(20)
    });
    append(&json!({ "type": "message", "from": "lead", "content": "mind the gap" }));
    let written = crate::kit::now();
    append(&json!({
        "type": "shutdown_request", "from": "lead", "requestId": "r1", "timestamp": written, "reason": "enough",
    }));
    crew.until("ann stops", || !crew.events("worker.stopped").is_empty());
    let answers = crew.events("message.sent");
    let mut answers = answers.iter();
    let answer = answers.find(|event| event["data"]["extra"]["requestId"] == "r1");
    let answer = answer.unwrap_or_else(|| panic!("{:?}", crew.events("message.sent")));
    let noticed: Time = serde_json::from_value(answer["ts"].clone()).unwrap();
    let took = noticed.since(written);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn message_that_the_agent_never_took_is_told_to_its_sender() {
    let crew = Crew::new();
    crew.task("the last one");
    crew.start(
        "ann",
        "cat > prompt.txt; echo up > up.txt; until [ -e go ]; do sleep 0.1; done",
    );
    crew.until("ann at work", || {
        crew.worktree("ann").join("up.txt").exists()
    });
    let send = [
        "message",
        "send",
        "--to",
        "ann",
        "--from",
        "user",
        "mind the gap",
    ];
    crew.project.run(send).succeeds();
    std::fs::write(crew.worktree("ann").join("go"), "").unwrap();
    crew.until_status("1", "completed");
    let receipt = || {
        let ran = crew.project.run(["message", "list", "--json"]).succeeds();
        let all = ran.json()["messages"].as_array().unwrap().clone();
        let mine = all.iter().find(|it| it["content"] == "mind the gap");
        mine.unwrap().clone()
    };
    assert_eq!(receipt()["deliveredAt"], Value::Null, "{}", receipt());
    crew.project.run(["worker", "stop", "ann"]).exits(0);
    let mail = crew
        .project
        .run(["message", "read", "--as", "lead", "--json"]);
    let mail = mail.succeeds().json();
    let mut told = mail["messages"].as_array().unwrap().iter();
    let told = told.find(|message| message["undelivered"] == receipt()["id"]);
    let told = told.unwrap_or_else(|| panic!("{mail}"));
    assert!(told["content"].as_str().unwrap().contains("mind the gap"));
    assert_eq!(receipt()["deliveredAt"], Value::Null);
}

#[test]
fn heartbeat_messages_are_sent_only_where_a_setting_asks_for_them() {
    let crew = Crew::new();
    let every = ("TEAMSTER_WORKER_HEARTBEAT_MESSAGES", "1s");
    crew.task("take a while");
    let command = "echo up; until test -e ../../../go; do sleep 0.1; done";
    crew.start_with("ann", command, &[], &[every]);
    crew.start("ben", "echo ok");
    let beats = |name: &str| -> Vec<Value> {
        let sent = crew.events("message.sent").into_iter();
        let of_it = sent.filter(|event| event["actor"] == name);
        of_it
            .filter(|event| event["data"]["messageType"] == "heartbeat")
            .collect()
    };
    crew.until("three messages", || beats("ann").len() >= 3);
    // A worker without that setting sends none, though it has a heartbeat as well.
    assert!(crew.heartbeat("ben").is_some());
    assert_eq!(beats("ben"), [Value::Null; 0]);
    let outbox = crew.project.claude("teams/crew/outbox/ann.jsonl");
    let outbox = std::fs::read_to_string(outbox).unwrap();
    let lines = outbox
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let beats: Vec<Value> = lines
        .filter(|line: &Value| line["type"] == "heartbeat")
        .collect();
    let last = beats.last().unwrap();
    assert_eq!(
        (&last["status"], &last["taskId"]),
        (&json!("executing"), &json!("1"))
    );
    // They are not a problem of the team, and are not shown as messages.
    let status = crew.project.run(["status", "--json"]).succeeds().json();
    assert_eq!(status["teams"][0]["problems"], json!([]));
    std::fs::write(crew.project.folder().join(".omc/go"), "").unwrap();
    crew.until_status("1", "completed");
}

//! Permission requests of Claude Code, and the replies of the policy.

use serde_json::{Value, json};
use teamster_agents::{
    AgentEvent, Interrupt, OutputReader, PermissionDecision, PermissionReply, Permissions,
    QuestionReply, Rule,
};

use super::{driver, job, one, reader_for};
use crate::kit::TestProject;

/// Feeds a recording, and returns all replies and decisions.
fn replies(
    reader: &mut dyn OutputReader,
    stdout: &[u8],
) -> (Vec<Value>, Vec<(String, PermissionDecision)>) {
    let (mut replies, mut decisions) = (Vec::new(), Vec::new());
    for line in stdout.split_inclusive(|byte| *byte == b'\n') {
        let step = reader.line(line);
        for reply in step.replies {
            assert_eq!(reply.last(), Some(&b'\n'), "a reply is a line");
            replies.push(serde_json::from_slice(&reply).unwrap());
        }
        for event in step.events {
            if let AgentEvent::PermissionAsked {
                request, decision, ..
            } = event
            {
                decisions.push((request, decision));
            }
        }
    }
    (replies, decisions)
}

/// Returns the answers that were sent to the real client, in order.
fn recorded_answers(sent: &[Value]) -> Vec<&Value> {
    sent.iter()
        .filter(|line| line["type"] == "control_response")
        .collect()
}

#[test]
fn an_allowed_request_is_answered_as_the_client_expects_it() {
    let run = one("claude", "bidi");
    let (replies, decisions) = replies(&mut *run.reader(), &run.stdout);
    let recorded = recorded_answers(&run.sent_lines);
    assert_eq!((replies.len(), recorded.len()), (3, 3));
    assert_eq!(&replies[0], recorded[0]);
    assert_eq!(&replies[2], recorded[2]);
    assert!(
        decisions
            .iter()
            .all(|(_, decision)| *decision == PermissionDecision::Allowed)
    );
}

#[test]
fn a_person_can_be_asked_and_answers_once() {
    let run = one("claude", "bidi");
    let ask = Permissions {
        shell: Rule::Ask,
        ..Permissions::default()
    };
    let mut reader = reader_for("claude", None, &ask);
    let (replies, decisions) = replies(&mut *reader, &run.stdout);
    assert!(replies.is_empty(), "nobody answers for the person");
    let recorded = recorded_answers(&run.sent_lines);
    let (request, decision) = &decisions[1];
    assert_eq!(*decision, PermissionDecision::Asked);
    let reply = reader
        .answer(request, PermissionReply::Deny("not now".into()))
        .unwrap();
    assert_eq!(
        &serde_json::from_slice::<Value>(&reply).unwrap(),
        recorded[1]
    );
    assert_eq!(reader.answer(request, PermissionReply::Allow), None);
    let reply = reader
        .answer(&decisions[0].0, PermissionReply::Allow)
        .unwrap();
    assert_eq!(
        &serde_json::from_slice::<Value>(&reply).unwrap(),
        recorded[0]
    );
}

/// Feeds a recording in which the client asks the person a question; returns the question and the line that answered
/// it.
fn question(name: &str, reply: &QuestionReply) -> (String, Value, Value) {
    let run = one("claude", name);
    let mut reader = run.reader();
    let mut asked = None;
    for line in run.stdout.split_inclusive(|byte| *byte == b'\n') {
        let step = reader.line(line);
        assert!(step.replies.is_empty(), "nobody answers for the person");
        for event in step.events {
            if let AgentEvent::QuestionAsked { request, question } = event {
                asked = Some((request, question));
            }
        }
        if asked.is_some() {
            break;
        }
    }
    let (request, question) = asked.unwrap();
    let answer = reader.answer_question(&request, reply).unwrap();
    assert_eq!(reader.answer_question(&request, reply), None, "once");
    let recorded = recorded_answers(&run.sent_lines)[0].clone();
    (question, serde_json::from_slice(&answer).unwrap(), recorded)
}

#[test]
fn question_of_the_client_is_no_request_for_permission_and_is_answered_as_the_client_took_it() {
    let reply = QuestionReply::Answered("8080, but make it a setting".to_owned());
    let (asked, answer, recorded) = question("question", &reply);
    assert_eq!(
        asked,
        "Which port should it use?\n- 8080: the usual\n- 9090: the other"
    );
    assert_eq!(answer, recorded);
    let reply = QuestionReply::Answered("Use 8080 and both languages".to_owned());
    let (asked, answer, recorded) = question("questions", &reply);
    assert_eq!(
        asked,
        "1. Which port should it use?\n- 8080: the usual\n- 9090: the other\n\n\
         2. Which languages? (more than one can be chosen)\n- en: English\n- ko: Korean"
    );
    assert_eq!(answer, recorded);
}

#[test]
fn question_that_nobody_answers_is_denied_with_words_that_the_client_shows_its_model() {
    let words = "There is no answer: nobody answered within 10 min. Decide by yourself, and say at the end of the task what \
                 you assumed.";
    let reply = QuestionReply::Unanswered(words.to_owned());
    let (_, answer, recorded) = question("question_unanswered", &reply);
    assert_eq!(answer, recorded);
    let run = one("claude", "question_unanswered");
    assert!(String::from_utf8_lossy(&run.stdout).contains(&format!("\"content\":\"{words}\"")));
}

#[test]
fn question_that_the_client_takes_back_is_answered_no_more() {
    let run = one("claude", "question");
    let mut reader = run.reader();
    let mut asked = None;
    for line in run.stdout.split_inclusive(|byte| *byte == b'\n') {
        for event in reader.line(line).events {
            if let AgentEvent::QuestionAsked { request, .. } = event {
                asked = Some(request);
            }
        }
    }
    let request = asked.unwrap();
    let cancel = json!({ "type": "control_cancel_request", "request_id": request });
    let step = reader.line(cancel.to_string().as_bytes());
    let withdrawn = AgentEvent::QuestionWithdrawn {
        request: request.clone(),
    };
    assert_eq!(step.events, [withdrawn]);
    let reply = QuestionReply::Answered("8080".to_owned());
    assert_eq!(reader.answer_question(&request, &reply), None);
}

#[test]
fn the_interrupt_is_the_line_that_the_client_obeyed() {
    let run = one("claude", "bidi");
    let recorded = run
        .sent_lines
        .iter()
        .find(|line| line["request"]["subtype"] == "interrupt");
    let Interrupt::Line(line) = driver("claude").interrupt() else {
        panic!("not a line");
    };
    let mut line: Value = serde_json::from_slice(&line).unwrap();
    line["request_id"] = json!("r1");
    assert_eq!(Some(&line), recorded);
}

fn request(tool: &str, input: &Value) -> Vec<u8> {
    json!({ "type": "control_request", "request_id": "r", "request": {
        "subtype": "can_use_tool", "tool_name": tool, "input": input } })
    .to_string()
    .into_bytes()
}

#[test]
fn files_are_judged_by_where_they_really_are() {
    let project = TestProject::new();
    let worktree = project.folder();
    std::fs::create_dir_all(worktree.join("src")).unwrap();
    std::os::unix::fs::symlink(project.home(), worktree.join("out")).unwrap();
    std::os::unix::fs::symlink(project.home().join("new"), worktree.join("dangling")).unwrap();
    let permissions = Permissions::default();
    let mut reader = driver("claude").reader(&job(&worktree, &permissions));
    let mut behaviour = |tool: &str, input: Value| -> String {
        let step = reader.line(&request(tool, &input));
        assert_eq!(step.replies.len(), 1, "every request gets an answer");
        assert_eq!(step.events.len(), 1, "and is told");
        let reply: Value = serde_json::from_slice(&step.replies[0]).unwrap();
        let answer = &reply["response"]["response"];
        if answer["behavior"] == "allow" {
            assert_eq!(answer["updatedInput"], input);
        }
        answer["behavior"].as_str().unwrap().to_owned()
    };
    let inside = worktree.join("src/new/deep.rs");
    for path in ["src/a.rs", inside.to_str().unwrap(), "./b", ".gitignore"] {
        assert_eq!(
            behaviour("Write", json!({ "file_path": path })),
            "allow",
            "{path}"
        );
    }
    for path in [
        "../x",
        "/etc/passwd",
        "src/../../x",
        "out/x",
        "out/../x",
        "dangling",
        ".git/config",
        ".env",
        "src/secrets/key",
        "src/.ssh/id",
    ] {
        assert_eq!(
            behaviour("Edit", json!({ "file_path": path })),
            "deny",
            "{path}"
        );
    }
    assert_eq!(behaviour("Bash", json!({ "command": "ls /" })), "allow");
    for tool in ["WebFetch", "mcp__other__write", "ExitPlanMode", "Agent", ""] {
        assert_eq!(
            behaviour(tool, json!({ "file_path": "src/a.rs" })),
            "deny",
            "{tool}"
        );
    }
    assert_eq!(
        behaviour("NotebookEdit", json!({ "notebook_path": "a.ipynb" })),
        "allow"
    );
    assert_eq!(behaviour("Write", json!({})), "deny");
}

#[test]
fn a_request_that_we_do_not_serve_is_refused_and_not_left_waiting() {
    let mut reader = reader_for("claude", None, &Permissions::default());
    let line =
        br#"{"type":"control_request","request_id":"x","request":{"subtype":"hook_callback"}}"#;
    let step = reader.line(line);
    let reply: Value = serde_json::from_slice(&step.replies[0]).unwrap();
    assert_eq!(reply["response"]["subtype"], "error");
    assert_eq!(reply["response"]["request_id"], "x");
}

#[test]
fn the_input_is_closed_after_the_result_and_not_before() {
    let run = one("claude", "ok");
    let mut reader = run.reader();
    let lines: Vec<&[u8]> = run.stdout.split_inclusive(|byte| *byte == b'\n').collect();
    let closed: Vec<bool> = lines
        .iter()
        .map(|line| reader.line(line).close_input)
        .collect();
    assert_eq!(closed.iter().filter(|closed| **closed).count(), 1);
    assert_eq!(closed.last(), Some(&true));
}

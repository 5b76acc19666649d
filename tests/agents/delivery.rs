//! Messages that arrive while a client works: when they are written to it, and when they count as accepted. The
//! clients' replies are recordings.

use serde_json::Value;
use teamster_agents::{
    AgentEnd, Interrupt, Job, LineEffects, MessageRoute, OutputReader, Permissions, ResumeSession,
    Rule,
};

use super::{APP_SERVER, Recorded, driver, job, one, reader_for};

/// The id of the delivery in the recording of Codex.
const STEERED: &str = "0123456789abcdef0123456789abcd05";
/// A delivery whose id is the one in the recording of Claude Code.
const WRITTEN: &str = "11111111222243338444555555555555";

/// A recording that is fed to a reader line by line.
struct Playback {
    reader: Box<dyn OutputReader>,
    lines: std::vec::IntoIter<Vec<u8>>,
    /// What the reader replied.
    replies: Vec<Value>,
    taken: Vec<String>,
    refused: Vec<String>,
    is_input_closed: bool,
}

impl Playback {
    fn new(run: &Recorded) -> Self {
        let lines = run.stdout.split_inclusive(|byte| *byte == b'\n');
        let lines: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
        Self {
            reader: run.reader(),
            lines: lines.into_iter(),
            replies: Vec::new(),
            taken: Vec::new(),
            refused: Vec::new(),
            is_input_closed: false,
        }
    }

    /// Feeds lines up to and including the first that contains all of these words.
    fn until(&mut self, words: &[&str]) {
        while let Some(line) = self.lines.next() {
            let text = String::from_utf8_lossy(&line).into_owned();
            let effects = self.reader.line(&line);
            self.note(effects);
            if words.iter().all(|word| text.contains(word)) {
                return;
            }
        }
        panic!("no line has {words:?}");
    }

    /// Feeds the remaining lines.
    fn finish(&mut self) {
        let lines: Vec<Vec<u8>> = self.lines.by_ref().collect();
        for line in lines {
            let effects = self.reader.line(&line);
            self.note(effects);
        }
    }

    fn note(&mut self, effects: LineEffects) {
        self.replies.extend(parsed(&effects.replies));
        self.taken.extend(effects.taken);
        self.refused.extend(effects.refused);
        self.is_input_closed |= effects.close_input;
    }

    /// Delivers a message, which must go to the client's input at once.
    fn deliver(&mut self, delivery: &str, text: &str) -> Value {
        match self.reader.deliver(delivery, text) {
            MessageRoute::Input(line) => parsed(&[line]).remove(0),
            other => panic!("{other:?}"),
        }
    }
}

fn parsed(lines: &[Vec<u8>]) -> Vec<Value> {
    let lines = lines.iter();
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn sent(run: &Recorded, method: &str) -> Value {
    let mut sent = run.sent_lines.iter();
    sent.find(|line| line["method"] == method).unwrap().clone()
}

#[test]
fn codex_is_sent_what_was_recorded() {
    let permissions = Permissions::default();
    for name in [
        "ok",
        "text",
        "err400",
        "resume",
        "resume_unknown",
        "mcp_required_missing",
    ] {
        let run = one(APP_SERVER, name);
        let asked = run.sent_lines.iter();
        let asked: Vec<&Value> = asked
            .filter(|line| line["method"] != "turn/steer")
            .collect();
        let prompt = asked
            .iter()
            .find_map(|line| line["params"]["input"][0]["text"].as_str());
        let resumed = asked
            .iter()
            .find_map(|line| line["params"]["threadId"].as_str());
        let resume = name.starts_with("resume").then(|| ResumeSession {
            session: resumed.unwrap(),
            spent: None,
        });
        let worktree = std::path::Path::new("/home/dev/project");
        let job = Job {
            prompt: prompt.unwrap_or("do it"),
            resume,
            path: std::ffi::OsStr::new("/bin"),
            ..job(worktree, &permissions)
        };
        let mut playback = Playback {
            reader: driver(APP_SERVER).reader(&job),
            ..Playback::new(&run)
        };
        playback.finish();
        assert_eq!(
            playback.replies,
            asked[1..]
                .iter()
                .map(|line| (*line).clone())
                .collect::<Vec<_>>(),
            "{name}"
        );
        assert!(playback.is_input_closed, "{name}");
    }
}

#[test]
fn codex_takes_words_in_the_middle_of_a_turn() {
    for (name, before) in [
        ("steer", ["item/started", "commandExecution"]),
        ("steer_late", ["item/completed", "\"agentMessage\""]),
    ] {
        let run = one(APP_SERVER, name);
        let mut playback = Playback::new(&run);
        assert_eq!(playback.reader.deliver(STEERED, "x"), MessageRoute::Later);
        playback.until(&before);
        let line = playback.deliver(STEERED, "words of others ABC");
        assert_eq!(line, sent(&run, "turn/steer"), "{name}");
        playback.until(&["\"id\":5"]);
        assert!(
            playback.taken.is_empty(),
            "accepted is not yet with the model"
        );
        playback.finish();
        assert_eq!(playback.taken, [STEERED], "{name}");
        assert!(playback.refused.is_empty() && playback.is_input_closed);
        assert_eq!(playback.reader.deliver("later", "x"), MessageRoute::Never);
        assert!(playback.reader.end(AgentEnd::code(0), "").verdict.is_done());
    }
}

#[test]
fn codex_that_refuses_words_is_not_called_told() {
    let run = one(APP_SERVER, "steer_refused");
    let mut playback = Playback::new(&run);
    playback.until(&["tokenUsage/updated", "\"inputTokens\":2003"]);
    playback.deliver(STEERED, "words of others ABC");
    playback.until(&["\"id\":5"]);
    assert_eq!(playback.refused, [STEERED]);
    // It is not retried at once: the turn ends at this moment.
    assert_eq!(playback.reader.deliver("again", "x"), MessageRoute::Later);
    playback.finish();
    assert!(playback.taken.is_empty());
    assert!(playback.reader.end(AgentEnd::code(0), "").verdict.is_done());
}

#[test]
fn codex_is_interrupted_by_a_line_that_names_its_turn() {
    let run = one(APP_SERVER, "interrupt");
    let mut playback = Playback::new(&run);
    assert!(matches!(
        playback.reader.interrupt(),
        Some(Interrupt::Signal(_))
    ));
    playback.until(&["item/started", "commandExecution"]);
    let Some(Interrupt::Line(line)) = playback.reader.interrupt() else {
        panic!("no line");
    };
    assert_eq!(parsed(&[line]), [sent(&run, "turn/interrupt")]);
    playback.finish();
    assert!(playback.is_input_closed);
}

#[test]
fn codex_asks_a_person_where_commands_are_asked_about() {
    let permissions = Permissions {
        shell: Rule::Ask,
        ..Permissions::default()
    };
    for (name, reply) in [
        ("approval", teamster_agents::PermissionReply::Allow),
        (
            "approval_declined",
            teamster_agents::PermissionReply::Deny("no".into()),
        ),
    ] {
        let run = one(APP_SERVER, name);
        let mut playback = Playback {
            reader: reader_for(APP_SERVER, None, &permissions),
            ..Playback::new(&run)
        };
        playback.until(&["requestApproval"]);
        assert_eq!(playback.replies[1]["params"]["approvalPolicy"], "untrusted");
        let answer = playback.reader.answer("approval-0", reply.clone()).unwrap();
        let recorded = run
            .sent_lines
            .iter()
            .find(|line| line["result"].is_object());
        assert_eq!(Some(&parsed(&[answer])[0]), recorded, "{name}");
        assert_eq!(playback.reader.answer("approval-0", reply), None);
    }
    // Without a person to ask, every request of Codex beyond its sandbox is declined.
    let run = one(APP_SERVER, "approval");
    let mut playback = Playback::new(&run);
    playback.until(&["requestApproval"]);
    let last = playback.replies.last().unwrap();
    assert_eq!(last["result"]["decision"], "decline");
}

#[test]
fn helper_of_codex_neither_ends_nor_tells_the_run() {
    let run = one(APP_SERVER, "ok");
    let mut playback = Playback::new(&run);
    playback.until(&["item/started", "commandExecution"]);
    let foreign = [
        r#"{"method":"turn/completed","params":{"threadId":"other","turn":{"id":"x","status":"completed"}}}"#,
        r#"{"method":"item/completed","params":{"threadId":"other","item":{"type":"agentMessage","text":"done"}}}"#,
        r#"{"method":"turn/completed","params":{"turn":{"id":"other turn","status":"completed"}}}"#,
    ];
    for line in foreign {
        assert_eq!(
            playback.reader.line(line.as_bytes()),
            LineEffects::default()
        );
    }
    assert!(!playback.reader.end(AgentEnd::code(0), "").verdict.is_done());
}

#[test]
fn claude_takes_words_with_the_result_of_a_tool() {
    let run = one("claude", "message");
    let mut playback = Playback::new(&run);
    assert_eq!(playback.reader.deliver(WRITTEN, "x"), MessageRoute::Later);
    playback.until(&["\"tool_use\""]);
    let line = playback.deliver(WRITTEN, "late words ABC");
    assert_eq!(&line, run.sent_lines.last().unwrap());
    playback.until(&["\"tool_result\""]);
    assert!(playback.taken.is_empty());
    playback.finish();
    assert_eq!(playback.taken, [WRITTEN]);
    assert!(playback.replies.is_empty() && playback.is_input_closed);
    assert_eq!(playback.reader.deliver("later", "x"), MessageRoute::Never);
}

#[test]
fn claude_that_got_words_too_late_keeps_what_it_had_said() {
    let run = one("claude", "message_late");
    let mut playback = Playback::new(&run);
    playback.until(&["\"tool_use\""]);
    // Written in time, but read by the client only after its model had finished.
    playback.deliver(WRITTEN, "late words ABC");
    playback.until(&["\"tool_result\""]);
    playback.until(&["\"result\"", "num_turns"]);
    assert!(!playback.is_input_closed && playback.taken.is_empty());
    let back = playback.replies.last().unwrap();
    assert_eq!(back["request"]["subtype"], "cancel_async_message");
    assert_eq!(playback.replies.len(), 1);
    playback.finish();
    assert_eq!(playback.taken, [WRITTEN]);
    assert!(playback.is_input_closed);
    let outcome = playback.reader.end(AgentEnd::code(0), "");
    let teamster_agents::AgentVerdict::Done { summary } = outcome.verdict else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        summary.matches("mock final message").count(),
        2,
        "{summary}"
    );
}

#[test]
fn claude_that_is_interrupted_begins_nothing_with_words_in_its_queue() {
    let run = one("claude", "message");
    let mut playback = Playback::new(&run);
    playback.until(&["\"tool_use\""]);
    let lines = |reader: &dyn OutputReader| match reader.interrupt() {
        Some(Interrupt::Line(lines)) => String::from_utf8(lines).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(lines(playback.reader.as_ref()).lines().count(), 1);
    playback.deliver(WRITTEN, "late words ABC");
    let text = lines(playback.reader.as_ref());
    let subtypes = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["request"]["subtype"].as_str().unwrap().to_owned()
    });
    let subtypes: Vec<String> = subtypes.collect();
    assert_eq!(subtypes, ["cancel_async_message", "interrupt"]);
}

#[test]
fn program_is_told_by_a_file_and_gemini_not_at_all() {
    let permissions = Permissions::default();
    let worktree = std::path::Path::new("/w/tree");
    let inbox = std::path::Path::new("/run/inbox.jsonl");
    let with_inbox = Job {
        inbox: Some(inbox),
        ..job(worktree, &permissions)
    };
    let command = driver("command:true");
    let route = |job: &Job<'_>| command.reader(job).deliver("d", "x");
    assert_eq!(route(&with_inbox), MessageRoute::InboxFile);
    assert_eq!(route(&job(worktree, &permissions)), MessageRoute::Never);
    let launch = command.launch(&with_inbox).unwrap();
    let named = ("TEAMSTER_INBOX".into(), inbox.into());
    assert!(launch.set.contains(&named), "{launch:?}");
    let gemini = driver("gemini").reader(&with_inbox).deliver("d", "x");
    assert_eq!(gemini, MessageRoute::Never);
}

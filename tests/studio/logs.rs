//! The live log of an agent: each line once and in order, whatever happens to the file and to the client.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use super::http::{Event, Events};
use super::{Studio, wait_for};
use crate::kit::TestProject;

const STREAM: &str = "/api/v1/teams/fix-auth/workers/worker-1/log/stream";

struct Logs {
    project: TestProject,
    studio: Studio,
}

impl Logs {
    fn new() -> Self {
        let project = TestProject::with_team();
        let studio = Studio::start(&project);
        Self { project, studio }
    }

    fn file(&self, name: &str) -> PathBuf {
        let folder = self.project.folder().join(".omc/logs/fix-auth/worker-1");
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(name)
    }

    fn write(&self, text: &str) {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.file("1.jsonl"))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn say(&self, text: &str) {
        self.write(&format!(
            "{}\n",
            json!({ "ts": "t", "from": "agent", "text": text })
        ));
    }

    /// Wakes up the server without a line in the log.
    fn say_to_other(&self) {
        std::fs::write(self.file("note"), "x").unwrap();
    }

    fn listen(&self, after: Option<&str>) -> Events {
        let mut request = self.studio.request("GET", STREAM);
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after);
        }
        let mut events = request.bearer(&self.studio.bearer).listen();
        assert_eq!(events.next().unwrap().name, "hello");
        events
    }
}

fn lines(event: &Event) -> Vec<String> {
    assert_eq!(event.name, "lines");
    let lines = event.data["lines"].as_array().unwrap().iter();
    lines
        .map(|line| line["text"].as_str().unwrap().to_owned())
        .collect()
}

/// Receives until this many lines have arrived.
fn hear(events: &mut Events, count: usize, place: &mut Option<String>) -> Vec<String> {
    let mut heard = Vec::new();
    while heard.len() < count {
        let event = events.next().expect("the stream goes on");
        heard.extend(lines(&event));
        *place = event.place;
    }
    heard
}

#[test]
fn a_line_is_there_soon_after_it_was_written_also_the_first_of_all() {
    let logs = Logs::new();
    let mut events = logs.listen(None);
    let nothing = events.next().unwrap();
    assert_eq!(
        (nothing.data["taskId"].is_null(), lines(&nothing).len()),
        (true, 0)
    );
    let mut waited = Vec::new();
    for number in 0..40 {
        let said = format!("line {number}");
        let begun = Instant::now();
        logs.say(&said);
        let event = events.next().unwrap();
        waited.push(begun.elapsed());
        assert_eq!(lines(&event), [said]);
        assert_eq!(event.data["taskId"], "1");
        assert_eq!(event.data["begins"], number == 0);
    }
    waited.sort();
    // Other tests run at the same time, so the slowest does not count.
    assert!(waited[20] < Duration::from_millis(100), "{waited:?}");
}

#[test]
fn nothing_is_missed_or_doubled_when_the_client_comes_back_and_the_log_is_put_aside() {
    let logs = Logs::new();
    let mut place = None;
    let mut heard = Vec::new();
    let mut said = Vec::new();
    for round in 0..6 {
        for number in 0..50 {
            let text = format!("{round}/{number}");
            logs.say(&text);
            said.push(text);
            // Rotate in the middle, like the worker does with a full log.
            if number == 20 && round % 2 == 1 {
                std::fs::rename(logs.file("1.jsonl"), logs.file("1.old.jsonl")).unwrap();
            }
        }
        let mut events = logs.listen(place.as_deref());
        heard.extend(hear(&mut events, 50, &mut place));
    }
    assert_eq!(heard, said);
    // The server is killed and another one replaces it.
    let Logs { project, studio } = logs;
    let port = studio.kill();
    let studio = Studio::start_on(&project, port, &[]);
    let logs = Logs { project, studio };
    logs.say("after it all");
    let mut events = logs.listen(place.as_deref());
    assert_eq!(hear(&mut events, 1, &mut place), ["after it all"]);
}

#[test]
fn a_log_that_was_emptied_or_replaced_begins_anew_and_so_does_another_task() {
    let logs = Logs::new();
    logs.say("one");
    logs.say("two");
    let mut events = logs.listen(None);
    let mut place = None;
    assert_eq!(hear(&mut events, 2, &mut place), ["one", "two"]);
    std::fs::write(logs.file("1.jsonl"), "").unwrap();
    logs.say("x");
    let event = loop {
        let event = events.next().unwrap();
        if !lines(&event).is_empty() {
            break event;
        }
        assert_eq!(event.data["begins"], true);
    };
    assert_eq!(lines(&event), ["x"]);
    // An invalid position: no line ends there.
    let other = std::fs::metadata(logs.file("1.jsonl")).unwrap();
    let wrong = format!("1.{}.3", std::os::unix::fs::MetadataExt::ino(&other));
    let event = logs.listen(Some(&wrong)).next().unwrap();
    assert_eq!(
        (lines(&event), event.data["begins"] == true),
        (vec!["x".to_owned()], true)
    );
    // A watcher may see a file between its creation and its first line, so it is created with the line in it.
    let made = logs.file("2.new");
    std::fs::write(&made, "{\"text\":\"of two\"}\n").unwrap();
    std::fs::rename(made, logs.file("2.jsonl")).unwrap();
    let event = events.next().unwrap();
    assert_eq!(
        (event.data["taskId"].as_str(), lines(&event)),
        (Some("2"), vec!["of two".to_owned()])
    );
    assert_eq!(event.data["begins"], true);
}

#[test]
fn no_secret_is_told_whether_its_line_comes_in_parts_or_is_very_long() {
    let logs = Logs::new();
    let secret = format!("sk-ant-api03-{}", "a1B2".repeat(24));
    let mut events = logs.listen(None);
    events.next().unwrap();
    let (first, second) = secret.split_at(30);
    logs.write(&format!("the key is {first}"));
    // Long enough to receive half a line, if it were sent.
    logs.say_to_other();
    logs.write(&format!("{second} and more\n"));
    // At the place where a long line is cut, and in a line of a megabyte.
    logs.say(&format!(
        "{} {secret} {}",
        "w ".repeat(4_060),
        "v ".repeat(2_000)
    ));
    logs.write(&format!(
        "{}{secret}{}\n",
        "x ".repeat(300_000),
        " y".repeat(300_000)
    ));
    logs.say("the end");
    let mut place = None;
    let mut heard = Vec::new();
    while heard.last().is_none_or(|last| last != "the end") {
        heard.extend(hear(&mut events, 1, &mut place));
    }
    assert_eq!(heard.len(), 4, "{}", heard.len());
    assert_eq!(heard[0], "the key is [redacted] and more");
    let all = heard.concat();
    assert!(
        !all.contains("sk-ant") && !all.contains("a1B2"),
        "{}",
        heard[1]
    );
    assert!(heard[2].starts_with("x x ") && heard[2].len() <= 8_220);
}

#[test]
fn a_client_that_reads_nothing_is_cut_off_and_goes_on_where_it_was() {
    let logs = Logs::new();
    let mut slow = logs.listen(None);
    let text = "long words ".repeat(600);
    // More than fits into the queue and the buffers of both ends of the connection.
    let count = 3_000;
    for number in 0..count {
        logs.say(&format!("{number} {text}"));
    }
    wait_for("the end of what follows the log", || {
        (logs.studio.threads("log") == 0).then_some(())
    });
    let mut heard: Vec<String> = Vec::new();
    let mut place = None;
    let mut cut = 0;
    while heard.len() < count {
        match slow.next() {
            Some(event) if event.name == "lagging" => cut += 1,
            Some(event) if event.name == "lines" => {
                if event.data["begins"] == true {
                    heard.clear();
                }
                heard.extend(lines(&event));
                place = event.place;
            }
            Some(event) => panic!("{event:?}"),
            None => slow = logs.listen(place.as_deref()),
        }
    }
    assert!(cut > 0, "nobody was told");
    let numbers: Vec<usize> = heard
        .iter()
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    let first = numbers[0];
    assert_eq!(numbers, (first..first + numbers.len()).collect::<Vec<_>>());
    assert_eq!(*numbers.last().unwrap(), count - 1);
}

#[test]
fn the_stream_of_a_log_is_guarded_like_every_stream() {
    let logs = Logs::new();
    let studio = &logs.studio;
    let cookie = format!("teamster-studio-{}={}", studio.port, studio.bearer);
    let ask = |headers: &[(&str, &str)]| {
        let mut request = studio.request("GET", STREAM);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.status()
    };
    let own = format!("http://127.0.0.1:{}", studio.port);
    assert_eq!(ask(&[]), 401);
    assert_eq!(ask(&[("Cookie", &cookie)]), 403, "which page asks?");
    assert_eq!(
        ask(&[("Cookie", &cookie), ("Origin", "http://evil.example")]),
        403
    );
    for site in ["cross-site", "same-site", "none"] {
        assert_eq!(
            ask(&[("Cookie", &cookie), ("Sec-Fetch-Site", site)]),
            403,
            "{site}"
        );
    }
    assert_eq!(
        ask(&[("Cookie", &cookie), ("Sec-Fetch-Site", "same-origin")]),
        200
    );
    assert_eq!(ask(&[("Cookie", &cookie), ("Origin", &own)]), 200);
    let nobody = STREAM.replace("worker-1", "nobody");
    assert_eq!(studio.get(&nobody).status, 404);
    assert_eq!(studio.get(&format!("{STREAM}?task=x")).status, 400);
}

//! Live changes: each once, in order, also across a restart of the server.

use std::time::Duration;
use teamster_testkit::recorded;

use serde_json::Value;

use super::Studio;
use super::http::Events;
use crate::kit::TestProject;

fn listen(studio: &Studio, after: Option<u64>, query: &str) -> Events {
    let path = format!("/api/v1/events?team=fix-auth{query}");
    let mut request = studio.request("GET", &path).bearer(&studio.bearer);
    if let Some(after) = after {
        request = request.header("Last-Event-ID", &after.to_string());
    }
    request.listen()
}

#[test]
fn a_stream_begins_with_what_was_missed_then_shows_everything_then_goes_on() {
    let project = TestProject::with_team();
    for number in 0..3 {
        project.task(&format!("Task {number}"), &[]);
    }
    let studio = Studio::start(&project);
    let mut events = listen(&studio, None, "&after=2");
    let hello = events.next().unwrap();
    assert_eq!(hello.name, "hello");
    assert_eq!(hello.data["team"], "fix-auth");
    for seq in [3, 4] {
        let event = events.next().unwrap();
        assert_eq!((event.name.as_str(), event.id), ("journal", Some(seq)));
        assert_eq!(event.data["type"], "task.created");
    }
    let view = events.next().unwrap();
    assert_eq!(view.name, "view");
    assert_eq!(view.data["seq"], 4);
    assert_eq!(view.data["tasks"].as_array().unwrap().len(), 3);
    let token = project.claim("worker-1", "1");
    let is_at_work = |patch: &Value| {
        let tasks = patch["tasks"].as_array();
        tasks.is_some_and(|tasks| tasks.iter().any(|task| task["state"] == "in_progress"))
    };
    both(&mut events, 5, is_at_work);
    project
        .run(["task", "complete", "1", "--token", &token])
        .succeeds();
    both(&mut events, 6, |patch| {
        patch["progress"]["completedTasks"] == 1
    });
}

/// Waits for an event of the journal and for its change of the view. The files may be seen before the event, so
/// either may come first.
fn both(events: &mut Events, seq: u64, changed: impl Fn(&Value) -> bool) {
    let (mut told, mut shown) = (false, false);
    while !(told && shown) {
        let event = events.next().expect("the stream goes on");
        match event.name.as_str() {
            "journal" => {
                assert_eq!(event.id, Some(seq));
                told = true;
            }
            "patch" => shown |= changed(&event.data),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_server_that_is_killed_and_started_again_sends_every_event_once() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let key = studio.bearer.clone();
    let mut seen: Vec<u64> = Vec::new();
    let mut events = listen(&studio, None, "&after=0");
    for number in 0..5 {
        project.task(&format!("Before {number}"), &[]);
    }
    while seen.last() != Some(&4) {
        seen.extend(events.next_of("journal").id);
    }
    let port = studio.kill();
    for number in 0..5 {
        project.task(&format!("Meanwhile {number}"), &[]);
    }
    let studio = Studio::start_on(&project, port, &[]);
    assert_eq!(studio.bearer, key, "the browser's cookie is still good");
    let mut events = listen(&studio, seen.last().copied(), "&after=0");
    for number in 0..5 {
        project.task(&format!("After {number}"), &[]);
    }
    while seen.last() != Some(&16) {
        seen.extend(events.next_of("journal").id);
    }
    let all: Vec<u64> = (1..=16).collect();
    assert_eq!(seen, all);
}

#[test]
fn a_client_that_does_not_read_is_cut_off_and_misses_nothing() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let store = project.store(Duration::ZERO);
    let team = "fix-auth".parse().unwrap();
    let mut slow = listen(&studio, None, "&after=0");
    assert_eq!(slow.next().unwrap().name, "hello");
    // It has to follow live events before it stops reading: while it catches up with the past, the server waits for
    // it. The view arrives when it has caught up.
    let mut seen = Vec::new();
    loop {
        let event = slow.next().unwrap();
        match event.name.as_str() {
            "journal" => seen.extend(event.id),
            "view" => break,
            _ => {}
        }
    }
    for marker in ["first", "second", "third"] {
        use teamster_store::Store;
        let data = serde_json::json!({ "text": marker });
        let event = recorded("agent.event", "worker-1", &data);
        let marked = store.record(&team, event).unwrap();
        while seen.last() != Some(&marked) {
            let event = slow.next().unwrap();
            if event.name == "journal" {
                seen.extend(event.id);
            }
        }
    }
    // More than fits into the queue and the buffers of both ends of the connection.
    let text = "long words ".repeat(400);
    let mut last = 0;
    let mut quick = listen(&studio, None, "&after=0");
    std::thread::scope(|scope| {
        // When the fast client has the last event, all events were offered to the slow one.
        scope.spawn(|| {
            loop {
                match quick.next() {
                    Some(event) if event.data["data"]["text"] == "the last" => break,
                    Some(_) => {}
                    None => quick = listen(&studio, None, "&after=0"),
                }
            }
        });
        for text in std::iter::repeat_n(text.as_str(), 6_000).chain(["the last"]) {
            use teamster_store::Store;
            let data = serde_json::json!({ "text": text });
            let event = recorded("agent.event", "worker-1", &data);
            last = store.record(&team, event).unwrap();
        }
    });
    let mut cut = 0;
    let mut events = slow;
    while seen.last() != Some(&last) {
        match events.next() {
            Some(event) if event.name == "journal" => seen.extend(event.id),
            Some(event) if event.name == "lagging" => cut += 1,
            Some(_) => {}
            None => events = listen(&studio, seen.last().copied(), ""),
        }
    }
    let all: Vec<u64> = (1..=last).collect();
    assert!(seen == all, "{} of {}", seen.len(), all.len());
    assert!(cut > 0, "nobody was told");
}

#[test]
fn all_teams_are_told_in_short_whenever_one_changes() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let request = studio.request("GET", "/api/v1/events");
    let mut events = request.bearer(&studio.bearer).listen();
    assert_eq!(events.next().unwrap().name, "hello");
    let overview = events.next().unwrap();
    assert_eq!(overview.name, "overview");
    assert_eq!(overview.data["teams"][0]["id"], "fix-auth");
    project.task("Fix it", &[]);
    while events.next_of("overview").data["teams"][0]["progress"]["totalTasks"] != 1 {}
    project.run(["team", "create", "other"]).succeeds();
    while events.next_of("overview").data["teams"]
        .as_array()
        .unwrap()
        .len()
        != 2
    {}
}

#[test]
fn a_team_that_goes_away_ends_its_stream_in_words() {
    let project = TestProject::with_team();
    let studio = Studio::start(&project);
    let mut events = listen(&studio, None, "");
    events.next_of("view");
    project
        .run(["team", "delete", "fix-auth", "--force"])
        .succeeds();
    let gone = events.next_of("gone");
    assert!(gone.data["message"].as_str().unwrap().contains("fix-auth"));
    assert!(events.next().is_none());
    assert_eq!(studio.get("/api/v1/teams/fix-auth").status, 404);
}

#[test]
fn shared_stream_carries_several_teams_and_each_channel_ends_alone() {
    let project = TestProject::with_team();
    project.run(["team", "create", "other-team"]).succeeds();
    let studio = Studio::start(&project);
    let request = studio.request("GET", "/api/v1/stream");
    let mut events = request.bearer(&studio.bearer).listen();
    let hello = events.next().unwrap();
    assert_eq!((hello.name.as_str(), hello.channel), ("hello", None));
    let stream = hello.data["stream"].as_str().unwrap().to_owned();
    let follow = |open: Value, close: Value| {
        let body = serde_json::json!({ "open": open, "close": close });
        studio.post(&format!("/api/v1/stream/{stream}"), &body)
    };
    let both = serde_json::json!([
        { "channel": 1, "team": "fix-auth", "last": "0" },
        { "channel": 2, "team": "other-team", "overview": true },
        { "channel": 3, "team": "nobody" },
    ]);
    assert_eq!(follow(both, serde_json::json!([])).json()["channels"], 3);
    // Each channel begins like a separate connection, and one that cannot be opened reports the reason.
    let mut heard: std::collections::BTreeSet<(u64, String)> = std::collections::BTreeSet::new();
    while heard.len() < 7 {
        let event = events.next().unwrap();
        if event.name == "refused" {
            assert_eq!(event.data["status"], 404);
        }
        heard.insert((event.channel.unwrap(), event.name));
    }
    let expected: Vec<(u64, &str)> = vec![
        (1, "hello"),
        (1, "journal"),
        (1, "view"),
        (2, "hello"),
        (2, "overview"),
        (2, "view"),
        (3, "refused"),
    ];
    for (channel, name) in expected {
        assert!(heard.contains(&(channel, name.to_owned())), "{heard:?}");
    }
    // A closed channel is silent, and the other one continues.
    assert_eq!(
        follow(serde_json::json!([]), serde_json::json!([1])).json()["channels"],
        1
    );
    project.task("Not told", &["--team", "fix-auth"]);
    project
        .run([
            "task",
            "create",
            "--team",
            "other-team",
            "--subject",
            "Told",
        ])
        .succeeds();
    loop {
        let event = events.next().unwrap();
        assert_ne!(event.channel, Some(1), "{event:?}");
        if event.name == "journal" && event.data["type"] == "task.created" {
            assert_eq!(event.channel, Some(2));
            break;
        }
    }
    // No other connection can change it, and it ends with its connection.
    let unknown = studio.post("/api/v1/stream/unknown", &serde_json::json!({}));
    assert_eq!(unknown.status, 404);
    drop(events);
    super::wait_for("the end of the stream", || {
        let answer = studio.post(&format!("/api/v1/stream/{stream}"), &serde_json::json!({}));
        (answer.status == 404).then_some(())
    });
}

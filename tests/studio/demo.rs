//! A whole run in Studio: `teamster demo`, whose numbers are known from its script.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Studio;
use super::http::Request;
use super::terminal::Terminal;
use crate::kit::{Call, TestProject};

/// The tokens that the agents use by the demo's script.
const TOKENS: u64 = 47_730;
const USD: f64 = 0.18;

/// Makes a call in the demo's own environment.
fn in_demo(call: Call, folder: &Path) -> Call {
    call.folder(&folder.join("project"))
        .env("TEAMSTER_PROJECT", folder.join("project"))
        .env("TEAMSTER_CLAUDE_DIR", folder.join("claude"))
        .env("XDG_CONFIG_HOME", folder.join("config"))
}

fn studio_of(test: &TestProject, folder: &Path) -> Studio {
    let printed = test.home().join("studio-of-demo.out");
    let file = std::fs::File::create(&printed).unwrap();
    let call = test.call(["studio", "--json", "--port", "0"]);
    Studio::of(in_demo(call, folder).spawn_into(file), printed)
}

#[test]
fn a_demo_shows_itself_live_and_what_is_left_says_the_same_everywhere() {
    let test = TestProject::new();
    let mut demo = test.call(["demo", "--json", "--keep-dir", "kept"]).follow();
    let begin = demo.json();
    let folder = PathBuf::from(begin["folder"].as_str().unwrap());
    let said = demo.json();
    assert_eq!(said["type"], "studio");
    let port = u16::try_from(said["port"].as_u64().unwrap()).unwrap();
    let bearer = said["bearer"].as_str().unwrap().to_owned();
    while demo.json()["type"] != "run.started" {}
    let mut events = Request::new(port, "GET", "/api/v1/events?team=demo&after=0")
        .bearer(&bearer)
        .listen();
    let mut last = 0;
    loop {
        let event = events.next_of("journal");
        let data = event.data;
        last += 1;
        assert_eq!(data["seq"], last, "each event once, in order");
        if data["type"] == "run.finished" {
            break;
        }
    }
    drop(events);
    while demo.json()["type"] != "demo_ended" {}
    super::wait_for("the end of the demo", || (!demo.is_running()).then_some(()));
    let nobody = std::net::TcpStream::connect(("127.0.0.1", port));
    assert!(nobody.is_err(), "its Studio ended with it");

    let studio = studio_of(&test, &folder);
    let view = studio.json("/api/v1/teams/demo");
    is_whole(&view);
    let report = folder.join("project/.omc/reports/demo/report.md");
    let report = std::fs::read_to_string(report).unwrap();
    assert!(report.contains("47,730"), "{report}");
    let status = in_demo(test.call(["status", "--json"]), &folder).run();
    let status = &status.succeeds().json()["teams"][0];
    assert_eq!(status["problems"], json!([]));
    for (shown, told) in view["workers"]
        .as_array()
        .unwrap()
        .iter()
        .zip(status["workers"].as_array().unwrap())
    {
        for key in ["name", "status", "verdict", "evidence"] {
            assert_eq!(shown[key], told[key], "{key}");
        }
    }
    // Its branches are gone, but not its changes.
    let changes = studio.json("/api/v1/teams/demo/changes");
    assert_eq!(changes["branches"][0]["name"], "@gate");
    let files = changes["branches"][0]["files"].as_array().unwrap();
    let files: Vec<&str> = files
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(
        files,
        ["CHANGES.md", "lib/discount.sh", "lib/sum.sh", "receipt.sh"]
    );
    let diff = studio.json("/api/v1/teams/demo/changes/@gate");
    assert!(
        diff["text"]
            .as_str()
            .unwrap()
            .contains("+echo \"thank you\"")
    );
    every_moment_is_what_a_replay_gives(&test, &studio, &folder, last);
}

/// Asserts the team's state after its run, by the script and the report.
fn is_whole(view: &Value) {
    assert_eq!(view["state"], "ended");
    assert_eq!(view["problems"], json!([]), "nothing needs a person");
    assert_eq!(view["cost"]["total"]["tokens"], TOKENS);
    assert_eq!(view["cost"]["total"]["costUsd"], USD);
    assert_eq!(view["cost"]["total"]["atLeast"], false);
    let by_worker = view["cost"]["byWorker"].as_array().unwrap();
    let of_workers = by_worker
        .iter()
        .map(|one| one["spent"]["tokens"].as_u64().unwrap());
    assert_eq!(of_workers.sum::<u64>(), TOKENS);
    let workers = view["workers"].as_array().unwrap();
    let (reviewers, workers): (Vec<&Value>, Vec<&Value>) = workers
        .iter()
        .partition(|worker| worker["role"] == "reviewer");
    assert_eq!((reviewers.len(), workers.len()), (1, 3));
    assert_eq!(
        reviewers[0]["pid"],
        Value::Null,
        "it is asked, and has no process of its own"
    );
    for worker in workers {
        assert_eq!(worker["status"], "stopped", "{worker}");
        assert_eq!(
            worker["evidence"],
            json!(["it ended in order: the gate opens"])
        );
    }
    assert_eq!(view["tasks"][3]["fixes"], "2", "task 4 resolves a conflict");
    assert_eq!(view["run"]["finished"]["outcome"], "complete");
    let merged = view["merges"].as_array().unwrap();
    let merged = merged.iter().filter(|merge| merge["state"] == "merged");
    assert_eq!(merged.count(), 6);
    assert_eq!(view["approval"]["verified"], true);
    assert_eq!(view["approval"]["answer"]["answer"], "approve");
}

fn every_moment_is_what_a_replay_gives(
    test: &TestProject,
    studio: &Studio,
    folder: &Path,
    last: u64,
) {
    for seq in 1..=last {
        let words = ["replay", "demo", "--to", &seq.to_string(), "--json"];
        let replayed = in_demo(test.call(words), folder).run().succeeds().json();
        let mut scrubbed = studio.json(&format!("/api/v1/teams/demo?at={seq}"));
        let mut view = replayed["view"].clone();
        for key in ["history", "kind", "project", "description"] {
            scrubbed[key].take();
            view[key].take();
        }
        assert_eq!(scrubbed, view, "at {seq}");
    }
}

#[test]
fn a_demo_at_a_terminal_stays_for_as_long_as_somebody_looks_at_its_page() {
    let test = TestProject::new();
    let call = test
        .call(["demo", "--keep-dir", "kept"])
        .env("TERM", "xterm-256color");
    let terminal = Terminal::of_call(call);
    // The address is longer than the terminal is wide, so line breaks are ignored.
    let url = super::wait_for("the address", || {
        let shown = terminal.text().replace('\n', "");
        let rest = shown.split_once("http://127.0.0.1:")?.1;
        let (port, rest) = rest.split_once("/?token=")?;
        let token: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
        (token.len() == 64).then(|| (port.parse::<u16>().unwrap(), token))
    });
    let (port, token) = url;
    let entered = Request::new(port, "GET", &format!("/?token={token}"))
        .header("Sec-Fetch-Site", "none")
        .header("Sec-Fetch-Mode", "navigate")
        .send();
    let cookie = entered.header("set-cookie").unwrap();
    let cookie = cookie.split_once(';').unwrap().0.to_owned();
    let events = Request::new(port, "GET", "/api/v1/events")
        .header("Cookie", &cookie)
        .header("Sec-Fetch-Site", "same-origin")
        .listen();
    terminal.wait_for("You are looking at it in Studio");
    drop(events);
    terminal.ends();
}

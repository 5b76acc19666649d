//! What a person at the page waits for, measured in the page itself, in a real browser.
//!
//! `web/e2e/latency.mjs` drives the browser and says when each change was painted. Changes are made here, at an even pace;
//! each carries its own time, of the one clock of the machine.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use teamster_journal::payload::AgentEventRecorded;
use teamster_journal::{EventKind, NewEvent};
use teamster_store::{FileStore, Store};
use teamster_types::steps::Edit;

use super::commands::beat_all;
use super::table::{Limit, Row};
use super::{Programs, Size};
use crate::kit;
use crate::product::{Place, TEAM};
use crate::web::browser;
use crate::workload::CONTENT;

/// A first view may take so long,
const FIRST_VIEW: f64 = 1.0;
/// and a change may be so long on its way to the screen, in 99 of 100 cases.
const CHANGE: f64 = 0.1;
/// Changes that are made in a second.
const PER_SECOND: u32 = 100;

const ROWS: [(&str, &str); 4] = [
    ("browser-first", "the first view in a browser"),
    ("browser-file", "a change of a state file → the screen"),
    ("browser-task", "a change of a task → the screen"),
    ("browser-event", "an event of the journal → the screen"),
];

pub(super) fn measure(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let chromium = match browser::chromium() {
        Ok(chromium) => chromium,
        Err(lack) => {
            println!("  the page was not measured in a browser: {lack}");
            let missing =
                |(key, what): (&'static str, &str)| Row::missing(key, what.to_owned(), "100 ms");
            return Ok(ROWS.map(missing).into());
        }
    };
    let place = Place::on_disk()?;
    let store = kit::team_of(&place, size.workers)?;
    kit::free_tasks(&store, size.tasks)?;
    lengthen(&place, size)?;
    beat_all(&store, size)?;
    let server = Server::start(programs, &place)?;
    let mut page = Page::open(&chromium)?;
    // Few enough for the quick run, and enough for a p99 in the whole one.
    let changes = size.studio_changes * 2 / 3;
    Ok(vec![
        first_view(&mut page, &server, size)?,
        state_file(&mut page, &place, changes)?,
        tasks(&mut page, &store, changes)?,
        events(&mut page, &store, changes)?,
    ])
}

/// Makes the journal as long as a run leaves it: most events are of agents.
fn lengthen(place: &Place, size: Size) -> Result<()> {
    let file = place.team().join("events.jsonl");
    let text = std::fs::read_to_string(&file)?;
    let last: Value = serde_json::from_str(text.lines().last().context("an empty journal")?)?;
    let begun = last["seq"].as_u64().context("no position")?;
    let mut out = BufWriter::new(std::fs::OpenOptions::new().append(true).open(&file)?);
    for seq in begun + 1..=size.studio_events as u64 {
        let (kind, data) = match seq % 10 {
            0 => (
                "usage",
                json!({ "tokensIn": 1200, "tokensOut": 80, "cachedIn": 300, "usd": 0.01 }),
            ),
            5 => (
                "message.sent",
                json!({ "content": CONTENT, "to": "lead", "messageId": seq.to_string() }),
            ),
            _ => ("agent.event", json!({ "what": "tool", "text": CONTENT })),
        };
        let event = json!({
            "seq": seq, "id": format!("long-{seq}"), "ts": last["ts"], "team": TEAM, "type": kind,
            "actor": format!("w{}", seq % size.workers.max(1) as u64 + 1), "data": data,
        });
        writeln!(out, "{event}")?;
    }
    Ok(out.flush()?)
}

fn first_view(page: &mut Page, server: &Server, size: Size) -> Result<Row> {
    let (key, what) = ROWS[0];
    let answer = page.ask(&json!({
        "wish": "first", "address": server.said["address"], "port": server.said["port"],
        "bearer": server.said["bearer"], "view": format!("#/team/{TEAM}/team"),
        "words": ["task 1", "w1", format!("0 of {} tasks done", size.tasks)],
    }))?;
    let took = answer["milliseconds"].as_f64().context("no time")? / 1e3;
    Ok(Row {
        key,
        what: format!(
            "{what}: {} tasks, {} workers, {} events",
            size.tasks, size.workers, size.studio_events
        ),
        against: "1 s".to_owned(),
        ratio: took / FIRST_VIEW,
        limit: Some(Limit::AtMost(1.0)),
        times: format!("{:.0} ms from the address to the screen", took * 1e3),
    })
}

/// A state file that another program writes.
fn state_file(page: &mut Page, place: &Place, changes: usize) -> Result<Row> {
    let folder = place.project().join(".bkit");
    std::fs::create_dir_all(&folder)?;
    let write = |feature: &str| -> Result<()> {
        let state = json!({
            "version": "1.0", "enabled": true, "teamName": "foreign", "feature": feature,
            "lastUpdated": kit::now(), "sessionId": "bench", "teammates": [],
        });
        std::fs::write(folder.join(".new"), state.to_string())?;
        std::fs::rename(folder.join(".new"), folder.join("agent-state.json"))?;
        Ok(())
    };
    write("a feature")?;
    // The session's own name in the API is a matter of the server's: a person follows the link.
    page.ask(&json!({ "wish": "follow", "name": "foreign" }))?;
    page.ask(&json!({ "wish": "watch", "selector": ".head" }))?;
    let took = page.times(changes, |text| write(text))?;
    Ok(latency(ROWS[1], &took))
}

/// A task whose subject changes.
fn tasks(page: &mut Page, store: &FileStore, changes: usize) -> Result<Row> {
    let (team, task) = (kit::team()?, "1".parse()?);
    let selector = "[role=list][aria-label=Tasks] button.task";
    page.ask(
        &json!({ "wish": "watch", "view": format!("#/team/{TEAM}/team"), "selector": selector }),
    )?;
    let took = page.times(changes, |text| {
        let edit = Edit {
            subject: Some(text.to_owned()),
            ..Edit::default()
        };
        store.update_task(&team, "user", &task, &edit)?;
        Ok(())
    })?;
    Ok(latency(ROWS[2], &took))
}

/// An event of an agent, in the list of what happens.
fn events(page: &mut Page, store: &FileStore, changes: usize) -> Result<Row> {
    let team = kit::team()?;
    page.ask(&json!({
        "wish": "watch", "view": format!("#/team/{TEAM}/team"), "press": "Activity", "selector": "[data-event]",
    }))?;
    let took = page.times(changes, |text| {
        let event = AgentEventRecorded {
            what: "tool".to_owned(),
            text: text.to_owned(),
            ..AgentEventRecorded::default()
        };
        store.record(&team, NewEvent::new("w1", EventKind::AgentEvent(event)))?;
        Ok(())
    })?;
    Ok(latency(ROWS[3], &took))
}

fn latency((key, what): (&'static str, &str), took: &[f64]) -> Row {
    let mut sorted = took.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: usize| {
        let place = sorted.len() * share / 100;
        sorted[place.min(sorted.len() - 1)]
    };
    Row {
        key,
        what: format!("{what}, p99 at {PER_SECOND} in a second"),
        against: "100 ms".to_owned(),
        ratio: at(99) / CHANGE,
        limit: Some(Limit::AtMost(1.0)),
        times: format!(
            "p50 {:.1} ms, p99 {:.1} ms, the slowest {:.1} ms of {}",
            at(50) * 1e3,
            at(99) * 1e3,
            at(100) * 1e3,
            sorted.len()
        ),
    }
}

/// A browser with one page, and the script that drives it.
struct Page {
    script: Child,
    wishes: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Page {
    fn open(chromium: &std::path::Path) -> Result<Self> {
        let mut script = browser::script("latency.mjs")?
            .env("CHROMIUM", chromium)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start node")?;
        let wishes = script.stdin.take().context("no input")?;
        let answers = BufReader::new(script.stdout.take().context("no output")?);
        let mut page = Self {
            script,
            wishes,
            answers,
        };
        page.answer()?;
        Ok(page)
    }

    fn ask(&mut self, wish: &Value) -> Result<Value> {
        writeln!(self.wishes, "{wish}")?;
        self.answer().with_context(|| format!("asked for {wish}"))
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context("the browser said nothing")?;
        match answer.get("error") {
            Some(error) => bail!("the browser: {error}"),
            None => Ok(answer),
        }
    }

    /// Makes changes whose text tells their time, at an even pace; how long each took to the screen, in seconds. Where
    /// several are shown at once, the last of them tells of those before it.
    fn times(
        &mut self,
        count: usize,
        mut change: impl FnMut(&str) -> Result<()>,
    ) -> Result<Vec<f64>> {
        let start = Instant::now();
        let mut sent = Vec::with_capacity(count);
        for number in 0..count {
            let due = start + Duration::from_secs(1) / PER_SECOND * u32::try_from(number)?;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
            let now = u64::try_from(now)?;
            change(&format!("@{now}@"))?;
            sent.push(now);
        }
        let last = sent.last().context("nothing was changed")?;
        let answer = self.ask(&json!({ "wish": "seen", "last": last }))?;
        let mut seen: Vec<(u64, f64)> = serde_json::from_value(answer["seen"].clone())?;
        seen.sort_unstable_by_key(|(sent, _)| *sent);
        sent.iter()
            .map(|sent| {
                let later = seen.partition_point(|(shown, _)| shown < sent);
                let first = seen[later..].iter().map(|(_, at)| *at);
                let at = first.fold(f64::INFINITY, f64::min);
                let at = Duration::try_from_secs_f64(at / 1e3)?;
                Ok(at
                    .saturating_sub(Duration::from_micros(*sent))
                    .as_secs_f64())
            })
            .collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // The script closes the browser when its input ends.
        let _ = self.wishes.write_all(b"{\"wish\":\"end\"}\n");
        let _ = self.script.wait();
    }
}

/// A server that runs until it is dropped.
struct Server {
    child: Child,
    said: Value,
}

impl Server {
    fn start(programs: &Programs, place: &Place) -> Result<Self> {
        let words = ["studio", "--port", "0", "--json"];
        let mut child = programs
            .product
            .command(place, words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let said = serde_json::from_str(&line).context("the server printed nothing")?;
        Ok(Self { child, said })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

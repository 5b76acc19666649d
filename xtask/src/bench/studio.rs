//! The latency for a person at the page: the first view of a large team, and a change on its way to the screen.
//!
//! Both are measured at the server, by a client of its stream, and in a real browser. There `web/e2e/latency.mjs`
//! drives the page and reports when each change was painted; each change contains its own time, by the machine's
//! clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use teamster_fs::Durability;
use teamster_journal::payload::{AgentAction, AgentEventRecorded};
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_store::Store;
use teamster_types::transitions::TaskEdit;

use super::commands::beat_all;
use super::processes::most_megabytes;
use super::{Bench, Row, TASKS, WORKERS, percentile};
use crate::fixture;
use crate::product::{TEAM, TempProject, list, text, unix_time, wait_for, wait_until};
use crate::{ci, web};
use workload::CONTENT;

/// The time limit for a first view, in seconds.
const FIRST_VIEW: f64 = 1.0;
/// The limit for the 99th percentile of the latency of a change, in milliseconds.
const CHANGE: f64 = 100.0;
/// The memory limit of the server with a journal of the usual length.
const MEGABYTES: f64 = 150.0;
/// The rate of changes per second.
const PER_SECOND: u32 = 100;

/// Measures the server by a client of its stream.
pub(super) fn server(bench: &Bench) -> Result<Vec<Row>> {
    let (usual, many) = bench.size((100_000, 1_000_000), (20_000, 50_000));
    let (project, server) = Server::with_team(bench, usual)?;
    let first = server.first_view()?;
    let what = format!("the first view of {TASKS} tasks, {WORKERS} workers and {usual} events");
    let times = format!("{:.0} ms with the server's start", first * 1e3);
    let mut rows = vec![first_row("studio-first", &what, first, times)];
    let store = project.store(Durability::Fast)?;
    let changes = bench.size(2_000, 300);
    let (events, views) = events_of(&server, &store, changes)?;
    let what = "an event of the journal → a client of the stream";
    rows.push(latency("studio-event", what, &events, CHANGE));
    let what = "an event of the journal → the view of a client, changed";
    rows.push(latency("studio-patch", what, &views, CHANGE));
    rows.push(state_file_at_server(&server, &project, changes)?);
    let memory = most_megabytes(server.child.id())?;
    let what = "the most memory that the server ever had for this";
    rows.push(Row::of_memory("studio-memory", what, memory, MEGABYTES));
    drop((server, project));
    let (_project, server) = Server::with_team(bench, many)?;
    let first = server.first_view()?;
    wait_until("the journal is read", Duration::from_secs(300), || {
        let view = server.get(&format!("/api/v1/teams/{TEAM}"))?;
        Ok(view["history"]["complete"] == true)
    })?;
    let what = format!("the first view with a journal of {many} events");
    let times = format!(
        "{:.0} ms, all of it counted in after {:.1} s, {:.1} MB at most",
        first * 1e3,
        server.started.elapsed().as_secs_f64(),
        most_megabytes(server.child.id())?
    );
    rows.push(first_row("studio-long", &what, first, times));
    Ok(rows)
}

/// Measures the page in a real browser.
pub(super) fn browser(bench: &Bench) -> Result<Vec<Row>> {
    let chromium = match web::browser() {
        Ok(chromium) => chromium,
        Err(why) => {
            ci::skip("browser rows of the benchmark", &format!("{why:#}"))?;
            return Ok(Vec::new());
        }
    };
    // Few changes for the quick run, and enough for a p99 in the full one.
    let (events, changes) = bench.size((100_000, 1_333), (20_000, 500));
    let (project, server) = Server::with_team(bench, events)?;
    let store = project.store(Durability::Fast)?;
    let mut page = Page::open(&chromium)?;
    let (team, task) = (fixture::team()?, "1".parse()?);
    let view = format!("#/team/{TEAM}/team");
    let mut rows = vec![first_view_in_page(&mut page, &server, &view, events)?];
    write_state(&project, "a feature")?;
    // The server decides the session's id in the API, so this follows the link like a person.
    page.ask(&json!({ "wish": "follow", "name": "foreign" }))?;
    let mut measure = |key, what: &str, watch: &Value, change: &dyn Fn(&str) -> Result<()>| {
        page.ask(watch)?;
        let took = page.times(changes, change)?;
        rows.push(latency(key, &format!("{what} → the screen"), &took, CHANGE));
        anyhow::Ok(())
    };
    measure(
        "browser-file",
        "a change of a state file",
        &json!({ "wish": "watch", "selector": ".head" }),
        &|text| write_state(&project, text),
    )?;
    let selector = "[role=list][aria-label=Tasks] button.task";
    measure(
        "browser-task",
        "a change of a task",
        &json!({ "wish": "watch", "view": view, "selector": selector }),
        &|text| {
            let edit = TaskEdit {
                subject: Some(text.to_owned()),
                ..TaskEdit::default()
            };
            let updated = store.update_task(&team, &EventActor::Person, &task, &edit);
            Ok(updated.map(drop)?)
        },
    )?;
    measure(
        "browser-event",
        "an event of the journal",
        &json!({ "wish": "watch", "view": view, "press": "Activity", "selector": "[data-event]" }),
        &|text| Ok(store.record(&team, tool_used("w1", text)).map(drop)?),
    )?;
    Ok(rows)
}

/// Makes a team with tasks, workers with heartbeats, and a journal of this length as a run leaves it: most events are
/// of agents.
fn large_team(events: usize) -> Result<TempProject> {
    let project = TempProject::on_disk()?;
    let store = fixture::create_team(&project, WORKERS)?;
    fixture::create_tasks(&store, TASKS)?;
    fixture::fill_journal(&project, events, |seq| {
        let (kind, data) = match seq % 10 {
            0 => {
                let usage = json!({
                    "provider": "scripted", "model": null, "tokensIn": 1200, "tokensOut": 80, "cachedIn": 300,
                    "cacheWrite": 0, "reasoning": 0, "usd": 0.01, "atLeast": false,
                });
                ("usage", usage)
            }
            5 => {
                let message =
                    json!({ "content": CONTENT, "to": "lead", "messageId": seq.to_string() });
                ("message.sent", message)
            }
            _ => ("agent.event", json!({ "what": "tool", "text": CONTENT })),
        };
        (format!("w{}", seq % WORKERS + 1), kind, data)
    })?;
    beat_all(&store)?;
    Ok(project)
}

/// Writes a state file like another program.
fn write_state(project: &TempProject, feature: &str) -> Result<()> {
    let folder = project.folder().join(".bkit");
    std::fs::create_dir_all(&folder)?;
    let state = json!({
        "version": "1.0", "enabled": true, "teamName": "foreign", "feature": feature,
        "lastUpdated": fixture::now(), "sessionId": "bench", "teammates": [],
    });
    let (new, file) = (folder.join(".new"), folder.join("agent-state.json"));
    std::fs::write(&new, state.to_string())?;
    Ok(std::fs::rename(new, file)?)
}

/// Returns the latencies of events to a client, and of their changes of the view, in seconds.
pub(super) fn events_of(
    server: &Server,
    store: &dyn Store,
    changes: usize,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let team = fixture::team()?;
    let listen = |wanted: &'static str| {
        server.listen(TEAM, move |name, data| {
            (name == wanted).then(|| data["seq"].as_u64()).flatten()
        })
    };
    let (journal, patches) = (listen("journal")?, listen("patch")?);
    let workers = WORKERS as u64;
    let sent = paced(changes, |number| {
        let worker = format!("w{}", number % workers + 1);
        Ok(store.record(&team, tool_used(&worker, CONTENT))?)
    })?;
    let events = arrival_times(&sent, &journal, true)?;
    let views = arrival_times(&sent, &patches, false)?;
    Ok((events, views))
}

/// Measures the latency to a client of a state file that another program writes. Several changes may arrive as one.
fn state_file_at_server(server: &Server, project: &TempProject, changes: usize) -> Result<Row> {
    write_state(project, "0")?;
    let session = wait_for("the state file is shown", Duration::from_secs(30), || {
        let answer = server.get("/api/v1/teams")?;
        let found = list(&answer["teams"]).find(|row| row["kind"] == "state-file");
        Ok(found.map(|row| text(&row["id"]).to_owned()))
    })?;
    let arrivals = server.listen(&session, |name, data| {
        let feature = data["session"]["feature"].as_str()?;
        (name == "view").then(|| feature.parse().ok()).flatten()
    })?;
    let sent = paced(changes, |number| {
        write_state(project, &(number + 1).to_string())?;
        Ok(number + 1)
    })?;
    let what = "a change of a state file → a client of the stream";
    let took = arrival_times(&sent, &arrivals, false)?;
    Ok(latency("studio-file", what, &took, CHANGE))
}

/// Makes changes at a steady rate and returns the result of each, with its start time.
fn paced<T>(count: usize, mut change: impl FnMut(u64) -> Result<T>) -> Result<Vec<(T, Instant)>> {
    let start = Instant::now();
    let mut sent = Vec::with_capacity(count);
    for number in 0..count as u64 {
        let due = start + Duration::from_secs(1) / PER_SECOND * u32::try_from(number)?;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let at = Instant::now();
        sent.push((change(number)?, at));
    }
    Ok(sent)
}

/// Returns how long each change took to arrive, in seconds. If `each` has to arrive by itself, a missing or duplicate
/// one is an error; otherwise a later one stands for those before it.
fn arrival_times(
    sent: &[(u64, Instant)],
    arrivals: &Receiver<(u64, Instant)>,
    each: bool,
) -> Result<Vec<f64>> {
    let last = sent.last().context("nothing was sent")?.0;
    let mut came: Vec<(u64, Instant)> = Vec::new();
    while came.last().is_none_or(|(number, _)| *number < last) {
        let arrival = arrivals.recv_timeout(Duration::from_secs(30));
        came.push(arrival.context("a change did not arrive")?);
    }
    let is_twice = came.windows(2).any(|two| two[0].0 >= two[1].0);
    ensure!(!each || !is_twice, "an event came twice");
    let time = |(number, at): &(u64, Instant)| {
        let later = came.iter().find(|(other, _)| other >= number);
        let found = later.filter(|(other, _)| !each || other == number);
        let (_, arrived) = found.with_context(|| format!("change {number} did not arrive"))?;
        Ok(arrived.saturating_duration_since(*at).as_secs_f64())
    };
    sent.iter().map(time).collect()
}

/// Returns the row of the latencies of changes, in seconds, with its limit in milliseconds.
pub(super) fn latency(key: &'static str, what: &str, took: &[f64], limit: f64) -> Row {
    let [p50, p99, slowest] = [50, 99, 100].map(|percent| percentile(took, percent) * 1e3);
    let count = took.len();
    let times = format!("p50 {p50:.1} ms, p99 {p99:.1} ms, the slowest {slowest:.1} ms of {count}");
    let what = format!("{what}, p99 at {PER_SECOND} in a second");
    Row::of_limit(key, &what, (p99, limit), "ms", times)
}

fn first_view_in_page(page: &mut Page, server: &Server, view: &str, events: usize) -> Result<Row> {
    let answer = page.ask(&json!({
        "wish": "first", "address": server.printed["address"], "port": server.printed["port"],
        "bearer": server.printed["bearer"], "view": view,
        "words": ["task 1", "w1", format!("0 of {} tasks done", TASKS)],
    }))?;
    let took = answer["milliseconds"].as_f64().context("no time")? / 1e3;
    let what =
        format!("the first view in a browser: {TASKS} tasks, {WORKERS} workers, {events} events");
    let times = format!("{:.0} ms from the address to the screen", took * 1e3);
    Ok(first_row("browser-first", &what, took, times))
}

fn first_row(key: &'static str, what: &str, seconds: f64, times: String) -> Row {
    Row::of_limit(key, what, (seconds, FIRST_VIEW), "s", times)
}

/// Returns an event that says that an agent used a tool.
fn tool_used(worker: &str, text: &str) -> NewEvent {
    let event = AgentEventRecorded {
        what: AgentAction::Tool,
        text: text.to_owned(),
        ..AgentEventRecorded::default()
    };
    NewEvent::new(worker, EventKind::AgentEvent(event))
}

/// A browser with one page, and the script that drives it.
struct Page {
    script: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Page {
    fn open(chromium: &Path) -> Result<Self> {
        let mut command = web::script("latency.mjs");
        command.env("CHROMIUM", chromium).stdin(Stdio::piped());
        let mut script = command.stdout(Stdio::piped()).spawn()?;
        let requests = script.stdin.take().context("no input")?;
        let answers = BufReader::new(script.stdout.take().context("no output")?);
        let mut page = Self {
            script,
            requests,
            answers,
        };
        page.answer()?;
        Ok(page)
    }

    fn ask(&mut self, request: &Value) -> Result<Value> {
        writeln!(self.requests, "{request}")?;
        self.answer()
            .with_context(|| format!("asked for {request}"))
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context("the browser printed nothing")?;
        match answer.get("error") {
            Some(error) => bail!("the browser: {error}"),
            None => Ok(answer),
        }
    }

    /// Makes changes whose text contains their time, at a steady rate, and returns how long each took to the screen,
    /// in seconds. Where several are shown at once, the last of them stands for those before it.
    fn times(
        &mut self,
        count: usize,
        mut change: impl FnMut(&str) -> Result<()>,
    ) -> Result<Vec<f64>> {
        let sent = paced(count, |_| {
            let now = u64::try_from(unix_time().as_micros())?;
            change(&format!("@{now}@"))?;
            Ok(now)
        })?;
        let last = sent.last().context("nothing was changed")?.0;
        let answer = self.ask(&json!({ "wish": "seen", "last": last }))?;
        let mut seen: Vec<(u64, f64)> = serde_json::from_value(answer["seen"].clone())?;
        seen.sort_unstable_by_key(|(sent, _)| *sent);
        let time = |(sent, _): &(u64, Instant)| {
            let later = seen.partition_point(|(shown, _)| shown < sent);
            let first = seen[later..].iter().map(|(_, at)| *at);
            let at = Duration::try_from_secs_f64(first.fold(f64::INFINITY, f64::min) / 1e3)?;
            let took = at.saturating_sub(Duration::from_micros(*sent));
            Ok(took.as_secs_f64())
        };
        sent.iter().map(time).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // The script closes the browser when its input ends.
        let _ = self.requests.write_all(b"{\"wish\":\"end\"}\n");
        let _ = self.script.wait();
    }
}

/// A server that runs until it is dropped.
pub(super) struct Server {
    child: Child,
    /// Its address and key, as it printed them.
    printed: Value,
    started: Instant,
}

impl Server {
    /// Starts a server for a large team with a journal of this length.
    fn with_team(bench: &Bench, events: usize) -> Result<(TempProject, Self)> {
        let project = large_team(events)?;
        let server = Self::start(bench, &project)?;
        Ok((project, server))
    }

    pub(super) fn start(bench: &Bench, project: &TempProject) -> Result<Self> {
        let started = Instant::now();
        let words = ["studio", "--port", "0", "--json"];
        let mut command = bench.product.command(project, words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        Ok(Self {
            child,
            printed: serde_json::from_str(&line).context("the server printed nothing")?,
            started,
        })
    }

    fn ask(&self, path: &str) -> Result<BufReader<TcpStream>> {
        let port = u16::try_from(self.printed["port"].as_u64().context("no port")?)?;
        let key = text(&self.printed["bearer"]);
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(
            stream,
            "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n\r\n"
        )?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        ensure!(line.contains(" 200 "), "{path}: {line}");
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        Ok(reader)
    }

    fn get(&self, path: &str) -> Result<Value> {
        let mut body = Vec::new();
        self.ask(path)?.read_to_end(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Returns the seconds from the start of the server to the view of the whole team.
    pub(super) fn first_view(&self) -> Result<f64> {
        let view = self.get(&format!("/api/v1/teams/{TEAM}"))?;
        let took = self.started.elapsed();
        let [tasks, workers] = ["tasks", "workers"].map(|key| list(&view[key]).count());
        let is_all = tasks == TASKS && workers == WORKERS;
        ensure!(is_all, "{tasks} tasks and {workers} workers");
        Ok(took.as_secs_f64())
    }

    /// Listens to the stream of a team and returns once it has caught up with the present. Whatever `number` finds in
    /// an event arrives with its time.
    fn listen(
        &self,
        team: &str,
        number: impl Fn(&str, &Value) -> Option<u64> + Send + 'static,
    ) -> Result<Receiver<(u64, Instant)>> {
        let mut reader = self.ask(&format!("/api/v1/events?team={team}"))?;
        let (sender, arrivals) = channel();
        let (ready, is_ready) = channel();
        std::thread::spawn(move || {
            let (mut name, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
                let at = Instant::now();
                if let Some(word) = line.strip_prefix("event: ") {
                    word.trim_end().clone_into(&mut name);
                } else if let Some(data) = line.strip_prefix("data: ") {
                    let data: Value = serde_json::from_str(data).unwrap_or_default();
                    if name == "view" {
                        let _ = ready.send(());
                    }
                    if let Some(number) = number(&name, &data)
                        && sender.send((number, at)).is_err()
                    {
                        return;
                    }
                }
                line.clear();
            }
        });
        let shown = is_ready.recv_timeout(Duration::from_secs(60));
        shown.context("the stream shows nothing")?;
        Ok(arrivals)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

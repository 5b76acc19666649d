//! What a person at the page waits for: the first view of a large team, and a change on its way to the screen.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use teamster_fs::{Sync, layout};
use teamster_journal::payload::AgentEventRecorded;
use teamster_journal::{EventKind, NewEvent};
use teamster_store::{FileStore, Store};

use super::commands::beat_all;
use super::table::{Limit, Row};
use super::{Programs, Size};
use crate::kit;
use crate::product::{Place, TEAM};
use crate::workload::CONTENT;

/// A first view may take so long,
const FIRST_VIEW: Duration = Duration::from_secs(1);
/// a change may take so long to a client of the stream in 99 of 100 cases,
const CHANGE: Duration = Duration::from_millis(100);
/// and the server may have so much memory with a journal of the usual length.
const MEGABYTES: f64 = 150.0;
/// A writer moves a journal of this size aside.
const SEGMENT: usize = 64 * 1024 * 1024;
/// Changes that are made in a second.
const PER_SECOND: u32 = 100;

pub(super) fn measure(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let place = large_team(size, size.studio_events)?;
    let mut rows = Vec::new();
    let mut server = Server::start(programs, &place)?;
    let first = server.first_view(size)?;
    rows.push(Row {
        key: "studio-first",
        what: format!(
            "the first view of {} tasks, {} workers and {} events",
            size.tasks, size.workers, size.studio_events
        ),
        against: "1 s".to_owned(),
        ratio: first.as_secs_f64() / FIRST_VIEW.as_secs_f64(),
        limit: Some(Limit::AtMost(1.0)),
        times: format!(
            "{:.0} ms with the server's start",
            first.as_secs_f64() * 1e3
        ),
    });
    let store = place.store(Sync::Fast)?;
    rows.extend(events(&server, &store, size)?);
    rows.push(state_file(&server, &place, size)?);
    rows.push(Row {
        key: "studio-memory",
        what: "the most memory that the server ever had for this".to_owned(),
        against: format!("{MEGABYTES} MB"),
        ratio: server.most_memory()? / MEGABYTES,
        limit: Some(Limit::AtMost(1.0)),
        times: format!("{:.1} MB", server.most_memory()?),
    });
    drop(server);
    drop(place);

    let place = large_team(size, size.studio_long)?;
    server = Server::start(programs, &place)?;
    let first = server.first_view(size)?;
    let whole = server.until_read()?;
    rows.push(Row {
        key: "studio-long",
        what: format!(
            "the first view with a journal of {} events",
            size.studio_long
        ),
        against: "1 s".to_owned(),
        ratio: first.as_secs_f64() / FIRST_VIEW.as_secs_f64(),
        limit: Some(Limit::AtMost(1.0)),
        times: format!(
            "{:.0} ms, all of it counted in after {:.1} s, {:.1} MB at most",
            first.as_secs_f64() * 1e3,
            whole.as_secs_f64(),
            server.most_memory()?
        ),
    });
    Ok(rows)
}

/// A team with tasks, workers that beat, and a journal of this length, as a run leaves it: most events are of agents.
fn large_team(size: Size, events: usize) -> Result<Place> {
    let place = Place::on_disk()?;
    let store = kit::team_of(&place, size.workers)?;
    kit::free_tasks(&store, size.tasks)?;
    let file = place.team().join("events.jsonl");
    let text = std::fs::read_to_string(&file)?;
    let last = text.lines().last().context("an empty journal")?;
    let mut event: Value = serde_json::from_str(last)?;
    let begun = event["seq"].as_u64().context("no position")?;
    let append = || {
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
    };
    let mut out = std::io::BufWriter::new(append()?);
    let (mut written, mut segments) = (text.len(), 0);
    if let Some(object) = event.as_object_mut() {
        object.shift_remove("taskId");
    }
    for seq in begun + 1..=(events as u64).max(begun + 1) {
        event["seq"] = json!(seq);
        event["actor"] = json!(format!("w{}", seq % size.workers.max(1) as u64 + 1));
        match seq % 10 {
            0 => {
                event["type"] = json!("usage");
                event["data"] = json!({
                    "provider": "scripted", "model": null, "tokensIn": 1200, "tokensOut": 80, "cachedIn": 300,
                    "cacheWrite": 0, "reasoning": 0, "usd": 0.01, "atLeast": false,
                });
            }
            5 => {
                event["type"] = json!("message.sent");
                event["data"] =
                    json!({ "content": CONTENT, "to": "lead", "messageId": seq.to_string() });
            }
            _ => {
                event["type"] = json!("agent.event");
                event["data"] = json!({ "what": "tool", "text": CONTENT });
            }
        }
        if written > SEGMENT {
            out.flush()?;
            segments += 1;
            std::fs::rename(&file, place.team().join(layout::journal_segment(segments)))?;
            out = std::io::BufWriter::new(append()?);
            written = 0;
        }
        let line = format!("{event}\n");
        written += line.len();
        out.write_all(line.as_bytes())?;
    }
    out.flush()?;
    drop(out);
    beat_all(&store, size)?;
    Ok(place)
}

/// Events of the journal on their way to a client: by themselves, and as what they change in the view.
fn events(server: &Server, store: &FileStore, size: Size) -> Result<[Row; 2]> {
    let team = kit::team()?;
    let position_in = |wanted: &'static str| {
        server.listen(&format!("team={TEAM}"), move |name, data| {
            (name == wanted).then(|| data["seq"].as_u64()).flatten()
        })
    };
    let (journal, patches) = (position_in("journal")?, position_in("patch")?);
    let workers = size.workers.max(1) as u64;
    let sent = paced(size.studio_changes, |number| {
        let worker = format!("w{}", number % workers + 1);
        let event = AgentEventRecorded {
            what: "tool".to_owned(),
            text: CONTENT.to_owned(),
            ..AgentEventRecorded::default()
        };
        let event = NewEvent::new(worker, EventKind::AgentEvent(event));
        Ok(store.record(&team, event)?)
    })?;
    let one = taken(&sent, &journal, true)?;
    let other = taken(&sent, &patches, false)?;
    Ok([
        latency(
            "studio-event",
            "an event of the journal → a client of the stream",
            &one,
        ),
        latency(
            "studio-patch",
            "an event of the journal → the view of a client, changed",
            &other,
        ),
    ])
}

/// A state file that another program writes, on its way to a client. Some of many changes may be told together.
fn state_file(server: &Server, place: &Place, size: Size) -> Result<Row> {
    let folder = place.project().join(".bkit");
    std::fs::create_dir_all(&folder)?;
    let write = |number: u64| -> Result<u64> {
        let state = json!({
            "version": "1.0", "enabled": true, "teamName": "foreign", "feature": number.to_string(),
            "lastUpdated": kit::now(), "sessionId": "bench", "teammates": [],
        });
        std::fs::write(folder.join(".new"), state.to_string())?;
        std::fs::rename(folder.join(".new"), folder.join("agent-state.json"))?;
        Ok(number)
    };
    write(0)?;
    let id = server.session()?;
    let arrivals = server.listen(&format!("team={id}"), |name, data| {
        let feature = data["session"]["feature"].as_str()?;
        (name == "view").then(|| feature.parse().ok()).flatten()
    })?;
    let sent = paced(size.studio_changes, |number| write(number + 1))?;
    let took = taken(&sent, &arrivals, false)?;
    Ok(latency(
        "studio-file",
        "a change of a state file → a client of the stream",
        &took,
    ))
}

/// Makes changes at an even pace; when each was begun, by its number.
fn paced(count: usize, mut change: impl FnMut(u64) -> Result<u64>) -> Result<Vec<(u64, Instant)>> {
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

/// How long each change took to arrive. Where each has to arrive by itself, one that is missing or came twice is an error;
/// otherwise a later one tells of those before it.
fn taken(
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
    let mut times: HashMap<u64, Instant> = HashMap::new();
    for (number, at) in &came {
        if times.insert(*number, *at).is_some() && each {
            bail!("event {number} came twice");
        }
    }
    sent.iter()
        .map(|(number, at)| {
            let arrived = if each {
                times.get(number).copied()
            } else {
                let later = came.iter().find(|(other, _)| other >= number);
                later.map(|(_, arrived)| *arrived)
            };
            let arrived = arrived.with_context(|| format!("change {number} did not arrive"))?;
            Ok(arrived.saturating_duration_since(*at).as_secs_f64())
        })
        .collect()
}

fn latency(key: &'static str, what: &str, took: &[f64]) -> Row {
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
        ratio: at(99) / CHANGE.as_secs_f64(),
        limit: Some(Limit::AtMost(1.0)),
        times: format!(
            "p50 {:.1} ms, p99 {:.1} ms, the slowest {:.1} ms of {}",
            at(50) * 1e3,
            at(99) * 1e3,
            sorted[sorted.len() - 1] * 1e3,
            sorted.len()
        ),
    }
}

/// A server that runs until it is dropped.
struct Server {
    child: Child,
    port: u16,
    bearer: String,
    started: Instant,
}

impl Server {
    fn start(programs: &Programs, place: &Place) -> Result<Self> {
        let started = Instant::now();
        let words = ["studio", "--port", "0", "--json"];
        let mut command = programs.product.command(place, words);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line).context("the server printed nothing")?;
        Ok(Self {
            child,
            port: u16::try_from(said["port"].as_u64().context("no port")?)?,
            bearer: said["bearer"].as_str().context("no key")?.to_owned(),
            started,
        })
    }

    fn ask(&self, path: &str) -> Result<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        write!(
            stream,
            "GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\r\n",
            self.port, self.bearer
        )?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if !line.contains(" 200 ") {
            bail!("{path}: {line}");
        }
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

    /// How long it took from the start of the server to the whole team.
    fn first_view(&self, size: Size) -> Result<Duration> {
        let view = self.get(&format!("/api/v1/teams/{TEAM}"))?;
        let took = self.started.elapsed();
        let count = |key: &str| view[key].as_array().map_or(0, Vec::len);
        if (count("tasks"), count("workers")) != (size.tasks, size.workers) {
            bail!("{} tasks and {} workers", count("tasks"), count("workers"));
        }
        Ok(took)
    }

    /// How long it took from the start of the server until the whole journal was counted in.
    fn until_read(&self) -> Result<Duration> {
        loop {
            let view = self.get(&format!("/api/v1/teams/{TEAM}"))?;
            if view["history"]["complete"] == json!(true) {
                return Ok(self.started.elapsed());
            }
            if self.started.elapsed() > Duration::from_secs(300) {
                bail!("the journal is not read after 5 minutes");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The session that the state file tells of.
    fn session(&self) -> Result<String> {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            let rows = self.get("/api/v1/teams")?;
            let rows = rows["teams"].as_array().cloned().unwrap_or_default();
            let found = rows.iter().find(|row| row["kind"] == "state-file");
            if let Some(id) = found.and_then(|row| row["id"].as_str()) {
                return Ok(id.to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the state file is not shown")
    }

    /// Listens to the stream; whatever `number` finds in an event arrives with its time. Returns when the stream has
    /// shown the present.
    fn listen(
        &self,
        query: &str,
        number: impl Fn(&str, &Value) -> Option<u64> + Send + 'static,
    ) -> Result<Receiver<(u64, Instant)>> {
        let mut reader = self.ask(&format!("/api/v1/events?{query}"))?;
        let (sender, arrivals) = channel();
        let (ready, is_ready) = channel();
        std::thread::spawn(move || {
            let mut name = String::new();
            let mut line = String::new();
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
        is_ready
            .recv_timeout(Duration::from_secs(60))
            .context("the stream shows nothing")?;
        Ok(arrivals)
    }

    /// The most memory that it ever had, in MB.
    fn most_memory(&self) -> Result<f64> {
        Ok(super::workers::status_kilobytes(self.child.id(), "VmHWM:")? / 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

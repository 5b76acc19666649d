//! The real clients as workers: `teamster worker start --provider CLIENT` in a real repository, against the lab's
//! scripted models.
//!
//! The lab provides the environment of one program (model server, client, home, often a separate network), so
//! everything that observes a worker has to run inside it: xtask starts itself there, plays the [`SCENES`] and leaves
//! a report.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use teamster_fs::proc::Machine;
use teamster_fs::processes;
use teamster_types::process::ProcessId;

use super::team::{LabTeam, WAIT, WORKER};
use super::{Lab, RealRun, Report};
use crate::product::{Finished, check, text, wait_for};

/// The time limit for all scenes of a client, in seconds.
const LONG: &str = "600";
/// The time limit for a shutdown.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(10);
/// The command of a scripted model that never ends.
const ENDLESS: &str = "tail -f /dev/null";
/// How long an agent may be silent; one that retries gets longer, so that it can report that once.
const IDLE_LIMIT: &str = "TEAMSTER_WORKER_IDLE_LIMIT";
const SILENT: &str = "5s";
const TRYING: &str = "20s";

/// A client that is driven as a worker, and where it prints its usage.
struct Client {
    name: &'static str,
    /// What it needs, as the lab's installer calls it.
    installed: &'static [&'static str],
    /// The scenario in which it edits a file with a tool, and the file.
    edit: (&'static str, &'static str),
    /// The event with the usage, by its type or method, and the path to it.
    figures: (&'static str, &'static str),
    /// The fields that add up to all tokens, and the field of the cache.
    tokens: &'static str,
    cached: &'static str,
}

const CLIENTS: [Client; 3] = [
    Client {
        name: "codex",
        installed: &["codex"],
        edit: ("patch", "patched.txt"),
        figures: ("thread/tokenUsage/updated", "/params/tokenUsage/total"),
        tokens: "inputTokens outputTokens",
        cached: "cachedInputTokens",
    },
    Client {
        name: "gemini",
        installed: &["gemini"],
        edit: ("write", "written.txt"),
        figures: ("result", "/stats"),
        tokens: "total_tokens",
        cached: "cached",
    },
    Client {
        name: "claude",
        installed: &["claude-2.1.325"],
        edit: ("write", "written.txt"),
        figures: ("result", "/usage"),
        tokens: "input_tokens cache_read_input_tokens cache_creation_input_tokens output_tokens",
        cached: "cache_read_input_tokens",
    },
];

/// Returns one run for each client.
pub(super) fn runs() -> impl Iterator<Item = RealRun> {
    CLIENTS.iter().map(|client| {
        let name = format!("worker-{}", client.name);
        let play = |lab: &Lab| lab.play(client.name, &[], client.name, &[("TMO", LONG)]);
        RealRun::new(name, client.installed, play)
    })
}

/// Plays every scene with a client, inside the lab.
pub(super) fn play(client: &str) -> Result<Report> {
    let client = CLIENTS.iter().find(|known| known.name == client);
    let client = client.context("no such client")?;
    let mut report = Report::default();
    for (name, play) in SCENES {
        let mut scene = Scene {
            name,
            client,
            seen: Vec::new(),
            found: Vec::new(),
        };
        if let Err(error) = play(&mut scene) {
            scene.found.push(format!("{error:#}"));
        }
        report.saw(name, scene.seen.join("; "));
        let found = scene.found.iter();
        let found = found.map(|difference| format!("{name}: {difference}"));
        report.differences.extend(found);
    }
    Ok(report)
}

/// One scene, whose name is also the name of its team.
struct Scene {
    name: &'static str,
    client: &'static Client,
    seen: Vec<String>,
    /// Where teamster and the client disagree.
    found: Vec<String>,
}

type Play = fn(&mut Scene) -> Result<()>;

const SCENES: [(&str, Play); 8] = [
    ("command", |scene| scene.edit("ok", "hello.txt")),
    ("edit", |scene| {
        scene.edit(scene.client.edit.0, scene.client.edit.1)
    }),
    ("fail", Scene::fail),
    ("hang", |scene| scene.hang("hang", None)),
    ("stuck", |scene| scene.hang("sleep", Some(ENDLESS))),
    ("stop", Scene::stop),
    ("limit", |scene| scene.trouble("err429", "rate limit: ")),
    ("outage", |scene| scene.trouble("err500", "outage: ")),
];

impl Scene {
    fn start(&self, scenario: &str, idle_limit: Option<&str>) -> Result<RealWorker> {
        let tags = format!("[[scenario:{scenario}]]");
        RealWorker::start(self.client.name, self.name, &tags, idle_limit)
    }

    /// Shuts the worker down, and checks that no process of it is left.
    fn shut_down(&mut self, worker: &RealWorker) -> Result<()> {
        let name = worker.team.name;
        let ended = Finished::of(&mut worker.team.command("shutdown --json --team", &[name]))?;
        let printed = ended.json().unwrap_or_default();
        let (is_good, end) = (printed["verified"] == true, ended.describe());
        check!(self.found, ended.success() && is_good => "the shutdown failed: {end} {printed}");
        let left = worker.processes();
        check!(self.found, left.is_empty() => "left after it: {left:?}");
        Ok(())
    }

    /// Checks that none of an agent's processes runs any more.
    fn check_gone(&mut self, known: &[(ProcessId, String)], start: Instant) -> Duration {
        let took = start.elapsed();
        let all = processes::all(&Machine::read());
        let runs = |id: &ProcessId| all.iter().any(|seen| seen.id == *id && !seen.over);
        let left: Vec<_> = known.iter().filter(|(id, _)| runs(id)).collect();
        check!(self.found, left.is_empty() => "left of the agent: {left:?}");
        let (count, seconds) = (known.len(), took.as_secs_f64());
        self.seen
            .push(format!("{count} processes gone after {seconds:.1} s"));
        took
    }

    /// Checks that a file is changed in the worktree and committed, the task is completed, and the user's own tree is
    /// unchanged.
    fn edit(&mut self, scenario: &str, file: &str) -> Result<()> {
        let worker = self.start(scenario, None)?;
        let head = worker.team.git("rev-parse HEAD")?;
        let ended = worker
            .team
            .until(&["task.completed", "task.failed", "task.released"])?;
        let task = worker.task()?;
        let status = &task["status"];
        let found = &mut self.found;
        check!(found, status == "completed" => "it is {status}: {ended}");
        let result = &task["metadata"]["teamster"]["result"];
        let commit = worker
            .team
            .git(&format!("rev-parse refs/teamster/{}/task-1", self.name))?;
        let named = &result["commit"];
        check!(found, *named == *commit => "result {named}, pinned {commit}");
        let files = worker
            .team
            .git(&format!("diff --name-only {head} {commit}"))?;
        check!(found, files == file => "changed is {files:?}, not {file}");
        let written = worker.team.git(&format!("show {commit}:{file}"))?;
        check!(found, written.contains("mock") =>
            "{file} is not what the model wrote: {written:?}");
        let (now, status) = (
            worker.team.git("rev-parse HEAD")?,
            worker.team.git("status --porcelain")?,
        );
        let is_same = now == head && status.is_empty();
        check!(found, is_same => "the user's tree changed: {now} {status}");
        let usage = worker.team.events("usage")?;
        check!(found, usage.len() == 1 => "{} usage events", usage.len());
        let ours = TokenUsage::by_teamster(usage.first().context("no usage event")?)?;
        let theirs = TokenUsage::by_client(self.client, &worker.printed()?)?;
        check!(found, ours == theirs => "we count {ours:?}, the client {theirs:?}");
        let summary = &result["summary"];
        self.seen
            .push(format!("{file} committed, {summary}; {ours:?}"));
        self.shut_down(&worker)
    }

    /// Checks that an error caused by the task itself fails the attempt, with its reason.
    fn fail(&mut self) -> Result<()> {
        let worker = self.start("err400", Some(TRYING))?;
        let why = reason(&worker.team.until(&["task.failed"])?);
        let attempts = worker.task()?["metadata"]["failedAttempts"].take();
        check!(self.found, attempts == 1 => "it cost {attempts} attempts");
        let is_reason = why.contains("400") && why.contains("mock err400");
        check!(self.found, is_reason => "not the reason: {why}");
        self.seen.push(why);
        self.shut_down(&worker)
    }

    /// Checks that a silent agent is ended, with everything it started.
    fn hang(&mut self, scenario: &str, tool: Option<&str>) -> Result<()> {
        let worker = self.start(scenario, Some(SILENT))?;
        worker.team.until(&["worker.started"])?;
        let running = worker.until_running(tool)?;
        let start = Instant::now();
        let why = reason(&worker.team.until(&["task.failed"])?);
        self.check_gone(&running, start);
        check!(self.found, why.contains("no event for too long") => "not the reason: {why}");
        self.seen.push(why);
        self.shut_down(&worker)
    }

    /// Checks that a shutdown in the middle of a command is quick, costs no attempt, and keeps the work.
    fn stop(&mut self) -> Result<()> {
        let command = format!("echo half > half.txt; timeout 300 {ENDLESS}");
        let tags = format!("[[scenario:sleep]] [[cmd:{command}]]");
        let worker = RealWorker::start(self.client.name, self.name, &tags, None)?;
        let running = worker.until_running(Some(ENDLESS))?;
        let start = Instant::now();
        self.shut_down(&worker)?;
        let took = self.check_gone(&running, start);
        check!(self.found, took <= SHUTDOWN_WITHIN => "the shutdown took {took:?}");
        let task = worker.task()?;
        let is_same = task["status"] == "pending" && is_unharmed(&task);
        check!(self.found, is_same => "the task is not as it was: {task}");
        let name = self.name;
        let kept = worker.team.git(&format!(
            "show refs/teamster/{name}/task-1.attempt-1:half.txt"
        ))?;
        check!(self.found, kept == "half" => "kept is {kept:?}");
        self.seen.push("the unfinished file kept".to_owned());
        Ok(())
    }

    /// Checks that a failure of the model server pauses the worker and costs the task no attempt.
    fn trouble(&mut self, scenario: &str, begins: &str) -> Result<()> {
        let worker = self.start(scenario, Some(TRYING))?;
        let ended = worker.team.until(&["worker.paused", "task.failed"])?;
        let why = reason(&ended);
        let is_paused = ended["type"] == "worker.paused" && is_unharmed(&worker.task()?);
        check!(self.found, is_paused => "it cost an attempt: {why}");
        check!(self.found, why.starts_with(begins) => "not the reason: {why}");
        self.seen
            .push(format!("pauses {} s, {why}", ended["data"]["seconds"]));
        self.shut_down(&worker)
    }
}

/// Returns whether no attempt of a task has failed.
fn is_unharmed(task: &Value) -> bool {
    let attempts = &task["metadata"]["failedAttempts"];
    attempts.is_null() || attempts == 0
}

/// Returns why a task failed or its worker pauses.
fn reason(event: &Value) -> String {
    let data = &event["data"];
    let why = data["failure"]["lastError"].as_str();
    why.unwrap_or_else(|| text(&data["reason"])).to_owned()
}

/// A team of one real worker with one task. It is shut down on drop.
struct RealWorker {
    team: LabTeam,
    /// The worker process, and the id of its launch.
    bridge: u32,
    launch: String,
}

impl RealWorker {
    fn start(
        client: &str,
        team: &'static str,
        tags: &str,
        idle_limit: Option<&str>,
    ) -> Result<Self> {
        let mut worker = Self {
            team: LabTeam::of_lab(team)?,
            bridge: 0,
            launch: String::new(),
        };
        let team = &worker.team;
        let worktree = format!(".omc/worktrees/{}/{WORKER}", team.name);
        let worktree = team.folder.join(worktree);
        // One of the scripted models writes into the folder that it is told.
        let description = format!("Do it. {tags} [[dir:{}]]", worktree.display());
        team.create("Change a file", &description)?;
        let start = format!("worker start --name {WORKER} --json --provider {client}");
        let mut command = team.command(&start, &[]);
        let started = Finished::checked(command.envs(idle_limit.map(|limit| (IDLE_LIMIT, limit))))?;
        let pid = started.json().and_then(|started| started["pid"].as_u64());
        let spawned = team.until(&["worker.spawned"])?;
        worker.bridge = u32::try_from(pid.context("no pid")?)?;
        text(&spawned["data"]["launch"]).clone_into(&mut worker.launch);
        Ok(worker)
    }

    fn task(&self) -> Result<Value> {
        Ok(self.team.ask("task show 1 --json", &[])?["task"].take())
    }

    /// Returns the client's own output for the task, line by line.
    fn printed(&self) -> Result<Vec<Value>> {
        let file = format!(".omc/logs/{}/{WORKER}/1.jsonl", self.team.name);
        let log = std::fs::read_to_string(self.team.folder.join(file)).context("the log")?;
        let lines: Result<Vec<Value>, _> = log.lines().map(serde_json::from_str).collect();
        let mut lines = lines.context("a line of the log")?;
        lines.retain(|line| line["from"] == "agent");
        let events = lines.iter_mut().map(|line| line["event"].take());
        Ok(events.collect())
    }

    /// Returns every process that descends from the bridge or has its launch variable, with its command line.
    fn processes(&self) -> Vec<(ProcessId, String)> {
        let mut all = processes::all(&Machine::read());
        let descended = processes::descendants(&all, &BTreeSet::from([self.bridge]));
        let is_ours = |pid: u32| {
            descended.contains(&pid) || processes::carries(pid, "TEAMSTER_LAUNCH", &self.launch)
        };
        all.retain(|seen| !seen.over && seen.id.pid != self.bridge && is_ours(seen.id.pid));
        let with_line = all.into_iter().map(|seen| {
            let bytes = std::fs::read(format!("/proc/{}/cmdline", seen.id.pid));
            let line = String::from_utf8_lossy(&bytes.unwrap_or_default()).replace('\0', " ");
            (seen.id, line.chars().take(120).collect())
        });
        with_line.collect()
    }

    /// Waits until the agent runs, with this command of a tool if one is given, and returns its processes.
    fn until_running(&self, tool: Option<&str>) -> Result<Vec<(ProcessId, String)>> {
        wait_for("the agent and its tool", WAIT, || {
            let all = self.processes();
            let is_tool = |line: &str| tool.is_none_or(|tool| line.trim_end() == tool);
            let is_there = all.iter().any(|(_, line)| is_tool(line));
            Ok(is_there.then_some(all))
        })
    }
}

impl Drop for RealWorker {
    fn drop(&mut self) {
        let _ = self.team.shut_down();
    }
}

/// The tokens and cost of one run.
#[derive(Debug, PartialEq)]
struct TokenUsage {
    /// All tokens that were read and written.
    tokens: u64,
    /// The tokens that came from a cache.
    cached: u64,
    dollars: Option<f64>,
}

impl TokenUsage {
    /// Returns the usage that the client printed last, parsed without the drivers.
    fn by_client(client: &Client, printed: &[Value]) -> Result<Self> {
        let (kind, figures) = client.figures;
        let is_it = |event: &&Value| event["type"] == kind || event["method"] == kind;
        let last = printed.iter().rfind(is_it);
        let last = last.with_context(|| format!("the client printed no {kind}"))?;
        let dollars = &last["total_cost_usd"];
        let figures = last.pointer(figures).context("no figures")?;
        Self::read(figures, client.tokens, client.cached, dollars)
    }

    /// Returns the usage in the `usage` event.
    fn by_teamster(event: &Value) -> Result<Self> {
        let data = &event["data"];
        let tokens = "tokensIn cachedIn cacheWrite tokensOut";
        Self::read(data, tokens, "cachedIn", &data["usd"])
    }

    fn read(figures: &Value, tokens: &str, cached: &str, dollars: &Value) -> Result<Self> {
        let number = |name: &str| figures[name].as_u64().with_context(|| format!("no {name}"));
        Ok(Self {
            tokens: tokens.split(' ').map(number).sum::<Result<u64>>()?,
            cached: number(cached)?,
            dollars: dollars.as_f64(),
        })
    }
}

//! The real clients as workers: `teamster worker start --provider CLIENT` in a real repository, against the lab's
//! scripted models.
//!
//! The lab gives one program its surroundings (model server, client, home, often a network of its own), so everything
//! that looks at a worker has to run inside them: xtask starts itself there, plays the [`SCENES`] and leaves a report.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use teamster_fs::proc::Machine;
use teamster_fs::processes;
use teamster_types::process::ProcessId;

use super::{RealRun, Report, write_report};
use crate::product::{Finished, wait_for};

/// The longest that all scenes of a client may take, in seconds.
const LONG: &str = "600";
/// The longest that a scene waits for something.
const WAIT: Duration = Duration::from_secs(60);
/// The longest that a shutdown may take.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(10);
/// The only worker.
const WORKER: &str = "ann";
/// The command of a scripted model that never ends.
const ENDLESS: &str = "tail -f /dev/null";
/// How long an agent may say nothing; one that tries again gets longer, so that it can say so once.
const SILENT: (&str, &str) = ("TEAMSTER_WORKER_IDLE_LIMIT", "5s");
const TRYING: (&str, &str) = ("TEAMSTER_WORKER_IDLE_LIMIT", "20s");

/// A client that is driven as a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Client {
    Codex,
    Gemini,
    Claude,
}

/// Returns one run for each client.
pub(super) fn runs() -> Vec<RealRun> {
    let clients: [(&'static str, &'static [&'static str]); 3] = [
        ("codex", &["codex"]),
        ("gemini", &["gemini"]),
        ("claude", &["claude-2.1.325"]),
    ];
    let run = |(word, clients)| RealRun {
        name: format!("worker-{word}"),
        clients,
        run: Box::new(move |lab| {
            let words = ["XTASK", "worker-scenes", word];
            lab.run_inside(word, &words, &[("TMO", LONG)])
        }),
    };
    clients.into_iter().map(run).collect()
}

/// Plays every scene with a client, inside the lab.
#[derive(Args, Debug)]
pub(crate) struct WorkerScenes {
    client: Client,
    #[arg(long)]
    report: PathBuf,
}

impl WorkerScenes {
    pub(crate) fn run(&self) -> Result<()> {
        write_report(&self.report, || {
            let mut report = Report::default();
            for (name, play) in SCENES {
                let mut scene = Scene {
                    name,
                    client: self.client,
                    report: Report::default(),
                };
                if let Err(error) = play(&mut scene) {
                    scene.report.differences.push(format!("{error:#}"));
                }
                let seen = scene.report.seen.iter().map(|(_, what)| what.as_str());
                report.saw(name, seen.collect::<Vec<_>>().join("; "));
                let differences = scene.report.differences.iter();
                report
                    .differences
                    .extend(differences.map(|difference| format!("{name}: {difference}")));
            }
            Ok(report)
        })
    }
}

/// One scene, whose name is the name of its team, too.
struct Scene {
    name: &'static str,
    client: Client,
    report: Report,
}

type Play = fn(&mut Scene) -> Result<()>;

const SCENES: [(&str, Play); 8] = [
    ("command", |scene| scene.edit("ok", "hello.txt")),
    ("edit", |scene| match scene.client {
        Client::Codex => scene.edit("patch", "patched.txt"),
        Client::Gemini | Client::Claude => scene.edit("write", "written.txt"),
    }),
    ("fail", Scene::fail),
    ("hang", |scene| scene.hang("[[scenario:hang]]", None)),
    ("stuck", |scene| {
        scene.hang("[[scenario:sleep]]", Some(ENDLESS))
    }),
    ("stop", Scene::stop),
    ("limit", |scene| scene.trouble("err429", "rate limit: ")),
    ("outage", |scene| scene.trouble("err500", "outage: ")),
];

impl Scene {
    fn saw(&mut self, what: impl Into<String>) {
        self.report.saw("", what);
    }

    fn check(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        self.report.check(holds, otherwise);
    }

    fn start(&self, tags: &str, limits: &[(&str, &str)]) -> Result<RealWorker> {
        RealWorker::start(self.client, self.name, tags, limits)
    }

    /// Shuts the worker down; no process of it may be left.
    fn shut_down(&mut self, worker: &RealWorker) -> Result<()> {
        let ended = worker.call(&["shutdown", "--team", worker.team, "--json"])?;
        let printed = ended.json().unwrap_or_default();
        self.check(ended.success() && printed["verified"] == true, || {
            format!("the shutdown failed: {} {printed}", ended.describe())
        });
        let left = worker.processes();
        self.check(left.is_empty(), || {
            format!("left after the shutdown: {left:?}")
        });
        Ok(())
    }

    /// A file is changed in the worktree and committed, and the task is done; the user's own tree is as it was.
    fn edit(&mut self, scenario: &str, file: &str) -> Result<()> {
        let worker = self.start(&format!("[[scenario:{scenario}]]"), &[])?;
        let head = worker.git(&["rev-parse", "HEAD"])?;
        let ended = worker.until(&["task.completed", "task.failed", "task.released"])?;
        let task = worker.task()?;
        self.check(task["status"] == "completed", || {
            format!("the task is {}: {ended}", task["status"])
        });
        let result = &task["metadata"]["teamster"]["result"];
        let pinned = format!("refs/teamster/{}/task-1", self.name);
        let commit = worker.git(&["rev-parse", &pinned])?;
        self.check(result["commit"] == commit.as_str(), || {
            format!("the result names {}, pinned is {commit}", result["commit"])
        });
        let files = worker.git(&["diff", "--name-only", &head, &commit])?;
        self.check(files == file, || {
            format!("changed is {files:?}, not {file}")
        });
        let text = worker.git(&["show", &format!("{commit}:{file}")])?;
        self.check(text.contains("mock"), || {
            format!("{file} is not what the model wrote: {text:?}")
        });
        let now = worker.git(&["rev-parse", "HEAD"])?;
        let status = worker.git(&["status", "--porcelain"])?;
        self.check(now == head && status.is_empty(), || {
            format!("the user's own tree changed: {now} {status}")
        });
        let usage = worker.events("usage")?;
        self.check(usage.len() == 1, || format!("{} usage events", usage.len()));
        let ours = Used::by_teamster(usage.first().context("no usage event")?)?;
        let theirs = Used::by_client(self.client, &worker.printed()?)?;
        self.check(ours == theirs, || {
            format!("teamster counts {ours:?}, the client {theirs:?}")
        });
        self.saw(format!("{file} committed, {}", result["summary"]));
        self.saw(format!("{ours:?}"));
        self.shut_down(&worker)
    }

    /// An error that the task itself causes fails the attempt, with its reason.
    fn fail(&mut self) -> Result<()> {
        let worker = self.start("[[scenario:err400]]", &[TRYING])?;
        let why = reason(&worker.until(&["task.failed"])?);
        let attempts = worker.task()?["metadata"]["failedAttempts"].take();
        self.check(attempts == 1, || format!("it cost {attempts} attempts"));
        self.check(why.contains("400") && why.contains("mock err400"), || {
            format!("not the reason: {why}")
        });
        self.saw(why);
        self.shut_down(&worker)
    }

    /// An agent that says nothing is ended, with everything it started.
    fn hang(&mut self, tags: &str, tool: Option<&str>) -> Result<()> {
        let worker = self.start(tags, &[SILENT])?;
        worker.until(&["worker.started"])?;
        let running = worker.until_running(tool)?;
        let start = Instant::now();
        let why = reason(&worker.until(&["task.failed"])?);
        let left = still_running(&running);
        self.check(left.is_empty(), || format!("left of the agent: {left:?}"));
        self.check(why.contains("no event for too long"), || {
            format!("not the reason: {why}")
        });
        let seconds = start.elapsed().as_secs_f64();
        self.saw(format!(
            "{} processes gone after {seconds:.1} s",
            running.len()
        ));
        self.saw(why);
        self.shut_down(&worker)
    }

    /// A shutdown in the middle of a command is quick, costs no attempt, and what was done is kept.
    fn stop(&mut self) -> Result<()> {
        let command = format!("echo half > half.txt; timeout 300 {ENDLESS}");
        let tags = format!("[[scenario:sleep]] [[cmd:{command}]]");
        let worker = self.start(&tags, &[])?;
        let running = worker.until_running(Some(ENDLESS))?;
        let start = Instant::now();
        self.shut_down(&worker)?;
        let took = start.elapsed();
        self.check(took <= SHUTDOWN_WITHIN, || {
            format!("the shutdown took {took:?}")
        });
        let left = still_running(&running);
        self.check(left.is_empty(), || format!("left of the agent: {left:?}"));
        let task = worker.task()?;
        self.check(task["status"] == "pending" && is_unharmed(&task), || {
            format!("the task is not as it was: {task}")
        });
        let kept = format!("refs/teamster/{}/task-1.attempt-1:half.txt", self.name);
        let text = worker.git(&["show", &kept])?;
        self.check(text == "half", || format!("kept is {text:?}"));
        self.saw(format!(
            "{} processes gone after {:.1} s, the unfinished file kept",
            running.len(),
            took.as_secs_f64()
        ));
        Ok(())
    }

    /// Trouble of the model's server pauses the worker and costs the task nothing.
    fn trouble(&mut self, scenario: &str, words: &str) -> Result<()> {
        let worker = self.start(&format!("[[scenario:{scenario}]]"), &[TRYING])?;
        let ended = worker.until(&["worker.paused", "task.failed"])?;
        let (task, why) = (worker.task()?, reason(&ended));
        self.check(
            ended["type"] == "worker.paused" && is_unharmed(&task),
            || format!("it cost an attempt: {why}"),
        );
        self.check(why.starts_with(words), || format!("not the reason: {why}"));
        self.saw(format!("pauses {} s, {why}", ended["data"]["seconds"]));
        self.shut_down(&worker)
    }
}

/// Tells whether no attempt of a task has failed.
fn is_unharmed(task: &Value) -> bool {
    let attempts = &task["metadata"]["failedAttempts"];
    attempts.is_null() || attempts == 0
}

/// Returns why a task failed or its worker pauses.
fn reason(event: &Value) -> String {
    let data = &event["data"];
    let why = data["failure"]["lastError"].as_str();
    let why = why.or(data["reason"].as_str());
    why.unwrap_or_default().to_owned()
}

/// A team of one real worker with one task. It is shut down when this is dropped.
struct RealWorker {
    team: &'static str,
    project: PathBuf,
    /// The worker process, and the number of its launch.
    bridge: u32,
    launch: String,
}

impl RealWorker {
    fn start(
        client: Client,
        team: &'static str,
        tags: &str,
        limits: &[(&str, &str)],
    ) -> Result<Self> {
        let mut worker = Self {
            team,
            project: std::env::current_dir()?,
            bridge: 0,
            launch: String::new(),
        };
        worker.must(&["team", "create", team])?;
        let worktree = format!(".omc/worktrees/{team}/{WORKER}");
        let worktree = worker.project.join(worktree);
        // One of the scripted models writes where it is told.
        let description = format!("Do it. {tags} [[dir:{}]]", worktree.display());
        let task = ["task", "create", "--subject", "Change a file"];
        worker.must(&[&task[..], &["--description", &description]].concat())?;
        let client = format!("{client:?}").to_lowercase();
        let words = [
            "worker",
            "start",
            "--name",
            WORKER,
            "--json",
            "--provider",
            &client,
        ];
        let mut command = worker.command(&words);
        let started = Finished::checked(command.envs(limits.iter().copied()))?.json();
        let pid = started.and_then(|started| started["pid"].as_u64());
        worker.bridge = u32::try_from(pid.context("no pid")?)?;
        let launch = worker.until(&["worker.spawned"])?["data"]["launch"].take();
        let launch = launch.as_str().context("no launch")?;
        launch.clone_into(&mut worker.launch);
        Ok(worker)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("teamster");
        command.args(words).env("TEAMSTER_TEAM", self.team);
        command
    }

    fn call(&self, words: &[&str]) -> Result<Finished> {
        Finished::of(&mut self.command(words))
    }

    fn must(&self, words: &[&str]) -> Result<Value> {
        let finished = Finished::checked(&mut self.command(words))?;
        Ok(finished.json().unwrap_or_default())
    }

    /// Returns every event of this type so far.
    fn events(&self, kind: &str) -> Result<Vec<Value>> {
        let printed = self.must(&["journal", "--type", kind, "--json"])?;
        Ok(printed["events"].as_array().cloned().unwrap_or_default())
    }

    /// Waits for the first event of one of these types.
    fn until(&self, kinds: &[&str]) -> Result<Value> {
        let found = wait_for(&kinds.join(" or "), WAIT, || {
            for kind in kinds {
                if let Some(event) = self.events(kind)?.into_iter().next() {
                    return Ok(Some(event));
                }
            }
            Ok(None)
        });
        found.or_else(|error| bail!("{error:#}\n{}", self.call(&["journal"])?.stdout))
    }

    fn task(&self) -> Result<Value> {
        Ok(self.must(&["task", "show", "1", "--json"])?["task"].take())
    }

    /// Returns what the client itself printed for the task, line by line.
    fn printed(&self) -> Result<Vec<Value>> {
        let file = format!(".omc/logs/{}/{WORKER}/1.jsonl", self.team);
        let text = std::fs::read_to_string(self.project.join(file)).context("the log")?;
        let mut events = Vec::new();
        for line in text.lines() {
            let mut line: Value = serde_json::from_str(line).context("a line of the log")?;
            if line["from"] == "agent" {
                events.push(line["event"].take());
            }
        }
        Ok(events)
    }

    /// Runs git in the user's own work tree and returns what it prints.
    fn git(&self, words: &[&str]) -> Result<String> {
        let mut git = Command::new("git");
        let finished = Finished::checked(git.args(words).current_dir(&self.project))?;
        Ok(finished.stdout.trim().to_owned())
    }

    /// Returns every process that descends from the bridge or carries its launch, with its command line.
    fn processes(&self) -> Vec<(ProcessId, String)> {
        let all = processes::all(&Machine::read());
        let descended = processes::descendants(&all, &BTreeSet::from([self.bridge]));
        let is_ours = |pid: u32| {
            descended.contains(&pid) || processes::carries(pid, "TEAMSTER_LAUNCH", &self.launch)
        };
        all.into_iter()
            .filter(|seen| !seen.over && seen.id.pid != self.bridge && is_ours(seen.id.pid))
            .map(|seen| {
                let file = format!("/proc/{}/cmdline", seen.id.pid);
                let bytes = std::fs::read(file).unwrap_or_default();
                let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
                (seen.id, line.chars().take(120).collect())
            })
            .collect()
    }

    /// Waits until the agent runs, with this command of a tool where one is named, and returns its processes.
    fn until_running(&self, tool: Option<&str>) -> Result<Vec<(ProcessId, String)>> {
        wait_for("the agent and its tool", WAIT, || {
            let all = self.processes();
            let is_there = match tool {
                Some(tool) => all.iter().any(|(_, line)| line.trim_end() == tool),
                None => !all.is_empty(),
            };
            Ok(is_there.then_some(all))
        })
    }
}

impl Drop for RealWorker {
    fn drop(&mut self) {
        let _ = self.call(&["shutdown", "--team", self.team, "--force", "--json"]);
    }
}

/// Returns those of the known processes that still run.
fn still_running(known: &[(ProcessId, String)]) -> Vec<&(ProcessId, String)> {
    let all = processes::all(&Machine::read());
    let runs = |id: &ProcessId| all.iter().any(|seen| seen.id == *id && !seen.over);
    known.iter().filter(|(id, _)| runs(id)).collect()
}

/// Tokens and money of one run.
#[derive(Debug, PartialEq)]
struct Used {
    /// Everything that was read and written.
    tokens: u64,
    /// The part of it that came from a cache.
    cached: u64,
    dollars: Option<f64>,
}

impl Used {
    /// Returns what the client printed last, read without the help of the drivers.
    fn by_client(client: Client, printed: &[Value]) -> Result<Self> {
        let (kind, figures, tokens, cached) = match client {
            Client::Codex => (
                "turn.completed",
                "usage",
                "input_tokens output_tokens",
                "cached_input_tokens",
            ),
            Client::Gemini => ("result", "stats", "total_tokens", "cached"),
            Client::Claude => (
                "result",
                "usage",
                "input_tokens cache_read_input_tokens cache_creation_input_tokens output_tokens",
                "cache_read_input_tokens",
            ),
        };
        let last = printed.iter().rfind(|event| event["type"] == kind);
        let last = last.with_context(|| format!("the client printed no {kind}"))?;
        Self::read(&last[figures], tokens, cached, &last["total_cost_usd"])
    }

    /// Returns what the `usage` event says.
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

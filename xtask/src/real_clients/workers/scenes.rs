//! What a worker must do when its client edits, fails, hangs, is interrupted, or its model's server is in trouble.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Client;
use super::crew::Crew;
use super::processes;
use super::used;

/// A shutdown is obeyed within this time.
const OBEYED: Duration = Duration::from_secs(10);
/// The command of a scripted model that never ends.
const ENDLESS: &str = "tail -f /dev/null";
/// An agent that says nothing is given so long; one that tries again longer, so that it can say so once.
const SILENT: (&str, &str) = ("TEAMSTER_WORKER_IDLE_LIMIT", "5s");
const TRYING: (&str, &str) = ("TEAMSTER_WORKER_IDLE_LIMIT", "20s");

/// One scene. Its name is the name of its team, too.
pub(super) struct Scene {
    pub(super) name: &'static str,
    play: fn(&'static str, Client) -> Result<Played>,
}

/// What came of a scene.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) seen: Vec<String>,
    pub(super) differences: Vec<String>,
}

pub(super) const SCENES: [Scene; 8] = [
    Scene {
        name: "command",
        play: |team, client| edit(team, client, "ok", "hello.txt"),
    },
    Scene {
        name: "edit",
        play: |team, client| match client {
            Client::Codex => edit(team, client, "patch", "patched.txt"),
            Client::Gemini | Client::Claude => edit(team, client, "write", "written.txt"),
        },
    },
    Scene {
        name: "fail",
        play: fail,
    },
    Scene {
        name: "hang",
        play: |team, client| hang(team, client, "[[scenario:hang]]", None),
    },
    Scene {
        name: "stuck",
        play: |team, client| hang(team, client, "[[scenario:sleep]]", Some(ENDLESS)),
    },
    Scene {
        name: "stop",
        play: stop,
    },
    Scene {
        name: "limit",
        play: |team, client| trouble(team, client, "err429", "rate limit: "),
    },
    Scene {
        name: "outage",
        play: |team, client| trouble(team, client, "err500", "outage: "),
    },
];

impl Scene {
    pub(super) fn play(&self, client: Client) -> Result<Played> {
        (self.play)(self.name, client)
    }
}

impl Played {
    fn saw(&mut self, what: impl Into<String>) {
        self.seen.push(what.into());
    }

    fn must(&mut self, is_so: bool, otherwise: impl FnOnce() -> String) {
        if !is_so {
            self.differences.push(otherwise());
        }
    }

    /// Lets the worker go; nothing of it may be left.
    fn end(&mut self, crew: &Crew) -> Result<()> {
        let answer = crew.shutdown()?;
        let said = answer.json().unwrap_or_default();
        self.must(answer.status.success() && said["verified"] == true, || {
            format!("the shutdown went wrong: {} {said}", answer.said())
        });
        let left = processes::below(crew);
        self.must(left.is_empty(), || {
            let left: Vec<String> = left.iter().map(processes::Seen::words).collect();
            format!("left after the shutdown: {}", left.join(", "))
        });
        Ok(())
    }
}

/// A file is changed in the worktree, committed, and the task is done; the user's own tree is as it was.
fn edit(team: &'static str, client: Client, scenario: &str, file: &str) -> Result<Played> {
    let mut played = Played::default();
    let crew = Crew::start(client, team, &format!("[[scenario:{scenario}]]"), &[])?;
    let head = crew.git(&["rev-parse", "HEAD"])?;
    let ended = crew.wait_for("an end of the task", || {
        let mut ends = crew.events("task.completed")?;
        ends.extend(crew.events("task.failed")?);
        ends.extend(crew.events("task.released")?);
        Ok(ends.into_iter().next())
    })?;
    let task = crew.task()?;
    played.must(task["status"] == "completed", || {
        format!("the task is {}: {ended}", task["status"])
    });
    let result = &task["metadata"]["teamster"]["result"];
    let pinned = format!("refs/teamster/{team}/task-1");
    let commit = crew.git(&["rev-parse", &pinned])?;
    played.must(result["commit"] == commit.as_str(), || {
        format!("the result names {}, pinned is {commit}", result["commit"])
    });
    let files = crew.git(&["diff", "--name-only", &head, &commit])?;
    played.must(files == file, || {
        format!("changed is {files:?}, not {file}")
    });
    let text = crew.git(&["show", &format!("{commit}:{file}")])?;
    played.must(text.contains("mock"), || {
        format!("{file} is not what the model wrote: {text:?}")
    });
    let (now, status) = (
        crew.git(&["rev-parse", "HEAD"])?,
        crew.git(&["status", "--porcelain"])?,
    );
    played.must(now == head && status.is_empty(), || {
        format!("the user's own tree changed: {now} {status}")
    });
    let ours = crew.events("usage")?;
    played.must(ours.len() == 1, || format!("{} usage events", ours.len()));
    let ours = used::by_us(ours.first().context("no usage event")?)?;
    let theirs = used::by_the_client(client, &crew.printed()?)?;
    played.must(ours == theirs, || {
        format!("we count {ours:?}, the client {theirs:?}")
    });
    played.saw(format!("{file} committed, {}", result["summary"]));
    played.saw(format!(
        "{} tokens, {} of them cached{}",
        ours.tokens,
        ours.cached,
        ours.dollars
            .map_or_else(String::new, |dollars| format!(", {dollars} USD"))
    ));
    played.end(&crew)?;
    Ok(played)
}

/// An error that is the task's own fails the attempt, with its reason.
fn fail(team: &'static str, client: Client) -> Result<Played> {
    let mut played = Played::default();
    let crew = Crew::start(client, team, "[[scenario:err400]]", &[TRYING])?;
    let why = reason(&crew.until("task.failed")?);
    let task = crew.task()?;
    played.must(task["metadata"]["failedAttempts"] == 1, || {
        format!("it cost {} attempts", task["metadata"]["failedAttempts"])
    });
    played.must(why.contains("400") && why.contains("mock err400"), || {
        format!("not the reason: {why}")
    });
    played.saw(why);
    played.end(&crew)?;
    Ok(played)
}

/// An agent that says nothing is ended, with everything it started.
fn hang(team: &'static str, client: Client, tags: &str, tool: Option<&str>) -> Result<Played> {
    let mut played = Played::default();
    let crew = Crew::start(client, team, tags, &[SILENT])?;
    crew.until("worker.started")?;
    let running = crew.wait_for("the agent and its tool", || Ok(running(&crew, tool)))?;
    let start = Instant::now();
    let why = reason(&crew.until("task.failed")?);
    let left = processes::still_there(&running);
    played.must(left.is_empty(), || {
        format!("left of the agent: {}", left.join(", "))
    });
    played.must(why.contains("no event for too long"), || {
        format!("not the reason: {why}")
    });
    played.saw(format!(
        "{} processes gone after {:.1} s",
        running.len(),
        start.elapsed().as_secs_f64()
    ));
    played.saw(why);
    played.end(&crew)?;
    Ok(played)
}

/// A shutdown in the middle of a command is obeyed soon, costs no attempt, and what was done is kept.
fn stop(team: &'static str, client: Client) -> Result<Played> {
    let mut played = Played::default();
    let tags = format!("[[scenario:sleep]] [[cmd:echo half > half.txt; timeout 300 {ENDLESS}]]");
    let crew = Crew::start(client, team, &tags, &[])?;
    let running = crew.wait_for("the agent's tool", || Ok(running(&crew, Some(ENDLESS))))?;
    let start = Instant::now();
    played.end(&crew)?;
    let took = start.elapsed();
    played.must(took <= OBEYED, || {
        format!("the shutdown took {:.1} s", took.as_secs_f64())
    });
    let left = processes::still_there(&running);
    played.must(left.is_empty(), || {
        format!("left of the agent: {}", left.join(", "))
    });
    let task = crew.task()?;
    let attempts = &task["metadata"]["failedAttempts"];
    played.must(
        task["status"] == "pending" && (attempts.is_null() || attempts == 0),
        || format!("the task is {} after {attempts} failures", task["status"]),
    );
    let kept = format!("refs/teamster/{team}/task-1.attempt-1:half.txt");
    match crew.git(&["show", &kept]) {
        Ok(text) => played.must(text == "half", || format!("kept is {text:?}")),
        Err(error) => played.differences.push(format!("not kept: {error:#}")),
    }
    played.saw(format!(
        "{} processes gone after {:.1} s, the unfinished file kept",
        running.len(),
        took.as_secs_f64()
    ));
    Ok(played)
}

/// Trouble of the model's server pauses the worker and costs the task nothing.
fn trouble(team: &'static str, client: Client, scenario: &str, words: &str) -> Result<Played> {
    let mut played = Played::default();
    let tags = format!("[[scenario:{scenario}]]");
    let crew = Crew::start(client, team, &tags, &[TRYING])?;
    let ended = crew.wait_for("a pause or a failure", || {
        let mut ends = crew.events("worker.paused")?;
        ends.extend(crew.events("task.failed")?);
        Ok(ends.into_iter().next())
    })?;
    played.must(ended["type"] == "worker.paused", || {
        format!("it cost an attempt: {}", reason(&ended))
    });
    let (task, why) = (crew.task()?, reason(&ended));
    let attempts = &task["metadata"]["failedAttempts"];
    played.must(attempts.is_null() || attempts == 0, || {
        format!("it cost {attempts} attempts")
    });
    played.must(why.starts_with(words), || format!("not the reason: {why}"));
    played.saw(format!("pauses {} s, {why}", ended["data"]["seconds"]));
    played.end(&crew)?;
    Ok(played)
}

/// The agent's processes, once a tool with this command is among them.
fn running(crew: &Crew, tool: Option<&str>) -> Option<Vec<processes::Seen>> {
    let all = processes::below(crew);
    let is_there = match tool {
        Some(tool) => all.iter().any(|seen| seen.command.trim_end() == tool),
        None => !all.is_empty(),
    };
    is_there.then_some(all)
}

/// Why a task failed or its worker pauses.
fn reason(event: &Value) -> String {
    let data = &event["data"];
    let why = data["failure"]["lastError"].as_str();
    why.or(data["reason"].as_str())
        .unwrap_or_default()
        .to_owned()
}

//! Sessions of Claude Code with deaths, failures and interference, polled every 200 ms.
//!
//! Each scene is a whole session of an unmodified client. Meanwhile [`looks`] reads the state file like a viewer and
//! calls `status`, `zombies scan` and `top`, and [`judge`] compares each observation with `/proc` and with the
//! client's own files ([`truth`]). The scripted model waits for sign files ([`scenario`]), so that a scene controls
//! the order of events.

mod judge;
mod looks;
mod scenario;
mod truth;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::claude::{check_client_log, install_hooks, session_variables};
use super::polls::Poller;
use super::session_files::{names, read_json};
use super::{Lab, RealRun, Report};
use crate::fixture;
use crate::product::{Finished, check, list, wait_for, wait_until, words};
use judge::Judge;
use looks::LabSession;
use truth::{LEAD, Truth};

/// The prefix of the names of these runs.
pub(super) const NAME: &str = "native";
/// The timeout for what a scene waits for.
const LONG: Duration = Duration::from_secs(60);
/// The time within which everything must be shown, plus some polls.
const SHOWN: Duration = Duration::from_secs(7);
/// The poll interval.
const LOOK: Duration = Duration::from_millis(200);
/// How long the lab's script waits for the end of a scene, in seconds.
const SCRIPT: &str = "180";

/// A scene: its name, what the model does in it, and what happens meanwhile.
type NativeScene = (
    &'static str,
    fn(bool) -> Value,
    fn(&LabSession) -> Result<()>,
);

const DEATHS: NativeScene = ("deaths", scenario::deaths, deaths);
const WORDS: NativeScene = ("words", scenario::words, what_is_said);
const FAILURE: NativeScene = ("failure", scenario::failure, failure);

/// Returns every scene with every version of the client that supports it.
pub(super) fn runs() -> impl Iterator<Item = RealRun> {
    let versions: [&'static [&'static str]; 3] = [
        &["claude-2.1.325"],
        &["claude-2.1.197"],
        &["claude-2.1.177"],
    ];
    let scenes = [
        ("panes", "tmux", DEATHS),
        ("panes", "tmux", WORDS),
        ("panes", "tmux", FAILURE),
        ("process", "in-process", WORDS),
        ("process", "in-process", FAILURE),
    ];
    versions.into_iter().flat_map(move |clients| {
        scenes.into_iter().map(move |(place, mode, scene)| {
            let version = clients[0].trim_start_matches("claude-");
            let name = format!("{NAME}-{version}-{place}-{}", scene.0);
            RealRun::new(name, clients, move |lab| start(lab, version, mode, scene))
        })
    })
}

fn start(lab: &Lab, version: &str, mode: &str, scene: NativeScene) -> Result<Report> {
    let (_, scenario, play) = scene;
    let settings = install_hooks(lab)?;
    let file = lab.path("scene.json");
    let has_team_tool = version == "2.1.177";
    std::fs::write(&file, format!("{:#}", scenario(has_team_tool)))?;
    // The lab names a scenario by its path below its own folder.
    let depth = lab.folder.join("scenarios").components().count();
    let path = file.with_extension("").display().to_string();
    let path = format!("{}{}", "../".repeat(depth), path.trim_start_matches('/'));
    let session = lab.path("out");
    let stage = LabSession {
        folder: session.clone(),
        programs: lab.path("bin"),
    };
    let polled = stage.clone();
    let looks = Poller::begin(LOOK, move |judge: &mut Judge| {
        if polled.is_ready() {
            let look = polled.look(judge.looks);
            judge.look(&polled.folder, &look);
        }
    });
    let (ended, played, judge) = std::thread::scope(|scope| {
        let (settings, log) = session_variables(lab, &settings);
        let script = scope.spawn(move || {
            let variables = [("SETTINGS", &*settings), ("XENV", &log), ("SECS", SCRIPT)];
            lab.run("claude-team", &[version, mode, &path], &variables)
        });
        let played = play(&stage);
        // The other runs judge what a session leaves when it ends normally.
        let judge = looks.end();
        let _ = std::fs::write(session.join(scenario::END_FILE), "{}");
        // The children of a killed client wait for this file.
        let _ = stage.sign("never");
        (script.join(), played, judge)
    });
    let ended = ended.unwrap_or_else(|_| anyhow::bail!("the script's thread panicked"))?;
    let judge = judge?;
    let mut report = Report::default();
    let found = &mut report.differences;
    if let Err(error) = played {
        found.push(format!("the scene: {error:#}"));
    }
    check!(found, ended.success() => "the script: {}", ended.describe());
    found.extend(judge.differences());
    let records = std::fs::read_to_string(session.join("home/.claude/zombie-alerts.jsonl"));
    found.extend(judge.unrecorded(&records.unwrap_or_default()));
    let (calls, gone) = judge.counts();
    let seconds = ended.took.as_secs_f64();
    report.saw("looks", format!("{} in {seconds:.0} s", judge.looks));
    let seen = format!("{calls} calls of hooks, {gone} processes gone");
    report.saw("client", seen);
    check_client_log(&session, &mut report)?;
    Ok(report)
}

/// What can be done to a running session.
impl LabSession {
    /// Waits until the client's own files or processes show something.
    fn wait<T>(&self, what: &str, mut find: impl FnMut(&Truth) -> Option<T>) -> Result<T> {
        wait_for(what, LONG, || Ok(find(&Truth::read(&self.folder))))
    }

    /// Waits until the client has called a hook.
    fn wait_for_call(&self, event: &str, more: &str) -> Result<()> {
        let mut calls = truth::Calls::default();
        wait_until(event, LONG, || {
            calls.read(&self.folder.join("hooks"));
            let mut calls = calls.all.iter().filter(|call| call.event == event);
            Ok(calls.any(|call| call.fields.to_string().contains(more)))
        })
    }

    /// Lets a step of the scripted model end.
    fn sign(&self, name: &str) -> Result<()> {
        let file = self.folder.join(format!("sign-{name}"));
        Ok(std::fs::write(file, "")?)
    }

    /// Runs `claude -p` in the project, in the environment of the session, to its end.
    fn run_unrelated(&self) -> Result<()> {
        let launch = std::fs::read_to_string(self.folder.join("launch.sh"))?;
        let line = launch.lines().last().unwrap_or_default();
        let client = words(line)
            .into_iter()
            .find(|word| word.ends_with("/claude"));
        let client = client.context("the lab's script starts no client")?;
        let over = self.folder.join("unrelated-is-over");
        let _ = std::fs::remove_file(&over);
        let line = format!(
            "cd {} && timeout 60 {client} -p hello --dangerously-skip-permissions > {}/unrelated.txt 2>&1; touch {}",
            self.folder.join("project").display(),
            self.folder.display(),
            over.display(),
        );
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.folder.join("tmux.sock"));
        tmux.args(["new-window", "-d", &line]);
        Finished::checked(&mut tmux)?;
        wait_until("the end of another session", LONG, || Ok(over.exists()))
    }

    fn team_folder(&self, kind: &str) -> Result<PathBuf> {
        let parent = self.folder.join("home/.claude").join(kind);
        let mut folders = names(&parent).into_iter().map(|name| parent.join(name));
        let first = folders.find(|path| path.is_dir());
        first.with_context(|| format!("{} is empty", parent.display()))
    }

    /// Writes a task into the client's folder, as another program.
    fn leave_task(&self, id: &str, subject: &str) -> Result<()> {
        let folder = self.team_folder("tasks")?;
        let file = folder.join(format!("{id}.json"));
        change_locked(&file, &folder.join(".lock.lock"), |_| {
            json!({"id": id, "subject": subject, "description": "From outside", "status": "pending",
                "blocks": [], "blockedBy": []})
        })
    }

    /// Writes a message into an inbox, as another program.
    fn leave_message(&self, to: &str, words: &str) -> Result<()> {
        let folder = self.team_folder("teams")?.join("inboxes");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{to}.json"));
        change_locked(&file, &file.with_extension("json.lock"), |inbox| {
            let letter =
                json!({"from": "ci", "text": words, "timestamp": fixture::now(), "read": false});
            list(&inbox).cloned().chain([letter]).collect()
        })
    }

    fn has_task(&self, id: &str, status: &str) -> Result<()> {
        self.wait(&format!("task {id} is {status}"), |truth| {
            (truth.tasks.get(id)?.status == status).then_some(())
        })
    }
}

/// Lets the observer poll for a while.
fn look_for(time: Duration) {
    std::thread::sleep(time);
}

fn kill(process: truth::Process) -> Result<()> {
    let pid = process.pid.to_string();
    Finished::checked(Command::new("kill").args(["-KILL", &pid]))?;
    wait_until("the end of a killed process", LONG, || {
        Ok(!process.is_alive())
    })
}

/// Changes a JSON file under a lock like the client's: a folder beside the file.
fn change_locked(file: &Path, lock: &Path, change: impl FnOnce(Value) -> Value) -> Result<()> {
    wait_for("a lock of the client", LONG, || {
        Ok(std::fs::create_dir(lock).ok())
    })?;
    let new = change(read_json(file).unwrap_or_default());
    let done = std::fs::write(file, format!("{new:#}"));
    std::fs::remove_dir(lock)?;
    Ok(done?)
}

/// A teammate is killed, then the lead, then the orphan; other sessions come and go in between; what is left is
/// reaped.
fn deaths(stage: &LabSession) -> Result<()> {
    stage.has_task("1", "in_progress")?;
    stage.has_task("2", "in_progress")?;
    // The process that starts a client briefly has the same arguments, so a process is searched only when it is to be
    // killed.
    let process = |name: &'static str| stage.wait(name, |truth| truth.processes.get(name).copied());
    stage.wait_for_call("PostToolUse", "I work on beta.")?;
    look_for(Duration::from_secs(3));
    kill(process("alpha")?)?;
    // No hook is called now.
    look_for(SHOWN);
    stage.sign("teammate-is-dead")?;
    stage.wait_for_call("PostToolUse", "Alpha is gone, go on.")?;
    look_for(SHOWN);
    stage.run_unrelated()?;
    look_for(Duration::from_secs(2));
    kill(process(LEAD)?)?;
    look_for(SHOWN);
    stage.run_unrelated()?;
    look_for(Duration::from_secs(3));
    stage.sign("lead-is-dead")?;
    stage.has_task("2", "completed")?;
    look_for(Duration::from_secs(3));
    kill(process("beta")?)?;
    look_for(SHOWN);
    let reaped = Finished::of(&mut stage.command("zombies reap --ttl 1s --json"))?;
    ensure!(reaped.success(), "the reap fails: {}", reaped.describe());
    stage.sign("over")?;
    look_for(SHOWN);
    Ok(())
}

/// Two teammates have the same name, a message is refused, other programs write tasks and messages, other sessions
/// come and go.
fn what_is_said(stage: &LabSession) -> Result<()> {
    stage.has_task("1", "in_progress")?;
    stage.wait("two teammates", |truth| {
        (truth.registry.as_ref()?.members.len() == 2).then_some(())
    })?;
    stage.wait_for_call("PostToolUse", "You will never read this.")?;
    look_for(Duration::from_secs(2));
    stage.sign("second")?;
    stage.wait_for_call("TeammateIdle", "worker-2")?;
    look_for(Duration::from_secs(2));
    stage.leave_task("7", "Write what another program wants")?;
    stage.leave_message("worker", "The build of another program fails.")?;
    look_for(Duration::from_secs(2));
    stage.sign("outside")?;
    stage.wait_for_call("PostToolUse", "Somebody has left a task.")?;
    look_for(Duration::from_secs(3));
    stage.run_unrelated()?;
    stage.leave_message("team-lead", "The build is green again.")?;
    look_for(Duration::from_secs(2));
    stage.sign("work")?;
    stage.has_task("1", "completed")?;
    look_for(Duration::from_secs(3));
    stage.sign("beside")?;
    let lead = stage.wait("the lead's session", |truth| {
        Some(truth.registry.as_ref()?.lead_session.clone())
    })?;
    stage.wait_for_call("Stop", &lead)?;
    look_for(SHOWN);
    Ok(())
}

/// The model of a teammate fails; the teammate is shown as failed until it works again. If it has its own process,
/// that is then killed.
fn failure(stage: &LabSession) -> Result<()> {
    stage.has_task("1", "in_progress")?;
    look_for(Duration::from_secs(2));
    stage.sign("fail")?;
    stage.wait_for_call("StopFailure", "")?;
    look_for(SHOWN);
    stage.run_unrelated()?;
    look_for(Duration::from_secs(1));
    stage.sign("failed")?;
    stage.wait_for_call("PostToolUse", "Try again.")?;
    look_for(SHOWN);
    stage.sign("work")?;
    stage.has_task("1", "completed")?;
    look_for(Duration::from_secs(4));
    if let Some(alpha) = Truth::read(&stage.folder).processes.get("alpha") {
        kill(*alpha)?;
        look_for(SHOWN);
    }
    stage.sign("woken")?;
    stage.wait_for_call("PostToolUse", "Are you there?")?;
    look_for(SHOWN);
    Ok(())
}

//! Teams, tasks, messages and real workers for the checks.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use teamster_fs::{Durability, layout};
use teamster_journal::{Event, EventActor};
use teamster_store::{FileStore, PlannedTask, ReadStore, Store};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::task::NewTask;
use teamster_types::team::{NewMember, NewTeam};

use crate::product::{Finished, Product, TEAM, TempProject, list, text, wait_until, words};
pub(crate) use workload::{claim, receive, send, team, worker};

/// How many tasks one import creates.
const CHUNK: usize = 250;
/// The size at which the store begins a new segment of the journal.
const SEGMENT: usize = 64 * 1024 * 1024;
/// The timeout for workers.
const LONG: Duration = Duration::from_secs(900);

/// Returns the current time.
pub(crate) fn now() -> teamster_types::Time {
    teamster_store::Clock::now(&teamster_store::SystemClock)
}

/// Creates a team of this many workers in a project and returns its store.
pub(crate) fn create_team(project: &TempProject, workers: usize) -> Result<FileStore> {
    let store = project.store(Durability::Fast)?;
    create_team_in(&store, project, workers)?;
    Ok(store)
}

/// Creates a team of this many workers in a store.
pub(crate) fn create_team_in(
    store: &dyn Store,
    project: &TempProject,
    workers: usize,
) -> Result<()> {
    let member = |number: usize| -> Result<NewMember> {
        Ok(NewMember {
            name: worker(number)?,
            provider: String::new(),
            capabilities: None,
        })
    };
    let new = NewTeam {
        name: team()?,
        description: String::new(),
        project: project.folder().display().to_string(),
        members: (1..=workers).map(member).collect::<Result<_>>()?,
        run: None,
    };
    store.create_team(&new, None)?;
    Ok(())
}

/// Makes a project a repository with one commit.
pub(crate) fn create_repository(project: &TempProject) -> Result<()> {
    git(project, "init --quiet --initial-branch main")?;
    git(project, "config user.name Check")?;
    git(project, "config user.email check@localhost")?;
    git(project, "commit --quiet --allow-empty --message Begin")
}

/// Runs git in a project; an error unless it succeeds.
pub(crate) fn git(project: &TempProject, line: &str) -> Result<()> {
    let mut git = Command::new("git");
    project.enter(&mut git);
    Finished::checked(git.args(words(line))).map(drop)
}

/// Creates tasks without dependencies.
pub(crate) fn create_tasks(store: &dyn Store, count: usize) -> Result<()> {
    let plan: Vec<_> = (1..=count)
        .map(|number| planned(&format!("task {number}"), &[]))
        .collect();
    import(store, &plan)
}

/// Imports a plan in several steps.
pub(crate) fn import(store: &dyn Store, plan: &[PlannedTask]) -> Result<()> {
    for chunk in plan.chunks(CHUNK) {
        store.import_tasks(&team()?, &EventActor::Person, chunk)?;
    }
    Ok(())
}

/// Returns a task of a plan that is blocked by those at the positions `after`.
pub(crate) fn planned(subject: &str, after: &[usize]) -> PlannedTask {
    PlannedTask {
        task: NewTask {
            subject: subject.to_owned(),
            description: "made by a check".to_owned(),
            ..NewTask::default()
        },
        after: after.to_vec(),
    }
}

/// Returns what a client tells a hook about an agent in the lead's process.
pub(crate) fn hook_payload(project: &TempProject, event: &str, session: &str, name: &str) -> Value {
    json!({
        "session_id": session,
        "transcript_path": project.home().join("transcript.jsonl"),
        "cwd": project.folder(),
        "hook_event_name": event,
        "agent_id": format!("a{name}-0123456789abcdef"),
        "agent_type": name,
    })
}

/// Returns the sorted names of the teammates in a state.
pub(crate) fn teammates(state: &Value) -> Vec<&str> {
    let rows = list(&state["teammates"]);
    let mut names: Vec<&str> = rows.map(|row| text(&row["name"])).collect();
    names.sort_unstable();
    names
}

/// Returns the command of a workload, not started yet.
pub(crate) fn workload(workloads: &Path, project: &TempProject, words: &[&str]) -> Command {
    let mut command = Command::new(workloads);
    command.args(words);
    project.enter(&mut command);
    command.arg("--claude").arg(project.claude());
    command.arg("--project").arg(project.folder());
    command
}

/// Lets several processes claim through the library, all starting at once, until nothing is left. Returns every id
/// that a process was given, with repetitions, and the time from the common start to the last end.
pub(crate) fn drain(
    workloads: &Path,
    project: &TempProject,
    processes: usize,
    options: &[&str],
) -> Result<(Vec<String>, Duration)> {
    let mut children = Vec::new();
    for number in 1..=processes {
        let number = number.to_string();
        let mut child = workload(workloads, project, &["drain", "--worker", &number])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("a workload has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let is_ready = lines.next().transpose()?.as_deref() == Some("ready");
        ensure!(is_ready, "a workload did not get ready");
        children.push((child, lines));
    }
    let start = Instant::now();
    for (child, _) in &mut children {
        let mut stdin = child.stdin.take().context("a workload has no input")?;
        stdin.write_all(b"go\n")?;
    }
    let mut ids = Vec::new();
    for (child, lines) in &mut children {
        let line = lines.next().transpose()?;
        let figures: Value = serde_json::from_str(&line.context("a workload printed nothing")?)?;
        ids.extend(list(&figures["ids"]).map(|id| text(id).to_owned()));
        child.wait()?;
    }
    Ok((ids, start.elapsed()))
}

/// Starts a worker process and returns its id.
pub(crate) fn start_worker(
    product: &Product,
    project: &TempProject,
    number: usize,
    provider: &str,
    options: &[&str],
) -> Result<u32> {
    let line = format!("worker start --json --name {} --provider", worker(number)?);
    let mut start = product.command(project, words(&line));
    let started = Finished::checked(start.arg(provider).args(options))?.json();
    let pid = started.and_then(|started| started["pid"].as_u64());
    Ok(u32::try_from(pid.context("a worker printed no pid")?)?)
}

/// A team of real worker processes in a separate repository. All of them are stopped on drop.
pub(crate) struct WorkerTeam<'a> {
    product: &'a Product,
    pub(crate) project: TempProject,
    pub(crate) store: FileStore,
    /// The worker processes.
    pub(crate) pids: Vec<u32>,
    /// The host of a run that has started the workers.
    pub(crate) host: Option<Child>,
    is_stopped: bool,
}

impl<'a> WorkerTeam<'a> {
    /// Makes a repository without a team.
    pub(crate) fn new(product: &'a Product) -> Result<Self> {
        let project = TempProject::on_disk()?;
        create_repository(&project)?;
        Ok(Self {
            product,
            store: project.store(Durability::Fast)?,
            project,
            pids: Vec::new(),
            host: None,
            is_stopped: false,
        })
    }

    /// Creates a team without workers.
    pub(crate) fn create(product: &'a Product) -> Result<Self> {
        let team = Self::new(product)?;
        Finished::checked(&mut product.command(&team.project, ["team", "create", TEAM]))?;
        Ok(team)
    }

    /// Writes a script and returns the provider that plays it.
    pub(crate) fn script(&self, text: &str) -> Result<String> {
        let script = self.project.root().join("script.toml");
        std::fs::write(&script, text)?;
        Ok(format!("scripted:{}", script.display()))
    }

    /// Starts workers until there are this many.
    pub(crate) fn grow(&mut self, workers: usize, provider: &str) -> Result<()> {
        for number in self.pids.len() + 1..=workers {
            let pid = start_worker(self.product, &self.project, number, provider, &[])?;
            self.pids.push(pid);
        }
        Ok(())
    }

    /// Waits until this many tasks are completed.
    pub(crate) fn until_done(&self, tasks: usize) -> Result<()> {
        self.until("all tasks are done", |team| {
            let (progress, _) = team.store.progress(&self::team()?)?;
            Ok(progress.completed_tasks == tasks)
        })
    }

    /// Waits until every worker waits for a task.
    pub(crate) fn until_idle(&self) -> Result<()> {
        self.until("every worker waits for a task", |team| {
            let waiting = team.beats()?.into_iter().filter(|beat| {
                beat.status == WorkerStatus::Polling && beat.current_task_id.is_none()
            });
            Ok(waiting.count() == team.pids.len())
        })
    }

    /// Waits until a condition holds.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        wait_until(what, LONG, || holds(self))
    }

    /// Returns the heartbeats of all workers.
    pub(crate) fn beats(&self) -> Result<Vec<Heartbeat>> {
        Ok(self.store.heartbeats(&team()?)?.0)
    }

    /// Shuts the team down and returns how long that took; an error if a worker is left.
    pub(crate) fn shut_down(mut self) -> Result<Duration> {
        self.is_stopped = true;
        self.stop(self.host.is_some())
    }

    fn stop(&mut self, by_force: bool) -> Result<Duration> {
        // The host must not restart workers that it sees ending.
        if let Some(mut host) = self.host.take() {
            host.kill()?;
            host.wait()?;
        }
        let force: &[&str] = if by_force { &["--force"] } else { &[] };
        let words = [&["shutdown", "--team", TEAM, "--json"], force].concat();
        let finished = Finished::of(&mut self.product.command(&self.project, words))?;
        let (printed, end) = (finished.json().unwrap_or_default(), finished.describe());
        let is_verified = printed["verified"] == true;
        ensure!(is_verified, "the shutdown is not verified: {end} {printed}");
        Ok(finished.took)
    }
}

impl Drop for WorkerTeam<'_> {
    fn drop(&mut self) {
        if !self.is_stopped {
            let _ = self.stop(true);
        }
    }
}

/// Returns the whole journal of the team.
pub(crate) fn journal(store: &FileStore) -> Result<Vec<Event>> {
    Ok(store.events(&team()?, 1, usize::MAX)?.events)
}

/// Extends the journal to this many events, as the store writes them, but all at once. `event` returns the actor, the
/// kind and the data of the event at a position.
pub(crate) fn fill_journal(
    project: &TempProject,
    events: usize,
    event: impl Fn(usize) -> (String, &'static str, Value),
) -> Result<()> {
    let file = project.team().join("events.jsonl");
    let (mut text, mut segments) = (std::fs::read_to_string(&file)?, 0);
    let last = text.lines().last().context("an empty journal")?;
    let mut line: Value = serde_json::from_str(last)?;
    if let Some(fields) = line.as_object_mut() {
        fields.shift_remove("taskId");
    }
    for seq in text.lines().count() + 1..=events {
        let (actor, kind, data) = event(seq);
        for (key, value) in [
            ("seq", json!(seq)),
            ("actor", json!(actor)),
            ("type", json!(kind)),
        ] {
            line[key] = value;
        }
        line["data"] = data;
        if text.len() > SEGMENT {
            segments += 1;
            let full = project.team().join(layout::journal_segment(segments));
            std::fs::write(full, std::mem::take(&mut text))?;
        }
        writeln!(text, "{line}")?;
    }
    Ok(std::fs::write(&file, text)?)
}

/// Waits until the journal of the team has had no new event for this long.
pub(crate) fn until_quiet(store: &dyn Store, span: Duration) -> Result<()> {
    let team = team()?;
    let mut last = (store.position(&team)?, Instant::now());
    wait_until("the journal becomes quiet", LONG, || {
        let position = store.position(&team)?;
        if position != last.0 {
            last = (position, Instant::now());
        }
        Ok(last.1.elapsed() >= span)
    })
}

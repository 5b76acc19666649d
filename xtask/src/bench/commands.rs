//! Whole programs: one hook against the floor and against interpreters that do nothing, many hooks at once, and
//! commands on a large team.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};
use teamster_fs::proc::Machine;
use teamster_store::{FileStore, Store};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};

use super::{Bench, Row, TASKS, WORKERS, median};
use crate::fixture;
use crate::product::{Finished, TempProject, files, list, on_path, words};

/// The session of the client.
const SESSION: &str = "0f2b8c1e-5d3a-4a57-9a8e-2f4f7d1c6b90";
/// Teammates in a full state.
const AGENTS: usize = 10;
/// Hooks that are started together.
const AT_ONCE: usize = 20;
/// The length of a chain of tasks that block each other.
const CHAIN: usize = 100;

/// Measures the cost of a hook, alternating with the others, and of many hooks at once.
pub(super) fn hooks(bench: &Bench) -> Result<Vec<Row>> {
    let project = TempProject::on_disk()?;
    let hook = |project: &TempProject, number: usize| hook(bench, project, number);
    for number in 0..AGENTS {
        hook(&project, number)?.end()?;
    }
    let file = project.root().join("state.json");
    let mut counted = state(&project)?;
    counted["runs"] = json!(0);
    std::fs::write(&file, serde_json::to_string_pretty(&counted)?)?;
    let interpreter = |program: &Option<PathBuf>, words: &[&str]| -> Result<Option<Started>> {
        let start = |program| {
            let mut command = Command::new(program);
            // The caller's environment must not slow it down.
            command.args(words).env_clear().env("HOME", project.home());
            Started::new(command, None)
        };
        program.as_ref().map(start).transpose()
    };
    let (node, python) = (on_path("node"), python());
    let sides: [&dyn Fn(usize) -> Result<Option<Started>>; 4] = [
        &|turn| hook(&project, turn % AGENTS).map(Some),
        &|_| Started::new(floor(&bench.floor, &file), None).map(Some),
        &|_| interpreter(&node, &["-e", "0"]),
        &|_| interpreter(&python, &["-S", "-c", "pass"]),
    ];
    let (mut walls, mut cpus): ([Vec<f64>; 4], [Vec<f64>; 4]) = Default::default();
    for turn in 0..=bench.size(101, 11) {
        let mut order = [0, 1, 2, 3];
        // The order alternates, because the program after an interpreter finds cold caches.
        if turn % 2 == 1 {
            order.reverse();
        }
        for side in order {
            let used = sides[side](turn)?.map(Started::end).transpose()?;
            // The first turn is a warm-up.
            if let Some((wall, cpu)) = used.filter(|_| turn > 0) {
                walls[side].push(wall);
                cpus[side].push(cpu);
            }
        }
    }
    check_roster(&project, "after one hook after the other")?;
    let wall = walls.map(|times| median(&times));
    let cpu = cpus.map(|times| median(&times));
    let what = |of: &str| format!("{of} of `hook SubagentStart`, {AGENTS} rows");
    let against_idle = |key, program: &str, side: usize, limit: f64| {
        let (what, program) = (what("CPU"), format!("`{program}`"));
        let row = Row::of_times(key, &what, &program, cpu[0], cpu[side]);
        let is_there = !cpu[side].is_nan();
        if is_there { row.at_most(limit) } else { row }
    };
    let same = "the floor, on the same file";
    Ok(vec![
        Row::of_times("hook", &what("wall"), same, wall[0], wall[1]).at_most(2.0),
        Row::of_times("hook-cpu", &what("CPU"), same, cpu[0], cpu[1]).at_most(2.0),
        against_idle("hook-node", "node -e 0", 2, 1.0 / 15.0),
        against_idle("hook-python", "python3 -S -c pass", 3, 1.0 / 6.0),
        at_once(bench)?,
    ])
}

/// Starts many hooks at once, in a project without a state and in one that has one. No trial may lose a row.
fn at_once(bench: &Bench) -> Result<Row> {
    let each = bench.size(100, 5);
    let trials = each * 2;
    for trial in 0..trials {
        let project = TempProject::on_disk()?;
        let is_warm = trial % 2 == 1;
        if is_warm {
            hook(bench, &project, 0)?.end()?;
        }
        let started = (0..AT_ONCE).map(|number| hook(bench, &project, number % AGENTS));
        for one in started.collect::<Result<Vec<_>>>()? {
            one.end()?;
        }
        check_roster(&project, &format!("in trial {trial} of hooks at once"))?;
    }
    let what = format!("{AT_ONCE} concurrent hooks, {AGENTS} agents: trials with every row");
    let against = format!("{trials} trials, {each} of them without a state before");
    let times = format!("{trials} of {trials}");
    Ok(Row::new("hooks-at-once", &what, &against, 1.0, times).at_least(1.0))
}

/// Starts the hook that reports a new agent, like the client.
fn hook(bench: &Bench, project: &TempProject, number: usize) -> Result<Started> {
    let mut command = bench.product.command(project, ["hook", "SubagentStart"]);
    // An agent of a client's session is not in a team of teamster.
    command.env_remove("TEAMSTER_TEAM");
    let payload = fixture::hook_payload(project, "SubagentStart", SESSION, &format!("w{number}"));
    Started::new(command, Some(payload.to_string()))
}

fn floor(floor: &Path, state: &Path) -> Command {
    let mut command = Command::new(floor);
    command.arg(state).arg(state.with_extension("tmp"));
    command.env_clear();
    command
}

fn state(project: &TempProject) -> Result<Value> {
    let file = project.folder().join(".bkit/agent-state.json");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("there is no {}", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// Checks that there is one row for each agent, and nothing left beside the state: the result must also be correct.
fn check_roster(project: &TempProject, when: &str) -> Result<()> {
    let state = state(project)?;
    let names = fixture::teammates(&state);
    let expected: Vec<String> = (0..AGENTS).map(|number| format!("w{number}")).collect();
    ensure!(names == expected, "{when} the roster is {names:?}");
    let mut others = files(&project.folder().join(".bkit"), &[""])?;
    others.retain(|name| name != "agent-state.json" && name != ".agent-state.lock");
    ensure!(others.is_empty(), "{when} there are also {others:?}");
    Ok(())
}

/// Returns the interpreter itself: the entry on PATH may be a wrapper script.
fn python() -> Option<PathBuf> {
    let mut command = Command::new(on_path("python3")?);
    command.args(["-c", "import sys; print(sys.executable)"]);
    let path = PathBuf::from(Finished::of(&mut command).ok()?.stdout.trim());
    path.is_file().then_some(path)
}

/// A running program.
struct Started {
    child: Child,
    began: Instant,
}

impl Started {
    fn new(mut command: Command, input: Option<String>) -> Result<Self> {
        let stdin = input.as_ref().map_or_else(Stdio::null, |_| Stdio::piped());
        command.stdin(stdin).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
            pipe.write_all(input.as_bytes())?;
        }
        Ok(Self { child, began })
    }

    /// Waits for the end and returns the elapsed and the CPU seconds; an error unless the program succeeds.
    ///
    /// Only the CPU time of the first thread counts. Hooks and the floor have no other thread; the cost of a program
    /// with more is underestimated.
    fn end(self) -> Result<(f64, f64)> {
        let Self { child, began } = self;
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let id = WaitId::Pid(id.context("a program without a process id")?);
        // It has exited and is not reaped yet: only now does the kernel know its total usage.
        while let Err(error) = waitid(id.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        let wall = began.elapsed().as_secs_f64();
        let used = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id()));
        let output = child.wait_with_output()?;
        let (status, stderr) = (output.status, String::from_utf8_lossy(&output.stderr));
        ensure!(status.success(), "a measured program: {status}: {stderr}");
        let used = used.context("this kernel does not tell how much CPU a process has used")?;
        let nanoseconds = used.split_whitespace().next();
        let nanoseconds: f64 = nanoseconds.context("an empty schedstat")?.parse()?;
        Ok((wall, nanoseconds / 1e9))
    }
}

/// Measures `--version`, `task list` and `status` on a large team, alternating with the floor.
pub(super) fn commands(bench: &Bench) -> Result<Vec<Row>> {
    let project = TempProject::on_disk()?;
    let store = large_team(&project)?;
    let state = project.root().join("state.json");
    let row =
        |number: usize| json!({"name": format!("w{number}"), "status": "working", "task": "3"});
    let rows: Vec<Value> = (0..10).map(row).collect();
    std::fs::write(&state, json!({"runs": 0, "rows": rows}).to_string())?;
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut status = None;
    for turn in 0..=bench.size(41, 5) {
        beat_all(&store)?;
        let call = |line: &str| bench.product.command(&project, words(line));
        let mut ended = Vec::new();
        for mut command in [
            floor(&bench.floor, &state),
            call("--version"),
            call("task list --json"),
            call("status --json"),
        ] {
            ended.push(Finished::checked(&mut command)?);
        }
        // The first turn is a warm-up.
        if turn > 0 {
            for (times, ended) in times.iter_mut().zip(&ended) {
                times.push(ended.took.as_secs_f64());
            }
        }
        status = ended[3].json();
    }
    let team = &status.context("status printed no JSON")?["teams"][0];
    let (tasks, workers) = (
        &team["progress"]["totalTasks"],
        list(&team["workers"]).count(),
    );
    let is_all = *tasks == TASKS && workers == WORKERS;
    ensure!(is_all, "status shows {tasks} tasks and {workers} workers");
    let [floor, version, list, status] = times.map(|times| median(&times));
    let team = format!("{TASKS} tasks and {WORKERS} workers");
    let least = "the floor: parse, write, rename";
    let on_team = |key, line: &str, time| {
        let what = format!("`{line}`, {team}");
        Row::of_times(key, &what, "`--version`", time, version)
    };
    Ok(vec![
        Row::of_times("version", "`teamster --version`", least, version, floor),
        on_team("list", "task list --json", list),
        on_team("status", "status --json", status).at_most(10.0),
    ])
}

/// Makes a team in the middle of its work: a third done, some in progress, some blocked.
fn large_team(project: &TempProject) -> Result<FileStore> {
    let store = fixture::create_team(project, WORKERS)?;
    let team = fixture::team()?;
    fixture::create_tasks(&store, TASKS / 2)?;
    let step = |number: usize| {
        let after: Vec<usize> = number.checked_sub(1).into_iter().collect();
        fixture::planned(&format!("step {number}"), &after)
    };
    let chain: Vec<_> = (0..CHAIN).map(step).collect();
    for _ in 0..TASKS / 2 / CHAIN {
        fixture::import(&store, &chain)?;
    }
    for number in 0..TASKS / 3 {
        let claimed = fixture::claim(&store, number % WORKERS + 1)?;
        store.complete(&team, claimed.task.id(), &claimed.token, None)?;
    }
    for number in 1..=WORKERS / 2 {
        fixture::claim(&store, number)?;
    }
    Ok(store)
}

/// Writes a fresh heartbeat for every worker.
pub(super) fn beat_all(store: &dyn Store) -> Result<()> {
    let machine = Machine::read();
    let me = machine.me();
    for number in 1..=WORKERS {
        store.beat(&Heartbeat {
            worker_name: fixture::worker(number)?,
            team_name: fixture::team()?,
            provider: "claude".to_owned(),
            pid: me.pid,
            last_poll_at: store.now(),
            current_task_id: None,
            consecutive_errors: 0,
            status: WorkerStatus::Polling,
            process_start_time: Some(me.process_start_time),
            boot_id: Some(me.boot_id.clone()),
            pid_ns: Some(me.pid_ns.clone()),
            host: Some(me.host.clone()),
            agent_session_id: None,
            last_event_at: Some(store.now()),
            limit: None,
            store_refusal: None,
            launch: None,
        })?;
    }
    Ok(())
}

//! Whole commands: the floor, `--version`, `task list` and `status` on a large team.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;
use teamster_fs::proc::Machine;
use teamster_store::{FileStore, Read, Store};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};

use super::table::{Limit, Row};
use super::{Programs, Size, median};
use crate::kit;
use crate::product::{Answer, Place};

/// Tasks that wait for each other, one after the other.
const CHAIN: usize = 100;

pub(super) fn measure(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let place = Place::on_disk()?;
    let store = large_team(&place, size)?;
    let state = place.root().join("state.json");
    std::fs::write(&state, state_of_ten_rows().to_string())?;
    let commands: [(&str, &[&str]); 3] = [
        ("version", &["--version"]),
        ("list", &["task", "list", "--json"]),
        ("status", &["status", "--json"]),
    ];
    let mut floor = Vec::new();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); commands.len()];
    for turn in 0..=size.commands {
        beat_all(&store, size)?;
        let took = floor_once(&programs.floor, &state)?;
        // The first turn only warms up.
        if turn > 0 {
            floor.push(took);
        }
        for ((name, words), times) in commands.iter().zip(&mut times) {
            let answer = programs.product.call(&place, *words)?;
            if !answer.status.success() {
                bail!("{name} failed: {}", answer.said());
            }
            if turn > 0 {
                times.push(answer.took.as_secs_f64());
            }
        }
    }
    check_status(programs, &place, size)?;
    let floor = median(&floor);
    let [version, list, status] = [median(&times[0]), median(&times[1]), median(&times[2])];
    let team = format!("{} tasks and {} workers", size.tasks, size.workers);
    let row = |key, what: String, against: &str, one: f64, other: f64, limit| Row {
        key,
        what,
        against: against.to_owned(),
        ratio: one / other,
        limit,
        times: format!("{:.2} ms : {:.2} ms", one * 1e3, other * 1e3),
    };
    Ok(vec![
        row(
            "version",
            "`teamster --version`".to_owned(),
            "the floor: parse, write, rename",
            version,
            floor,
            None,
        ),
        row(
            "list",
            format!("`task list --json`, {team}"),
            "`--version`",
            list,
            version,
            None,
        ),
        row(
            "status",
            format!("`status --json`, {team}"),
            "`--version`",
            status,
            version,
            Some(Limit::AtMost(10.0)),
        ),
    ])
}

fn floor_once(floor: &Path, state: &Path) -> Result<f64> {
    let mut command = Command::new(floor);
    let temp = state.with_extension("tmp");
    let answer = Answer::of(command.arg(state).arg(temp).env_clear())?;
    if !answer.status.success() {
        bail!("the floor failed: {}", answer.said());
    }
    Ok(answer.took.as_secs_f64())
}

fn state_of_ten_rows() -> serde_json::Value {
    let rows: Vec<_> = (0..10)
        .map(|number| json!({"name": format!("w{number}"), "status": "working", "task": "3"}))
        .collect();
    json!({"runs": 0, "rows": rows})
}

/// A team in the middle of its work: a third done, some in progress, some waiting.
fn large_team(place: &Place, size: Size) -> Result<FileStore> {
    let store = kit::team_of(place, size.workers)?;
    let team = kit::team()?;
    kit::free_tasks(&store, size.tasks / 2)?;
    let chain: Vec<_> = (0_usize..CHAIN)
        .map(|place| {
            let after: Vec<usize> = place.checked_sub(1).into_iter().collect();
            kit::planned(&format!("step {place}"), &after)
        })
        .collect();
    for _ in 0..size.tasks / 2 / CHAIN {
        store.import_tasks(&team, "user", &chain)?;
    }
    for number in 0..size.tasks / 3 {
        let claimed = kit::claim(&store, number % size.workers + 1)?;
        store.complete(&team, claimed.task.id(), &claimed.token, None)?;
    }
    for number in 1..=size.workers / 2 {
        kit::claim(&store, number)?;
    }
    Ok(store)
}

pub(super) fn beat_all(store: &FileStore, size: Size) -> Result<()> {
    let machine = Machine::read();
    let me = machine.me();
    for number in 1..=size.workers {
        store.beat(&Heartbeat {
            worker_name: kit::worker(number)?,
            team_name: kit::team()?,
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
            launch: None,
        })?;
    }
    Ok(())
}

/// What is fast must also be right.
fn check_status(programs: &Programs, place: &Place, size: Size) -> Result<()> {
    let answer = programs.product.call(place, ["status", "--json"])?;
    let status = answer.json().context("status printed no JSON")?;
    let team = &status["teams"][0];
    let workers = team["workers"].as_array().map_or(0, Vec::len);
    if team["progress"]["totalTasks"] != size.tasks || workers != size.workers {
        bail!(
            "status shows {} tasks and {workers} workers",
            team["progress"]["totalTasks"]
        );
    }
    Ok(())
}

//! Hooks: one against the floor and against interpreters that do nothing, and many at once.

mod child;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::table::{Limit, Row};
use super::{Programs, Size, median};
use crate::product::Place;
use child::Used;

/// Rows of a full roster.
const AGENTS: usize = 10;
/// Hooks that are started together.
const AT_ONCE: usize = 20;

pub(super) fn measure(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let mut rows = one(programs, size)?;
    rows.push(at_once(programs, size)?);
    Ok(rows)
}

/// What one hook costs, by turns with the others.
fn one(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    let place = Place::on_disk()?;
    for number in 0..AGENTS {
        hook(programs, &place, number).run()?;
    }
    let state = place.root().join("state.json");
    std::fs::write(&state, counted(&place)?)?;
    let python = python();
    let node = on_path("node");
    let sides: [&dyn Fn(usize) -> Result<Option<Used>>; 4] = [
        &|turn| hook(programs, &place, turn % AGENTS).run().map(Some),
        &|_| floor(&programs.floor, &state).run().map(Some),
        &|_| interpreter(node.as_deref(), &["-e", "0"], &place),
        &|_| interpreter(python.as_deref(), &["-S", "-c", "pass"], &place),
    ];
    let mut used: [Vec<Used>; 4] = Default::default();
    for turn in 0..=size.hooks {
        // To and fro: whoever follows an interpreter finds the caches cold.
        let order: [usize; 4] = if turn % 2 == 0 {
            [0, 1, 2, 3]
        } else {
            [3, 2, 1, 0]
        };
        for side in order {
            let one = sides[side](turn)?;
            // The first turn only warms up.
            if turn > 0 {
                used[side].extend(one);
            }
        }
    }
    let [hooks, floors, nodes, pythons] = used;
    check_roster(&place, "after one hook after the other")?;
    let wall = |used: &[Used]| median(&used.iter().map(|used| used.wall).collect::<Vec<_>>());
    let cpu = |used: &[Used]| median(&used.iter().map(|used| used.cpu).collect::<Vec<_>>());
    let what = |of: &str| format!("{of} of `hook SubagentStart`, {AGENTS} rows");
    let row = |key, of: &str, against: &str, one: f64, other: f64, limit: f64| Row {
        key,
        what: what(of),
        against: against.to_owned(),
        ratio: one / other,
        limit: Some(Limit::AtMost(limit)),
        times: format!("{:.2} ms : {:.2} ms", one * 1e3, other * 1e3),
    };
    let or_missing = |key, program: &str, used: &[Used], limit: f64| {
        if used.is_empty() {
            Row::missing(key, what("CPU"), &format!("`{program}`"))
        } else {
            row(
                key,
                "CPU",
                &format!("`{program}`"),
                cpu(&hooks),
                cpu(used),
                limit,
            )
        }
    };
    let same = "the floor, on the same file";
    Ok(vec![
        row("hook", "wall", same, wall(&hooks), wall(&floors), 2.0),
        row("hook-cpu", "CPU", same, cpu(&hooks), cpu(&floors), 2.0),
        or_missing("hook-node", "node -e 0", &nodes, 1.0 / 15.0),
        or_missing("hook-python", "python3 -S -c pass", &pythons, 1.0 / 6.0),
    ])
}

/// Many hooks at once, in a project without a state (cold) and in one that has one (warm). No trial may lose a row.
fn at_once(programs: &Programs, size: Size) -> Result<Row> {
    let (mut whole, mut trials) = (0_u32, 0_u32);
    for trial in 0..size.trials * 2 {
        let place = Place::on_disk()?;
        let is_warm = trial % 2 == 1;
        if is_warm {
            hook(programs, &place, 0).run()?;
        }
        let started: Vec<child::Started> = (0..AT_ONCE)
            .map(|number| hook(programs, &place, number % AGENTS).start())
            .collect::<Result<_>>()?;
        for one in started {
            one.end()?;
        }
        trials += 1;
        whole += u32::from(check_roster(&place, "after many at once").is_ok());
    }
    if whole != trials {
        bail!("{AT_ONCE} hooks at once: only {whole} of {trials} trials had all {AGENTS} rows");
    }
    Ok(Row {
        key: "hooks-at-once",
        what: format!("{AT_ONCE} concurrent hooks, {AGENTS} agents: trials with every row"),
        against: format!(
            "{trials} trials, {} of them without a state before",
            size.trials
        ),
        ratio: f64::from(whole) / f64::from(trials),
        limit: Some(Limit::AtLeast(1.0)),
        times: format!("{whole} of {trials}"),
    })
}

/// The start of an agent, as the client tells it.
fn hook(programs: &Programs, place: &Place, number: usize) -> child::Call {
    let mut command = programs.product.command(place, ["hook", "SubagentStart"]);
    // An agent of a client's session is in no team of ours.
    command.env_remove("TEAMSTER_TEAM");
    let payload = json!({
        "session_id": "0f2b8c1e-5d3a-4a57-9a8e-2f4f7d1c6b90",
        "transcript_path": place.home().join("transcript.jsonl"),
        "cwd": place.project(),
        "hook_event_name": "SubagentStart",
        "agent_id": format!("aw{number}-00112233445566{number:02}"),
        "agent_type": format!("w{number}"),
    });
    child::Call::new(command).input(payload.to_string())
}

fn floor(floor: &Path, state: &Path) -> child::Call {
    let mut command = Command::new(floor);
    command.arg(state).arg(state.with_extension("tmp"));
    command.env_clear();
    child::Call::new(command)
}

/// An interpreter that starts and ends, if it is there. Nothing of the caller's environment makes it slower than it is.
fn interpreter(program: Option<&Path>, words: &[&str], place: &Place) -> Result<Option<Used>> {
    let Some(program) = program else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(words).env_clear().env("HOME", place.home());
    child::Call::new(command).run().map(Some)
}

/// The state that the hooks wrote, with the number in it that the floor counts up.
fn counted(place: &Place) -> Result<String> {
    let mut state = state(place)?;
    state["runs"] = json!(0);
    Ok(serde_json::to_string_pretty(&state)?)
}

fn state(place: &Place) -> Result<Value> {
    let file = place.project().join(".bkit/agent-state.json");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("there is no {}", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// What is fast must also be right: one row for each agent, and nothing left beside the state.
fn check_roster(place: &Place, when: &str) -> Result<()> {
    let state = state(place)?;
    let mut names: Vec<&str> = state["teammates"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| row["name"].as_str())
        .collect();
    names.sort_unstable();
    let expected: Vec<String> = (0..AGENTS).map(|number| format!("w{number}")).collect();
    if names != expected {
        bail!("{when} the roster is {names:?}");
    }
    let mut others = Vec::new();
    for entry in std::fs::read_dir(place.project().join(".bkit"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "agent-state.json" && name != ".agent-state.lock" {
            others.push(name);
        }
    }
    if !others.is_empty() {
        bail!("{when} there are also {others:?}");
    }
    Ok(())
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// The interpreter itself: what the PATH leads to may be a script that looks for it.
fn python() -> Option<PathBuf> {
    let found = on_path("python3")?;
    let answer = Command::new(found)
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    path.is_file().then_some(path)
}

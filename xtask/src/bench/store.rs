//! The store through the library: writes against a raw loop, one process against several, small teams against large.

use anyhow::{Result, bail};
use serde_json::{Value, json};
use teamster_fs::Sync;
use teamster_store::{FileStore, Store};

use super::recipe::Recipe;
use super::table::{Limit, Row};
use super::{Programs, Size, by_turns, median};
use crate::product::Place;
use crate::workload::{BATCH, CONTENT};
use crate::{drain, kit};

/// Processes that drain a team together.
const PROCESSES: usize = 4;

pub(super) fn measure(programs: &Programs, size: Size) -> Result<Vec<Row>> {
    Ok(vec![
        cycle(programs, size)?,
        several(programs, size)?,
        growth(programs, size, "claims", Shape::Free)?,
        growth(programs, size, "claims-behind", Shape::Behind)?,
        append(programs, size)?,
        receive(programs, size)?,
        journal(programs, size)?,
    ])
}

/// A workload against its own recipe, by turns; the ratio of their speeds.
fn against_raw(
    key: &'static str,
    what: &str,
    samples: usize,
    recipe: &Recipe,
    count: usize,
    product: impl FnMut() -> Result<f64>,
    raw: impl FnMut() -> Result<f64>,
) -> Result<Row> {
    let (product, raw) = by_turns(samples, product, raw)?;
    Ok(Row {
        key,
        what: what.to_owned(),
        against: format!("a raw loop: {}", recipe.each(count)),
        ratio: raw / product,
        limit: Some(Limit::AtLeast(0.5)),
        times: per_operation(product, raw, count),
    })
}

fn per_operation(one: f64, other: f64, count: usize) -> String {
    let each = 1e3 / f64::from(u32::try_from(count).unwrap_or(1));
    format!("{:.2} ms : {:.2} ms each", one * each, other * each)
}

/// Follows a recipe in a folder of its own.
fn raw(programs: &Programs, work: &str, recipe: &Recipe, count: &str, lines: &str) -> Result<f64> {
    let place = Place::on_disk()?;
    std::fs::write(place.claude().join("lines"), lines)?;
    let file = recipe.file.to_string_lossy();
    programs.seconds(&place, &[work, "--count", count, "--recipe", &file])
}

/// Create, claim and complete, durable, in one process.
fn cycle(programs: &Programs, size: Size) -> Result<Row> {
    let place = Place::on_disk()?;
    kit::team_of(&place, 1)?;
    let count = size.operations.to_string();
    let words = ["cycle", "--count", &count];
    programs.seconds(&place, &words)?;
    let recipe = Recipe::of(programs, &place, &words)?;
    against_raw(
        "cycle",
        "create + claim + complete, durable, 1 process",
        size.workloads,
        &recipe,
        size.operations,
        || programs.seconds(&place, &words),
        || raw(programs, "raw", &recipe, "1", ""),
    )
}

fn append(programs: &Programs, size: Size) -> Result<Row> {
    let place = Place::on_disk()?;
    kit::team_of(&place, 2)?;
    let operations = size.operations * 4;
    let count = operations.to_string();
    let words = ["send", "--count", &count];
    programs.seconds(&place, &words)?;
    let recipe = Recipe::of(programs, &place, &words)?;
    against_raw(
        "append",
        "message send, durable",
        size.workloads,
        &recipe,
        operations,
        || programs.seconds(&place, &words),
        || raw(programs, "raw", &recipe, "1", ""),
    )
}

fn receive(programs: &Programs, size: Size) -> Result<Row> {
    let place = Place::on_disk()?;
    let store = kit::team_of(&place, 2)?;
    let count = size.operations.to_string();
    let words = ["receive", "--count", &count];
    let fill = || -> Result<()> {
        (0..size.operations * BATCH).try_for_each(|_| kit::send(&store, 1, 2, CONTENT))
    };
    fill()?;
    let recipe = Recipe::of(programs, &place, &words)?;
    let line = json!({
        "id": "0123456789abcdef0123456789abcdef", "type": "message", "from": "w1", "to": "w2",
        "content": CONTENT, "timestamp": "2026-01-01T00:00:00.000Z", "seq": 1234,
    });
    let lines = format!("{line}\n").repeat(size.operations * BATCH);
    against_raw(
        "receive",
        &format!("message read with acknowledgement, durable, {BATCH} at a time"),
        size.workloads.min(5),
        &recipe,
        size.operations,
        || {
            fill()?;
            programs.seconds(&place, &words)
        },
        || raw(programs, "raw-receive", &recipe, &count, &lines),
    )
    .map(|row| Row {
        against: format!("{}, reading and parsing the same lines", row.against),
        ..row
    })
}

/// Several processes claim all tasks of a team, against one.
fn several(programs: &Programs, size: Size) -> Result<Row> {
    let (together, alone) = by_turns(
        size.workloads.min(7),
        || drain_with(programs, size.drained, PROCESSES),
        || drain_with(programs, size.drained, 1),
    )?;
    Ok(Row {
        key: "drain",
        what: format!(
            "{PROCESSES} processes claim {} tasks, none twice",
            size.drained
        ),
        against: "1 process".to_owned(),
        ratio: together / alone,
        limit: Some(Limit::AtMost(1.25)),
        times: per_operation(together, alone, size.drained),
    })
}

fn drain_with(programs: &Programs, tasks: usize, processes: usize) -> Result<f64> {
    let place = Place::on_disk()?;
    let store = kit::team_of(&place, processes)?;
    kit::free_tasks(&store, tasks)?;
    let drained = drain::run(&programs.workloads, &place, processes, &[])?;
    let mut ids = drained.ids;
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    if all != tasks || ids.len() != tasks {
        bail!(
            "{processes} processes claimed {all} tasks, {} different ones, of {tasks}",
            ids.len()
        );
    }
    Ok(drained.took.as_secs_f64())
}

/// How the tasks of a team lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// All are claimable.
    Free,
    /// Nine of ten wait for the first one, which somebody works on; those behind them are claimable.
    Behind,
}

impl Shape {
    fn make(self, tasks: usize) -> Result<Place> {
        let place = Place::on_disk()?;
        let store = kit::team_of(&place, 2)?;
        if self == Self::Behind {
            kit::free_tasks(&store, 1)?;
            kit::claim(&store, 2)?;
            wait_for_first(&store, tasks / 10 * 9)?;
            kit::free_tasks(&store, tasks / 10)?;
        } else {
            kit::free_tasks(&store, tasks)?;
        }
        Ok(place)
    }
}

fn wait_for_first(store: &FileStore, count: usize) -> Result<()> {
    let mut waiting = kit::planned("waits", &[]);
    waiting.task.blocked_by = vec!["1".parse()?];
    for chunk in vec![waiting; count].chunks(250) {
        store.import_tasks(&kit::team()?, "user", chunk)?;
    }
    Ok(())
}

/// CPU time of a claim in a large team against one in a small team.
fn growth(programs: &Programs, size: Size, key: &'static str, shape: Shape) -> Result<Row> {
    let (small, large) = (shape.make(100)?, shape.make(size.largest)?);
    let middle = shape.make(1_000)?;
    let count = size.operations.to_string();
    let cpu = |place: &Place| -> Result<f64> {
        let figures = programs.figures(place, &["claims", "--count", &count])?;
        let each = figures["cpu"].as_array().cloned().unwrap_or_default();
        let each: Vec<f64> = each.iter().filter_map(Value::as_f64).collect();
        Ok(median(&each))
    };
    for place in [&small, &middle, &large] {
        cpu(place)?;
    }
    let mut middles = Vec::new();
    let (of_large, of_small) = by_turns(
        size.workloads,
        || {
            middles.push(cpu(&middle)?);
            cpu(&large)
        },
        || cpu(&small),
    )?;
    let where_from = match shape {
        Shape::Free => "",
        Shape::Behind => ", nine of ten tasks waiting",
    };
    Ok(Row {
        key,
        what: format!(
            "CPU of a claim in a team of {} tasks{where_from}",
            size.largest
        ),
        against: "in a team of 100".to_owned(),
        ratio: of_large / of_small,
        limit: (shape == Shape::Free).then_some(Limit::AtMost(2.0)),
        times: format!(
            "{:.0} µs : {:.0} µs; {:.0} µs with 1,000",
            of_large * 1e6,
            of_small * 1e6,
            median(&middles) * 1e6
        ),
    })
}

/// The last events of a long journal against those of a short one.
fn journal(programs: &Programs, size: Size) -> Result<Row> {
    let (long, short) = (with_events(size.events)?, with_events(1_000)?);
    let words = ["journal", "--count", "200"];
    let (of_long, of_short) = by_turns(
        size.workloads,
        || programs.seconds(&long, &words),
        || programs.seconds(&short, &words),
    )?;
    Ok(Row {
        key: "journal",
        what: format!("the last 20 of {} events", size.events),
        against: "of 1,000".to_owned(),
        ratio: of_long / of_short,
        limit: Some(Limit::AtMost(4.0)),
        times: per_operation(of_long, of_short, 200),
    })
}

/// A team whose journal has so many events. They are written as the store writes them, but all at once.
fn with_events(count: usize) -> Result<Place> {
    let place = Place::on_disk()?;
    kit::team_of(&place, 1)?;
    let file = place.team().join("events.jsonl");
    let mut text = std::fs::read_to_string(&file)?;
    let mut event: Value = serde_json::from_str(text.trim())?;
    event["type"] = json!("agent.event");
    event["data"] = json!({"text": CONTENT});
    for seq in 2..=count {
        event["seq"] = json!(seq);
        text.push_str(&event.to_string());
        text.push('\n');
    }
    std::fs::write(&file, text)?;
    place.store(Sync::Fast)?;
    Ok(place)
}

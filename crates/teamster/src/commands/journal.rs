//! Implements `teamster journal`.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use teamster_journal::Event;
use teamster_store::{Change, Damaged, ReadStore};
use teamster_types::TeamName;
use teamster_types::text::fit;

use crate::cli::TeamSelector;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{display_line, moment, redacted};
use crate::table::Tone;

/// The journal is read in pages of this size, so that its length does not matter.
const PAGE: usize = 1_000;
/// The timeout of one wait for changes. Nothing depends on it: a longer one only wakes up less often.
const PATIENCE: Duration = Duration::from_secs(30);
const DETAIL_WIDTH: usize = 100;
/// Lines are buffered up to this size before they are written, unless the journal is being followed.
const GATHERED: usize = 64 * 1024;

/// The fields that text output leaves out because they mean nothing to a person.
const HIDDEN: [&str; 7] = [
    "metadata",
    "activeForm",
    "blocks",
    "also",
    "messageId",
    "messageIds",
    "messageType",
];
const OPENING: &str = "{\"events\":[";

/// Show what happened in a team, event by event
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster journal
  teamster journal --last 5 --type task.
  teamster journal --from 3 --json
  teamster journal --follow --json   # until Ctrl-C")]
pub struct JournalArgs {
    #[command(flatten)]
    team: TeamSelector,
    /// Keep showing new events until interrupted
    #[arg(long)]
    follow: bool,
    /// Start at this position
    #[arg(long, value_name = "SEQ", conflicts_with = "last")]
    from: Option<u64>,
    /// Only the last N events
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Only events whose type starts with this prefix
    #[arg(
        long = "type",
        value_name = "PREFIX",
        default_value = "",
        hide_default_value = true
    )]
    kind: String,
}

impl JournalArgs {
    pub fn run(self, context: &Context) -> Result {
        let team = self.team.find(context)?;
        let read = context.read()?;
        // A team that does not exist is an error, even though its journal would be empty.
        read.team(&team)?;
        let mut sink = EventSink::new(context, self.follow);
        // Read before the first page: events written after this come from the watch, exactly once.
        let end = read.position(&team)?;
        match self.last {
            Some(count) => self.last_events(read, &team, count, &mut sink)?,
            None => self.events_up_to(read, &team, end, &mut sink)?,
        }
        if self.follow {
            return self.follow(read, &team, end, &mut sink);
        }
        sink.end()
    }

    fn events_up_to(
        &self,
        read: &dyn ReadStore,
        team: &TeamName,
        end: u64,
        sink: &mut EventSink<'_>,
    ) -> Result {
        let mut from = self.from.unwrap_or(1);
        while from <= end {
            let page = read.events(team, from, PAGE)?;
            sink.damaged.extend(page.damaged);
            let Some(last) = page.events.last() else {
                break;
            };
            from = last.seq + 1;
            for event in page
                .events
                .iter()
                .filter(|event| event.seq <= end && self.fits(event))
            {
                sink.put(event)?;
            }
        }
        Ok(())
    }

    /// Prints the last `count` matching events. Only a search from the end finds them, so it reads further and
    /// further back.
    fn last_events(
        &self,
        read: &dyn ReadStore,
        team: &TeamName,
        count: usize,
        sink: &mut EventSink<'_>,
    ) -> Result {
        let mut reach = count;
        loop {
            let page = read.last_events(team, reach)?;
            let fitting: Vec<&Event> = page
                .events
                .iter()
                .filter(|event| self.fits(event))
                .collect();
            let all = page.events.first().is_none_or(|first| first.seq <= 1);
            if fitting.len() >= count || all {
                sink.damaged.extend(page.damaged);
                for event in &fitting[fitting.len().saturating_sub(count)..] {
                    sink.put(event)?;
                }
                return Ok(());
            }
            reach = reach.saturating_mul(8).max(PAGE);
        }
    }

    fn follow(
        &self,
        read: &dyn ReadStore,
        team: &TeamName,
        end: u64,
        sink: &mut EventSink<'_>,
    ) -> Result {
        let mut watch = read.watch(team, end)?;
        loop {
            for change in watch.wait(PATIENCE)? {
                if let Change::Event(event) = change
                    && self.fits(&event)
                    && self.from.is_none_or(|from| event.seq >= from)
                {
                    sink.put(&event)?;
                }
            }
        }
    }

    fn fits(&self, event: &Event) -> bool {
        event.kind.starts_with(&self.kind)
    }
}

/// Where events are written: as text one line each; as JSON one object per line when following, else one object for
/// all, written piece by piece.
struct EventSink<'a> {
    context: &'a Context,
    follow: bool,
    count: usize,
    damaged: Vec<Damaged>,
    gathered: String,
}

impl<'a> EventSink<'a> {
    fn new(context: &'a Context, follow: bool) -> Self {
        Self {
            context,
            follow,
            count: 0,
            damaged: Vec::new(),
            gathered: String::new(),
        }
    }

    fn put(&mut self, event: &Event) -> Result {
        let out = self.context.out;
        let text = if !out.is_json() {
            line(event, out.has_colour()) + "\n"
        } else if self.follow {
            redacted(json!(event)).to_string() + "\n"
        } else {
            let before = if self.count == 0 { OPENING } else { "," };
            format!("{before}{}", redacted(json!(event)))
        };
        self.count += 1;
        self.gathered.push_str(&text);
        if self.follow || self.gathered.len() > GATHERED {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result {
        self.context.out.write(&std::mem::take(&mut self.gathered))
    }

    fn end(mut self) -> Result {
        let out = self.context.out;
        if out.is_json() {
            let before = if self.count == 0 { OPENING } else { "" };
            let damaged = redacted(json!(self.damaged));
            let _ = writeln!(self.gathered, "{before}],\"problems\":{damaged}}}");
        } else {
            for damaged in &self.damaged {
                let problem = format!(
                    "{}: {}",
                    display_line(&damaged.file),
                    display_line(&damaged.error)
                );
                self.gathered
                    .push_str(&Tone::Bad.paint(&problem, out.has_colour()));
                self.gathered.push('\n');
            }
        }
        self.flush()
    }
}

/// Returns one line for an event: `17  2026-02-07 12:00:00  task.claimed  worker-1  task 3  pending → in_progress  {…}`.
pub fn line(event: &Event, colour: bool) -> String {
    let mut parts = vec![
        format!("{:>6}", event.seq),
        moment(event.ts),
        format!("{:<18}", display_line(&event.kind)),
        format!("{:<12}", display_line(event.actor.as_str())),
    ];
    if let Some(task) = &event.task_id {
        parts.push(format!("task {task}"));
    }
    let mut data = event.data.clone();
    if event.task_id.is_some()
        && let (Some(from), Some(to)) = (data.shift_remove("from"), data.shift_remove("to"))
    {
        parts.push(format!("{} → {}", word(&from), word(&to)));
    }
    // The full new state of a task is for programs; `--json` prints it.
    data.retain(|key, value| !HIDDEN.contains(&key.as_str()) && !is_empty(value));
    if !data.is_empty() {
        let detail = redacted(Value::Object(data)).to_string();
        let detail = fit(&display_line(&detail), DETAIL_WIDTH);
        parts.push(Tone::Faint.paint(&detail, colour));
    }
    parts.join("  ")
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => display_line(text),
        Value::Null => "nothing".to_owned(),
        other => display_line(&other.to_string()),
    }
}

//! `teamster worker logs`

mod tail;

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use teamster_fs::{Dir, layout};
use teamster_types::TaskId;
use teamster_types::text::fit;

use super::wanted::{Named, WorkerArg};
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::shown::viewed_line;
use tail::{Names, Tail};

const LOOK_AGAIN: Duration = Duration::from_millis(200);
const WIDTH: usize = 160;

/// Show what a worker's agent did (redacted)
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster worker logs worker-1
  teamster worker logs worker-1 --task 3 --last 20
  teamster worker logs worker-1 --follow   # until Ctrl-C
  teamster worker logs worker-1 --raw
  teamster worker logs worker-1 --json")]
pub struct Logs {
    #[command(flatten)]
    worker: WorkerArg,
    /// Of this task [default: the latest]
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Go on with new lines, and with the next task, until interrupted
    #[arg(long)]
    follow: bool,
    /// Only the last so many lines
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// As the agent sent it, not as people read it
    #[arg(long)]
    raw: bool,
    /// What the bridge itself printed
    #[arg(long, conflicts_with = "task")]
    bridge: bool,
}

impl Logs {
    pub fn run(self, context: &Context) -> Result {
        let named = self.worker.find(context)?;
        let nothing = || {
            CommandError::not_found(format!("there is no log of {} yet", named.worker))
                .hint("`teamster worker list` shows whether it runs")
        };
        let task = self.task.as_deref().map(str::parse).transpose()?;
        // A task that is tried again is gone on with where it was left.
        let mut tails: Vec<Tail> = Vec::new();
        loop {
            if let Some(folder) = folder(&named)? {
                let wanted = if self.bridge {
                    Some(Names::bridge())
                } else {
                    let latest = || latest(&folder);
                    let task = task.clone().map_or_else(latest, |task| Ok(Some(task)))?;
                    task.as_ref().map(Names::of)
                };
                // What is left of the last one comes before the first of the next.
                for tail in &mut tails {
                    for line in tail.lines(&folder)? {
                        self.show(context, &line)?;
                    }
                }
                if let Some(names) = wanted
                    && tails.iter().all(|tail| *tail.names() != names)
                {
                    let mut tail = Tail::new(names);
                    let mut lines = tail.lines(&folder)?;
                    if !self.follow {
                        lines.extend(tail.unfinished());
                    }
                    let last = self.last.filter(|_| tails.is_empty());
                    let from = last.map_or(0, |last| lines.len().saturating_sub(last));
                    for line in &lines[from..] {
                        self.show(context, line)?;
                    }
                    if !lines.is_empty() || self.follow {
                        tails.push(tail);
                    }
                }
            }
            if !self.follow {
                return if tails.is_empty() {
                    Err(nothing())
                } else {
                    Ok(())
                };
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn show(&self, context: &Context, line: &str) -> Result {
        if context.out.is_json() {
            return context.out.write(&format!("{line}\n"));
        }
        let said = said(line, self.raw);
        if said.says_nothing() {
            return Ok(());
        }
        let mut head = match said.ts.as_str() {
            "" if said.from.is_empty() => String::new(),
            ts => format!("{ts} {:8} ", said.from),
        };
        let width = if context.out.is_screen() {
            WIDTH
        } else {
            usize::MAX
        };
        // What was said in several lines is shown in several, one below the other.
        for text in said.text.lines() {
            let text = format!("{head}{}", viewed_line(text));
            context.out.write(&format!("{}\n", fit(&text, width)))?;
            head = " ".repeat(head.len());
        }
        Ok(())
    }
}

/// One line of a log, for people.
pub struct Said {
    /// When; empty when the line does not say.
    pub ts: String,
    /// Who; empty when the line does not say.
    pub from: String,
    /// What.
    pub text: String,
    is_for_people: bool,
}

impl Said {
    /// Whether a client only talked to itself.
    pub fn says_nothing(&self) -> bool {
        self.is_for_people && self.text.is_empty()
    }
}

/// Reads one line of a log: as people read it where that is known, or as the agent sent it.
pub fn said(line: &str, raw: bool) -> Said {
    let Ok(entry) = serde_json::from_str::<Value>(line) else {
        return Said {
            ts: String::new(),
            from: String::new(),
            text: line.to_owned(),
            is_for_people: false,
        };
    };
    let shown = entry.get("shown").and_then(Value::as_str);
    let shown = shown.filter(|_| !raw);
    let word = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let text = match (shown, entry.get("event")) {
        (Some(shown), _) => shown.to_owned(),
        (None, Some(event)) => event
            .get("teamster")
            .and_then(Value::as_str)
            .map_or_else(|| event.to_string(), str::to_owned),
        (None, None) => word("text").to_owned(),
    };
    Said {
        ts: word("ts").to_owned(),
        from: word("from").to_owned(),
        text,
        is_for_people: shown.is_some(),
    }
}

/// The folder of a worker's logs; `None` when it has none.
pub fn folder(named: &Named) -> Result<Option<Dir>> {
    let Some(project) = Dir::open_root(&named.project)? else {
        return Ok(None);
    };
    let Some(mut dir) = project.child(layout::OMC)? else {
        return Ok(None);
    };
    for name in layout::log_folders(&named.team, &named.worker) {
        match dir.child(name)? {
            Some(child) => dir = child,
            None => return Ok(None),
        }
    }
    Ok(Some(dir))
}

/// The task whose log was written last.
fn latest(folder: &Dir) -> Result<Option<TaskId>> {
    Ok(tasks(folder)?.into_iter().next())
}

/// The tasks that there is a log of, the one that was written last first.
pub fn tasks(folder: &Dir) -> Result<Vec<TaskId>> {
    let mut found: Vec<(i64, TaskId)> = Vec::new();
    for entry in folder.entries()? {
        let task = entry.name.strip_suffix(".jsonl");
        if let Some(Ok(task)) = task.map(str::parse::<TaskId>)
            && let Some(stamp) = folder.stamp(&entry.name)?
        {
            found.push((stamp.modified, task));
        }
    }
    found.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
    Ok(found.into_iter().map(|(_, task)| task).collect())
}

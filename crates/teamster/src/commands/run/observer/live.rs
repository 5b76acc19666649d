//! A run on a terminal: events scroll by, the current status stays at the bottom.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use teamster_fs::terminal::{self, HiddenControlKeys};
use teamster_journal::WorkerPhase;
use teamster_run::observer::{RunSnapshot, StopLevel};
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::progress::Progress;
use teamster_types::task::Task;
use teamster_types::text::wrap;

use super::text::RunDisplay;
use crate::output::Output;
use crate::shown::display_line;

/// Beyond this number, workers are counted instead of shown one by one.
const MOST_ROWS: usize = 20;
/// The number of columns that the time takes at the beginning of a line.
const INDENT: usize = 10;
const REDRAW: Duration = Duration::from_millis(200);
/// How many lines are held back while the user types; further ones are only in the journal.
const MOST_HELD: usize = 200;

/// Bars at the bottom of the terminal, one for each worker and one for the run; lines scroll by above them.
pub struct LiveBars {
    out: Output,
    bars: MultiProgress,
    summary: ProgressBar,
    workers: BTreeMap<String, ProgressBar>,
    drawn: Option<Instant>,
    /// Lines from while a question was open, to be printed after it.
    held: Vec<String>,
    /// The bars would not be redrawn where they are after a Ctrl-C that the terminal shows.
    _control_keys: HiddenControlKeys,
}

impl LiveBars {
    pub fn new(out: Output) -> Self {
        let bars = MultiProgress::new();
        let summary = bars.add(ProgressBar::new_spinner());
        summary.set_style(style(out, "{spinner} {wide_msg}"));
        Self {
            out,
            bars,
            summary,
            workers: BTreeMap::new(),
            drawn: None,
            held: Vec::new(),
            _control_keys: HiddenControlKeys::hide(),
        }
    }

    fn print_held(&mut self) {
        for line in self.held.drain(..) {
            let _ = self.bars.println(wrapped(&line));
        }
    }

    fn rows(&mut self, snapshot: &RunSnapshot<'_>) {
        let shown: Vec<&Heartbeat> = snapshot.beats.iter().take(MOST_ROWS).collect();
        let gone: Vec<String> = self
            .workers
            .keys()
            .filter(|name| !shown.iter().any(|beat| beat.worker_name.as_str() == *name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(bar) = self.workers.remove(&name) {
                bar.finish_and_clear();
            }
        }
        for beat in shown {
            let row = row(beat, snapshot);
            let (bars, summary, out) = (&self.bars, &self.summary, self.out);
            let bar = self
                .workers
                .entry(beat.worker_name.to_string())
                .or_insert_with(|| {
                    let bar = bars.insert_before(summary, ProgressBar::new_spinner());
                    bar.set_style(style(out, "  {spinner} {wide_msg}"));
                    bar
                });
            bar.set_message(row);
            bar.tick();
        }
    }
}

impl RunDisplay for LiveBars {
    /// Prints a line above the bars. While the user types, it is held back so that it does not break up the input.
    fn print(&mut self, line: &str, is_asking: bool) {
        if is_asking {
            if self.held.len() < MOST_HELD {
                self.held.push(line.to_owned());
            }
            return;
        }
        self.print_held();
        let _ = self.bars.println(wrapped(line));
    }

    /// Shows a text without bars below it.
    fn show(&mut self, text: &str) {
        self.print_held();
        let _ = self.bars.clear();
        self.out.remark(text);
    }

    fn output(&mut self, lines: &str) {
        let Some(line) = lines.lines().rfind(|line| !line.trim().is_empty()) else {
            return;
        };
        self.summary
            .set_message(format!("| {}", display_line(line)));
        self.summary.tick();
    }

    fn update(&mut self, snapshot: &RunSnapshot<'_>, answers_wanted: usize, stopping: StopLevel) {
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        self.print_held();
        self.drawn = Some(Instant::now());
        self.rows(snapshot);
        let summary = summary(snapshot, answers_wanted);
        self.summary.set_message(match stopping {
            StopLevel::GoOn => summary,
            _ => format!("stopping · {summary}"),
        });
        self.summary.tick();
    }

    fn end(&mut self) {
        self.print_held();
        for bar in self.workers.values() {
            bar.finish_and_clear();
        }
        self.summary.finish_and_clear();
    }
}

/// Wraps a line for this terminal: broken between words, with the rest indented below the text after the time.
fn wrapped(line: &str) -> String {
    match terminal::columns() {
        Some(columns) => wrap(line, columns, INDENT),
        None => line.to_owned(),
    }
}

fn style(out: Output, template: &str) -> ProgressStyle {
    let template = if out.has_colour() {
        template.replace("{spinner}", "{spinner:.cyan}")
    } else {
        template.to_owned()
    };
    ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn row(beat: &Heartbeat, snapshot: &RunSnapshot<'_>) -> String {
    let limit = beat.limit.as_ref().map(|limit| limit.phrase().to_string());
    let (state, name) = (snapshot.state, beat.worker_name.as_str());
    let asks = state.questions.is_waiting(name) || state.permissions.is_waiting(name);
    let doing = match (&beat.current_task_id, beat.status) {
        (Some(id), _) if limit.is_some() => format!("task {id}  {}", limit.unwrap_or_default()),
        (None, _) if limit.is_some() => limit.unwrap_or_default(),
        (Some(id), _) if asks => format!("task {id}  {}", WorkerPhase::Waiting.as_str()),
        (Some(id), _) => {
            let task = snapshot.tasks.iter().find(|task| task.id() == id);
            format!("task {id}  {}", task.map_or("", Task::subject))
        }
        (None, WorkerStatus::Quarantined) => "takes no more tasks".to_owned(),
        (None, _) => "idle".to_owned(),
    };
    // Names are validated, but a provider and a subject may contain anything.
    let provider: String = display_line(&beat.provider).chars().take(12).collect();
    format!(
        "{:<12} {provider:<12} {}",
        beat.worker_name,
        display_line(&doing)
    )
}

fn summary(snapshot: &RunSnapshot<'_>, answers_wanted: usize) -> String {
    let progress = Progress::of(snapshot.tasks);
    let stage = snapshot.state.stage.map_or("", |stage| stage.as_str());
    let seconds = snapshot.worked.as_secs();
    let failed = match progress.failed_tasks {
        0 => String::new(),
        some => format!(" · {some} failed"),
    };
    let hidden = snapshot.beats.len().saturating_sub(MOST_ROWS);
    let hidden = match hidden {
        0 => String::new(),
        some => format!(" · {some} more workers"),
    };
    let wanted = match answers_wanted {
        0 => String::new(),
        1 => "1 question for you: press Enter · ".to_owned(),
        some => format!("{some} questions for you: press Enter · "),
    };
    format!(
        "{wanted}{stage} · {}/{} tasks{failed} · {}:{:02} · {}{hidden}",
        progress.completed_tasks,
        progress.total_tasks,
        seconds / 60,
        seconds % 60,
        snapshot.state.spent.run.words(),
    )
}

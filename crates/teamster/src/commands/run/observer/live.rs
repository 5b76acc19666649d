//! A run on a terminal: what happened scrolls by, how things stand stays at the bottom.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use teamster_journal::Event;
use teamster_run::observer::{GateReply, RunObserver, RunSnapshot, StopLevel};
use teamster_store::PlannedTask;
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::progress::Progress;
use teamster_types::task::Task;

use super::signals::words;
use super::{Screen, plan_text};
use crate::commands::run::messages::EventMessages;
use crate::output::Output;
use crate::shown::viewed_line;

/// More workers than this are counted and not shown one by one.
const MOST_ROWS: usize = 20;
const REDRAW: Duration = Duration::from_millis(200);
/// Lines that are kept while somebody types; more are in the journal only.
const MOST_HELD: usize = 200;

/// A live view.
pub struct Live<'a> {
    out: Output,
    screen: Screen<'a>,
    messages: EventMessages,
    told: StopLevel,
    bars: MultiProgress,
    summary: ProgressBar,
    workers: BTreeMap<String, ProgressBar>,
    drawn: Option<Instant>,
    asked_plan: bool,
    /// Lines that happened while a question was open, to be printed after it.
    held: Vec<String>,
}

impl<'a> Live<'a> {
    pub fn new(out: Output, screen: Screen<'a>) -> Self {
        let bars = MultiProgress::new();
        let summary = bars.add(ProgressBar::new_spinner());
        summary.set_style(style(out, "{spinner} {wide_msg}"));
        Self {
            out,
            screen,
            messages: EventMessages::default(),
            told: StopLevel::GoOn,
            bars,
            summary,
            workers: BTreeMap::new(),
            drawn: None,
            asked_plan: false,
            held: Vec::new(),
        }
    }

    /// Prints a line above the bars. While somebody types it would tear what they type apart, so it waits.
    fn print(&mut self, line: &str) {
        if self.screen.is_asking() {
            if self.held.len() < MOST_HELD {
                self.held.push(line.to_owned());
            }
            return;
        }
        self.print_held();
        let _ = self.bars.println(line);
    }

    fn print_held(&mut self) {
        for line in self.held.drain(..) {
            let _ = self.bars.println(line);
        }
    }

    /// Shows what is asked about, without bars below it.
    fn show(&mut self, text: &str) {
        self.print_held();
        let _ = self.bars.clear();
        self.screen.context.out.remark(text);
    }

    fn rows(&mut self, look: &RunSnapshot<'_>) {
        let shown: Vec<&Heartbeat> = look.beats.iter().take(MOST_ROWS).collect();
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
            let row = row(beat, look);
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

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.screen.close("");
        self.print_held();
        for bar in self.workers.values() {
            bar.finish_and_clear();
        }
        self.summary.finish_and_clear();
    }
}

impl RunObserver for Live<'_> {
    fn event(&mut self, event: &Event) {
        self.screen.follow(event);
        if let Some(line) = self.messages.of(event) {
            let time = event.ts.to_string();
            let time = time.get(11..19).unwrap_or_default();
            self.print(&format!("{time}  {line}"));
        }
    }

    fn past_event(&mut self, event: &Event) {
        self.messages.of(event);
    }

    fn update(&mut self, look: &RunSnapshot<'_>) {
        let wish = self.screen.signals.stop_level();
        if wish > self.told {
            self.told = wish;
            if let Some(text) = words(wish) {
                self.print(text);
            }
        }
        if self.screen.is_asking() || self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        self.print_held();
        self.drawn = Some(Instant::now());
        self.rows(look);
        self.summary.set_message(summary(look));
        self.summary.tick();
    }

    fn say(&mut self, text: &str) {
        self.print(&format!("          {}", viewed_line(text)));
    }

    fn output(&mut self, lines: &str) {
        let Some(line) = lines.lines().rfind(|line| !line.trim().is_empty()) else {
            return;
        };
        self.summary.set_message(format!("| {}", viewed_line(line)));
        self.summary.tick();
    }

    fn stop_level(&self) -> StopLevel {
        self.screen.signals.stop_level()
    }

    fn accept_plan(&mut self, tasks: &[PlannedTask]) -> Option<bool> {
        if !self.asked_plan {
            self.asked_plan = true;
            self.show(&plan_text(tasks));
            self.screen.ask_about_plan();
        }
        self.screen.accepts_plan()
    }

    fn open_gate(&mut self, text: &str) {
        self.show(text);
        self.screen.ask_about_gate();
        self.screen.gate_is_open();
    }

    fn waits_for_answer(&self) -> bool {
        self.screen.stays
    }

    fn answer(&mut self) -> Option<GateReply> {
        self.screen.answer()
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

fn row(beat: &Heartbeat, look: &RunSnapshot<'_>) -> String {
    let doing = match (&beat.current_task_id, beat.status) {
        (Some(id), _) => {
            let task = look.tasks.iter().find(|task| task.id() == id);
            format!("task {id}  {}", task.map_or("", Task::subject))
        }
        (None, WorkerStatus::Quarantined) => "takes no more tasks".to_owned(),
        (None, _) => "idle".to_owned(),
    };
    // Names are checked, but a provider and a subject may hold anything.
    let provider: String = viewed_line(&beat.provider).chars().take(12).collect();
    format!(
        "{:<12} {provider:<12} {}",
        beat.worker_name,
        viewed_line(&doing)
    )
}

fn summary(look: &RunSnapshot<'_>) -> String {
    let progress = Progress::of(look.tasks);
    let stage = look.state.stage.map_or("", |stage| stage.as_str());
    let seconds = look.worked.as_secs();
    let failed = match progress.failed_tasks {
        0 => String::new(),
        some => format!(" · {some} failed"),
    };
    let hidden = look.beats.len().saturating_sub(MOST_ROWS);
    let hidden = match hidden {
        0 => String::new(),
        some => format!(" · {some} more workers"),
    };
    format!(
        "{stage} · {}/{} tasks{failed} · {}:{:02} · {} tokens · {}{hidden}",
        progress.completed_tasks,
        progress.total_tasks,
        seconds / 60,
        seconds % 60,
        look.state.spent.run.say_tokens(),
        look.state.spent.run.say_money(),
    )
}

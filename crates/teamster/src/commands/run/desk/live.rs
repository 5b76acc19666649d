//! A run on a terminal: what happened scrolls by, how things stand stays at the bottom.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use teamster_run::desk::{Desk, Look, Said, Wish};
use teamster_store::PlannedTask;
use teamster_types::event::Event;
use teamster_types::heartbeat::{Heartbeat, WorkerStatus};
use teamster_types::progress::Progress;
use teamster_types::task::Task;

use super::Screen;
use super::prompt::Prompt;
use super::signals::words;
use crate::commands::run::words::Words;
use crate::output::Output;
use crate::shown::{plain, viewed_line};

/// More workers than this are counted and not shown one by one.
const MOST_ROWS: usize = 20;
const REDRAW: Duration = Duration::from_millis(200);

/// A live view.
pub struct Live<'a> {
    out: Output,
    screen: Screen<'a>,
    words: Words,
    told: Wish,
    bars: MultiProgress,
    summary: ProgressBar,
    workers: BTreeMap<String, ProgressBar>,
    drawn: Option<Instant>,
    asked_plan: bool,
}

impl<'a> Live<'a> {
    pub fn new(out: Output, screen: Screen<'a>) -> Self {
        let bars = MultiProgress::new();
        let summary = bars.add(ProgressBar::new_spinner());
        summary.set_style(style(out, "{spinner} {wide_msg}"));
        Self {
            out,
            screen,
            words: Words::default(),
            told: Wish::GoOn,
            bars,
            summary,
            workers: BTreeMap::new(),
            drawn: None,
            asked_plan: false,
        }
    }

    fn print(&self, line: &str) {
        let _ = self.bars.println(line);
    }

    fn rows(&mut self, look: &Look<'_>) {
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
        for bar in self.workers.values() {
            bar.finish_and_clear();
        }
        self.summary.finish_and_clear();
    }
}

impl Desk for Live<'_> {
    fn event(&mut self, event: &Event) {
        if let Some(line) = self.words.of(event) {
            let time = event.ts.to_string();
            let time = time.get(11..19).unwrap_or_default();
            self.print(&format!("{time}  {line}"));
        }
    }

    fn known(&mut self, event: &Event) {
        self.words.of(event);
    }

    fn look(&mut self, look: &Look<'_>) {
        let wish = self.screen.signals.wish();
        if wish > self.told {
            self.told = wish;
            if let Some(text) = words(wish) {
                self.print(text);
            }
        }
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        self.rows(look);
        self.summary.set_message(summary(look));
        self.summary.tick();
    }

    fn say(&mut self, text: &str) {
        self.print(&format!("          {}", viewed_line(text)));
    }

    fn output(&mut self, line: &str) {
        self.summary.set_message(format!("| {}", viewed_line(line)));
        self.summary.tick();
    }

    fn wish(&self) -> Wish {
        self.screen.signals.wish()
    }

    fn accept_plan(&mut self, tasks: &[PlannedTask]) -> Option<bool> {
        if !self.asked_plan {
            self.asked_plan = true;
            for (place, planned) in tasks.iter().enumerate() {
                let line = format!("  {:>3}  {}", place + 1, planned.task.subject);
                self.print(&viewed_line(&line));
            }
            self.print("Carry out this plan? [yes/no]");
        }
        let line = self.screen.prompt.as_mut()?.line()?;
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => Some(true),
            "n" | "no" => Some(false),
            _ => {
                self.print("yes or no?");
                None
            }
        }
    }

    fn open_gate(&mut self, text: &str) {
        // What was typed before this was shown cannot be about it.
        while self
            .screen
            .prompt
            .as_mut()
            .is_some_and(|prompt| prompt.line().is_some())
        {}
        self.summary.set_message("waits for you");
        self.print(&plain(text));
        if self.screen.prompt.is_some() {
            self.print(Prompt::HELP);
        }
        self.screen.gate_is_open();
    }

    fn stays(&self) -> bool {
        self.screen.stays
    }

    fn answer(&mut self) -> Option<Said> {
        let answer = self.screen.answer();
        let puzzled = self
            .screen
            .prompt
            .as_mut()
            .and_then(|prompt| prompt.puzzled.take());
        if puzzled.is_some() {
            self.print(Prompt::HELP);
        }
        answer
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

fn row(beat: &Heartbeat, look: &Look<'_>) -> String {
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

fn summary(look: &Look<'_>) -> String {
    let progress = Progress::of(look.tasks);
    let stage = look.story.stage.map_or("", |stage| stage.as_str());
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
        look.story.spent.run.say_tokens(),
        look.story.spent.run.say_money(),
    )
}

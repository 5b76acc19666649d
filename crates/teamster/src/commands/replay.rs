//! Implements `teamster replay`.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use teamster_fs::{Dir, layout};
use teamster_journal::Event;
use teamster_store::{Damaged, ReadStore};
use teamster_studio::top::{KeyPress, TerminalScreen, TopFrame, once};
use teamster_types::{TeamName, Time};
use teamster_view::model::{PAGE, TeamProjection};

use super::journal::line;
use super::top::{SMALL, no_screen};
use crate::context::Context;
use crate::error::{AppError, Result};
use crate::shown::redacted;

/// The longest pause between two events, even if more time passed between them.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The default speed, as a factor.
const SPEED: f64 = 10.0;
const KEYS: &str = "q quit  space wait/go on  → next event  ↑↓ worker";

/// Replay a run from its journal
///
/// The journal may belong to an existing team, to a removed team whose report was kept, or be any journal file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster replay fix-auth --to 3
  teamster replay fix-auth --to 5 --json
  teamster replay ~/.claude/teams/fix-auth/events.jsonl --speed 1000")]
pub struct ReplayArgs {
    /// A team or a journal file
    #[arg(value_name = "TEAM|FILE")]
    what: String,
    /// Show the team as it was right after this event
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["step", "speed"])]
    to: Option<u64>,
    /// Advance when a key is pressed
    #[arg(long)]
    step: bool,
    /// Speed relative to the original run [default: 10]
    #[arg(long, value_name = "N", conflicts_with = "step", value_parser = speed)]
    speed: Option<f64>,
}

fn speed(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok();
    number
        .filter(|speed: &f64| speed.is_finite() && *speed > 0.0)
        .ok_or_else(|| "expected a number above 0".to_owned())
}

impl ReplayArgs {
    pub fn run(self, context: &Context) -> Result {
        let source = ReplaySource::find(context, &self.what)?;
        if let Some(to) = self.to {
            return show_at(context, &source, to);
        }
        if context.out.is_screen() {
            return self.play(&source);
        }
        if self.step {
            return Err(AppError::usage("--step needs a terminal to press keys on")
                .hint("`--to SEQ` shows one moment"));
        }
        if self.speed.is_none() {
            return show_at(context, &source, u64::MAX);
        }
        self.print(context, &source)
    }

    /// Prints every event at its time, then the end, for output that is not a screen.
    fn print(&self, context: &Context, source: &ReplaySource<'_>) -> Result {
        let mut before: Option<Time> = None;
        let mut wrong = Ok(());
        source.each(&mut |event| {
            self.pause(before.replace(event.ts), event.ts);
            wrong = if context.out.is_json() {
                context.out.object(&redacted(json!(event)))
            } else {
                let text = line(&event, context.out.has_colour());
                context.out.write(&format!("{text}\n"))
            };
            wrong.is_ok()
        })?;
        wrong
    }

    fn wait_between(&self, before: Option<Time>, now: Time) -> Duration {
        let gap = before.map_or(Duration::ZERO, |before| now.since(before));
        gap.div_f64(self.speed.unwrap_or(SPEED)).min(LONGEST_PAUSE)
    }

    fn pause(&self, before: Option<Time>, now: Time) {
        std::thread::sleep(self.wait_between(before, now));
    }

    fn play(&self, source: &ReplaySource<'_>) -> Result {
        let mut screen = TerminalScreen::take().map_err(no_screen)?;
        let mut projection = TeamProjection::default();
        let mut worker = 0;
        let mut waits = self.step;
        let mut wrong = Ok(());
        let mut ended = false;
        source.each(&mut |event| {
            let until = Instant::now() + self.wait_between(projection.last(), event.ts);
            projection.apply(&event);
            match shown(
                &mut screen,
                &projection,
                &mut worker,
                &mut waits,
                until,
                &event.kind,
            ) {
                Ok(goes_on) => {
                    ended = !goes_on;
                    goes_on
                }
                Err(error) => {
                    wrong = Err(error);
                    false
                }
            }
        })?;
        wrong?;
        // The end stays on the screen until the user presses a key.
        while !ended {
            let mut stays = true;
            let forever = Instant::now() + LONGEST_PAUSE;
            ended = !shown(
                &mut screen,
                &projection,
                &mut worker,
                &mut stays,
                forever,
                "the end",
            )?;
        }
        Ok(())
    }
}

/// Shows one moment until its time is over or a key ends it; returns `false` when the user quits.
fn shown(
    screen: &mut TerminalScreen,
    projection: &TeamProjection,
    worker: &mut usize,
    waits: &mut bool,
    until: Instant,
    what: &str,
) -> Result<bool> {
    loop {
        let scene = TopFrame {
            worker: *worker,
            keys: format!("{KEYS}  {what}"),
            ..scene_of(projection)
        };
        screen.draw(&scene).map_err(no_screen)?;
        let left = until.saturating_duration_since(Instant::now());
        let patience = if *waits {
            LONGEST_PAUSE
        } else {
            left.max(Duration::from_millis(1))
        };
        match screen.key(patience).map_err(no_screen)? {
            Some(KeyPress::Quit) => return Ok(false),
            Some(KeyPress::Right) => return Ok(true),
            Some(KeyPress::Space) => *waits = !*waits,
            Some(KeyPress::Up) => *worker = worker.saturating_sub(1),
            Some(KeyPress::Down) => {
                *worker = (*worker + 1).min(scene.view.workers.len().saturating_sub(1));
            }
            None if !*waits && Instant::now() >= until => return Ok(true),
            Some(_) | None => {}
        }
    }
}

fn scene_of(projection: &TeamProjection) -> TopFrame {
    let view = projection.view();
    let now = view.at.unwrap_or(Time::from_millis(0));
    TopFrame::new(view, projection.timeline(), now)
}

/// Shows one moment: a frame, or everything as JSON.
fn show_at(context: &Context, source: &ReplaySource<'_>, to: u64) -> Result {
    let mut projection = TeamProjection::default();
    let damaged = source.each(&mut |event| {
        if event.seq > to {
            return false;
        }
        projection.apply(&event);
        true
    })?;
    if projection.seq() == 0 {
        return Err(AppError::not_found("the journal has no such event")
            .hint("`teamster journal` shows the events"));
    }
    context.out.answer(
        || {
            let tasks = projection.tasks().map(|task| Value::Object(task.public()));
            redacted(json!({
                "view": projection.view(),
                "timeline": projection.timeline(),
                "tasks": tasks.collect::<Vec<_>>(),
                "problems": damaged,
            }))
        },
        || once(&scene_of(&projection), SMALL.0, SMALL.1),
    )
}

/// Where the events come from.
enum ReplaySource<'a> {
    /// A team in the store.
    Team(&'a dyn ReadStore, TeamName),
    /// A file, with its blobs beside it.
    File(Dir, String),
}

impl<'a> ReplaySource<'a> {
    fn find(context: &'a Context, what: &str) -> Result<Self> {
        let team = what.parse::<TeamName>().ok();
        if let Some(team) = team {
            let team = context.must_be_own(team)?;
            let read = context.read()?;
            if read.team(&team).is_ok() {
                return Ok(Self::Team(read, team));
            }
            if let Some(kept) = kept_journal(context, &team)? {
                return Ok(kept);
            }
        }
        context
            .actor
            .must_be_person("showing a journal by its path")?;
        let path = context.absolute(Path::new(what));
        let missing = || {
            AppError::not_found(format!("there is no team and no journal {what:?}")).hint(
                "`teamster team list` shows the teams; removed ones kept theirs in .omc/reports/TEAM/events.jsonl",
            )
        };
        let path = path.canonicalize().map_err(|_| missing())?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(missing());
        };
        let name = name.to_string_lossy().into_owned();
        if path.is_dir() {
            let dir = Dir::open_root(&path)?.ok_or_else(missing)?;
            return Ok(Self::File(dir, layout::JOURNAL.to_owned()));
        }
        let dir = Dir::open_root(folder)?.ok_or_else(missing)?;
        Ok(Self::File(dir, name))
    }

    fn each(&self, tell: &mut dyn FnMut(Event) -> bool) -> Result<Vec<Damaged>> {
        match self {
            Self::File(dir, name) => Ok(teamster_store::each_event(dir, name, tell)?),
            Self::Team(read, team) => {
                let mut damaged = Vec::new();
                let mut from = 1;
                loop {
                    let page = read.events(team, from, PAGE)?;
                    damaged.extend(page.damaged);
                    let Some(last) = page.events.last() else {
                        return Ok(damaged);
                    };
                    from = last.seq + 1;
                    for event in page.events {
                        if !tell(event) {
                            return Ok(damaged);
                        }
                    }
                }
            }
        }
    }
}

/// Returns the journal that a removed team left in this project.
fn kept_journal(context: &Context, team: &TeamName) -> Result<Option<ReplaySource<'static>>> {
    let Some(mut dir) = Dir::open_root(&context.layout.project)? else {
        return Ok(None);
    };
    for name in layout::report_folders(team) {
        match dir.child(name)? {
            Some(child) => dir = child,
            None => return Ok(None),
        }
    }
    let is_there = dir.stamp(layout::JOURNAL)?.is_some();
    Ok(is_there.then(|| ReplaySource::File(dir, layout::JOURNAL.to_owned())))
}

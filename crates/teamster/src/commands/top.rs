//! `teamster top`

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use teamster_store::{Change, FileStore, Kind, Read, SystemClock};
use teamster_studio::api::LogLine;
use teamster_studio::top::{Key, Scene, Screen, once};
use teamster_types::TeamName;
use teamster_view::model::LiveTeam;

use super::studio::log_of;
use crate::context::Context;
use crate::error::{CommandError, ErrorKind, Result};
use crate::shown::redacted;

/// The smallest screen that a frame is made for, and the one that is taken where there is none.
const SMALL: (u16, u16) = (80, 24);
/// How long a key is waited for before it is looked whether something changed.
const BEAT: Duration = Duration::from_millis(50);
/// Ages and logs change without an event.
const TICK: Duration = Duration::from_secs(1);
/// Lines of a log that are kept for the screen.
const LOG_LINES: usize = 200;
const KEYS: &str = "q quit  ↑↓ worker  ←→ team  PgUp PgDn tasks";

/// Watch a team on the terminal: workers, tasks, messages, timeline, log
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster top --once
  teamster top --team fix-auth --once --json")]
pub struct Top {
    /// Begin with this team [default: `TEAMSTER_TEAM`, else the first of this project]
    #[arg(long, value_name = "TEAM")]
    team: Option<String>,
    /// Print one frame and end
    #[arg(long)]
    once: bool,
}

impl Top {
    pub fn run(self, context: &Context) -> Result {
        let teams = self.teams(context)?;
        if self.once || !context.out.is_screen() {
            return show_once(context, &teams[0]);
        }
        Watching::begin(context, teams)?.go_on()
    }

    /// The teams that can be looked at, the one that is meant first.
    fn teams(&self, context: &Context) -> Result<Vec<TeamName>> {
        let named = self.team.is_some() || crate::env_vars::get(crate::env_vars::TEAM).is_some();
        let of_project = context.project_teams()?;
        let mut teams: Vec<TeamName> = of_project
            .iter()
            .filter_map(|entry| entry.name.parse().ok())
            .collect();
        if named {
            let team = context.team(self.team.as_deref())?;
            context.read()?.team(&team)?;
            teams.retain(|other| *other != team);
            teams.insert(0, team);
        }
        if teams.is_empty() {
            return Err(CommandError::not_found(format!(
                "no team works on {}",
                context.layout.project.display()
            ))
            .hint("`teamster team create NAME` makes one; `teamster studio` shows those of other projects"));
        }
        Ok(teams)
    }
}

fn show_once(context: &Context, team: &TeamName) -> Result {
    let read = context.read()?;
    let mut live = LiveTeam::open(read, team, &context.config.limits())?;
    while !live.is_read() {
        live.read_on(read)?;
    }
    let (width, height) = size(context);
    context.out.answer(
        || redacted(json!({ "teams": [live.view()] })),
        || {
            let scene = Scene {
                log: log_lines(context, &live, 0),
                keys: String::new(),
                ..scene(read, &live)
            };
            once(&scene, width, height)
        },
    )
}

/// The size of the terminal, or of a small one.
fn size(context: &Context) -> (u16, u16) {
    if context.out.is_screen()
        && let Ok((width, height)) = teamster_studio::top::size()
    {
        return (width.max(SMALL.0), height.max(SMALL.1));
    }
    SMALL
}

fn scene(read: &dyn Read, live: &LiveTeam) -> Scene {
    Scene {
        view: live.view().clone(),
        timeline: live.story().timeline(),
        now: read.now(),
        place: (1, 1),
        worker: 0,
        first_task: 0,
        log: Vec::new(),
        keys: KEYS.to_owned(),
    }
}

/// The end of what the selected worker's agent sent.
fn log_lines(context: &Context, live: &LiveTeam, worker: usize) -> Vec<LogLine> {
    let view = live.view();
    let Some(worker) = view.workers.get(worker) else {
        return Vec::new();
    };
    let log = view
        .name
        .parse()
        .ok()
        .and_then(|team| log_of(context, &team, &worker.name).ok());
    let mut lines = log.map(|log| log.lines).unwrap_or_default();
    lines.drain(..lines.len().saturating_sub(LOG_LINES));
    lines
}

/// The live screen.
struct Watching<'a> {
    context: &'a Context,
    store: Arc<FileStore>,
    teams: Vec<TeamName>,
    place: usize,
    live: LiveTeam,
    changes: Receiver<Vec<Change>>,
    worker: usize,
    first_task: usize,
    log: Vec<LogLine>,
}

impl<'a> Watching<'a> {
    fn begin(context: &'a Context, teams: Vec<TeamName>) -> Result<Self> {
        context.check_home()?;
        let settings = context.config.store_settings();
        let store = FileStore::open(&context.layout, Arc::new(SystemClock), settings)?;
        let store = Arc::new(store);
        let live = LiveTeam::open(&*store, &teams[0], &context.config.limits())?;
        let changes = follow(&store, &teams[0], live.last())?;
        Ok(Self {
            context,
            store,
            teams,
            place: 0,
            live,
            changes,
            worker: 0,
            first_task: 0,
            log: Vec::new(),
        })
    }

    fn go_on(mut self) -> Result {
        let mut screen = Screen::take().map_err(no_screen)?;
        let mut ticked: Option<Instant> = None;
        let mut draws = true;
        loop {
            if ticked.is_none_or(|at| at.elapsed() >= TICK) {
                self.live.apply(&*self.store, &[])?;
                self.log = log_lines(self.context, &self.live, self.worker);
                ticked = Some(Instant::now());
                draws = true;
            }
            while !self.live.is_read() && ticked.is_some_and(|at| at.elapsed() < TICK) {
                self.live.read_on(&*self.store)?;
                draws = true;
            }
            let changes: Vec<Change> = self.changes.try_iter().flatten().collect();
            if !changes.is_empty() {
                self.live.apply(&*self.store, &changes)?;
                draws = true;
            }
            if draws {
                screen.draw(&self.scene()).map_err(no_screen)?;
                draws = false;
            }
            if let Some(key) = screen.key(BEAT).map_err(no_screen)? {
                if key == Key::Quit {
                    return Ok(());
                }
                self.typed(key)?;
                ticked = None;
            }
        }
    }

    fn scene(&self) -> Scene {
        Scene {
            place: (self.place + 1, self.teams.len()),
            worker: self.worker,
            first_task: self.first_task,
            log: self.log.clone(),
            ..scene(&*self.store, &self.live)
        }
    }

    fn typed(&mut self, key: Key) -> Result {
        let count = self.teams.len();
        match key {
            Key::Up => self.worker = self.worker.saturating_sub(1),
            Key::Down => {
                let last = self.live.view().workers.len().saturating_sub(1);
                self.worker = (self.worker + 1).min(last);
            }
            Key::PageUp => self.first_task = self.first_task.saturating_sub(5),
            Key::PageDown => {
                let last = self.live.view().tasks.len().saturating_sub(1);
                self.first_task = (self.first_task + 5).min(last);
            }
            Key::Left => self.look_at((self.place + count - 1) % count)?,
            Key::Right => self.look_at((self.place + 1) % count)?,
            Key::Quit | Key::Space | Key::Other => {}
        }
        Ok(())
    }

    fn look_at(&mut self, place: usize) -> Result {
        if place == self.place {
            return Ok(());
        }
        let team = &self.teams[place];
        self.live = LiveTeam::open(&*self.store, team, &self.context.config.limits())?;
        self.changes = follow(&self.store, team, self.live.last())?;
        self.place = place;
        self.worker = 0;
        self.first_task = 0;
        Ok(())
    }
}

/// Changes of a team, heard by a thread of their own: whoever waits for keys cannot wait for files. The thread ends when
/// nobody takes them any more.
fn follow(store: &Arc<FileStore>, team: &TeamName, after: u64) -> Result<Receiver<Vec<Change>>> {
    let mut watch = store.watch(team, after)?;
    let (sender, changes) = sync_channel(64);
    std::thread::spawn(move || {
        loop {
            match watch.wait(TICK) {
                // An empty list asks whether anybody still listens.
                Ok(found) => {
                    if sender.send(found).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind == Kind::NotFound => return,
                Err(_) => std::thread::sleep(TICK),
            }
        }
    });
    Ok(changes)
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "it is given to `map_err`, which passes the error on"
)]
pub fn no_screen(error: std::io::Error) -> CommandError {
    CommandError::new(
        ErrorKind::Failed,
        format!("the screen cannot be drawn: {error}"),
    )
    .hint("`--once` prints one frame")
}

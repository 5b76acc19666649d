//! Implements `teamster top`.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use teamster_app::START_TEAM;
use teamster_app::env_vars;
use teamster_app::permissions::{self, PermissionAnswer};
use teamster_app::questions::{self, Reply};
use teamster_store::{Change, ReadStore, Store, StoreErrorKind};
use teamster_studio::api::LogLine;
use teamster_studio::top::{KeyPress, LineKey, TerminalScreen, TopFrame, once};
use teamster_types::TeamName;
use teamster_view::model::{LiveTeam, Sessions, TeamView, Timeline};

use super::studio::log_of;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};
use crate::shown::{display_line, redacted};

/// The minimum size of a frame, and its size when there is no terminal.
pub const SMALL: (u16, u16) = (80, 24);
/// The limits for columns and lines that `COLUMNS` and `LINES` may set.
const LEAST: u16 = 20;
const MOST: u16 = 1_000;
/// How long to wait for a key before checking for changes.
const BEAT: Duration = Duration::from_millis(50);
/// The interval for redrawing ages and logs, which change without an event.
const TICK: Duration = Duration::from_secs(1);
/// How many lines of a log are kept for the screen.
const LOG_LINES: usize = 200;
const KEYS: &str = "q quit  ↑↓ worker  ←→ team  PgUp PgDn tasks";
const ANSWER_KEYS: &str = "1-9 answer  q quit  ↑↓ worker  ←→ team  PgUp PgDn tasks";
/// The longest answer that can be typed here, in characters.
const LONGEST_ANSWER: usize = 2_000;

/// Watch a team in the terminal: workers, tasks, messages, timeline, log
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster top --once
  teamster top --team fix-auth --once --json")]
pub struct TopArgs {
    /// Begin with this team [default: `TEAMSTER_TEAM`, else the first of this project]
    #[arg(long, value_name = "TEAM")]
    team: Option<String>,
    /// Print one frame and exit
    #[arg(long)]
    once: bool,
}

impl TopArgs {
    pub fn run(self, context: &Context) -> Result {
        let targets = self.targets(context)?;
        if self.once || !context.out.is_screen() {
            return show_once(context, &targets[0]);
        }
        TopScreen::begin(context, targets)?.run()
    }

    /// Returns what can be watched, the selected team first.
    fn targets(&self, context: &Context) -> Result<Vec<WatchTarget>> {
        let of_project = context.project_teams()?;
        let mut teams: Vec<TeamName> = of_project
            .iter()
            .filter_map(|entry| entry.name.parse().ok())
            .collect();
        if context.names_team(self.team.as_deref()) {
            let team = context.team(self.team.as_deref())?;
            context.read()?.team(&team)?;
            teams.retain(|other| *other != team);
            teams.insert(0, team);
        }
        let sessions = context.sessions_besides(&of_project)?;
        let targets: Vec<WatchTarget> = teams
            .into_iter()
            .map(WatchTarget::Team)
            .chain(
                sessions
                    .into_iter()
                    .map(|view| WatchTarget::Session(view.id)),
            )
            .collect();
        if targets.is_empty() {
            return Err(AppError::not_found(format!(
                "no team works on {}",
                context.layout.project.display()
            ))
            .hint(format!(
                "{START_TEAM}; `teamster studio` shows those of other projects"
            )));
        }
        Ok(targets)
    }
}

/// Something that can be watched.
enum WatchTarget {
    /// A team of the store.
    Team(TeamName),
    /// A session that is known only by its state file, by its id in the view model.
    Session(String),
}

/// What is being watched.
enum WatchedTarget {
    Team {
        live: Box<LiveTeam>,
        changes: Option<Receiver<Vec<Change>>>,
    },
    Session {
        sessions: Sessions,
        view: Box<TeamView>,
    },
}

impl WatchedTarget {
    /// Reads the target for the first time, with the whole journal.
    fn open(context: &Context, read: &dyn ReadStore, target: &WatchTarget) -> Result<Self> {
        match target {
            WatchTarget::Team(team) => Ok(Self::Team {
                live: Box::new(
                    LiveTeam::open(read, team, &context.config.limits())?
                        .beside_sessions(&context.layout, read),
                ),
                changes: None,
            }),
            WatchTarget::Session(id) => {
                let sessions = Sessions::of(&context.layout, &context.layout.project);
                let view = sessions.view(id, read.now());
                let gone = || AppError::not_found("the session no longer exists");
                Ok(Self::Session {
                    view: Box::new(view.ok_or_else(gone)?),
                    sessions,
                })
            }
        }
    }

    fn view(&self) -> &TeamView {
        match self {
            Self::Team { live, .. } => live.view(),
            Self::Session { view, .. } => view,
        }
    }

    fn timeline(&self) -> Timeline {
        match self {
            Self::Team { live, .. } => live.projection().timeline(),
            Self::Session { .. } => Timeline::default(),
        }
    }

    /// Reads the next part of a long journal; returns whether there was any.
    fn read_on(&mut self, read: &dyn ReadStore) -> Result<bool> {
        match self {
            Self::Team { live, .. } if !live.is_read() => {
                live.read_on(read)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Applies changes; returns whether there were any. `aged`: time has passed, so ages have changed in any case.
    fn apply_changes(&mut self, read: &dyn ReadStore, aged: bool) -> Result<bool> {
        match self {
            Self::Team { live, changes } => {
                let found: Vec<Change> = changes
                    .iter()
                    .flat_map(Receiver::try_iter)
                    .flatten()
                    .collect();
                if found.is_empty() && !aged {
                    return Ok(false);
                }
                live.apply(read, &found)?;
                Ok(true)
            }
            Self::Session { sessions, view } => {
                // A session that is gone stays on the screen in its last state.
                let now = sessions.view(&view.id, read.now());
                let is_new = now.as_ref().is_some_and(|now| *now != **view);
                if let Some(now) = now {
                    **view = now;
                }
                Ok(is_new)
            }
        }
    }
}

fn show_once(context: &Context, target: &WatchTarget) -> Result {
    let read = context.read()?;
    let mut seen = WatchedTarget::open(context, read, target)?;
    while seen.read_on(read)? {}
    let (width, height) = size(context);
    context.out.answer(
        || redacted(json!({ "teams": [seen.view()] })),
        || {
            let scene = TopFrame {
                log: log_lines(context, &seen, 0),
                ..scene(read, &seen)
            };
            once(&scene, width, height)
        },
    )
}

/// Returns the size from `COLUMNS` and `LINES`, else that of the terminal, else the minimum.
fn size(context: &Context) -> (u16, u16) {
    let terminal = if context.out.is_screen() {
        teamster_studio::top::size().ok()
    } else {
        None
    };
    let (width, height) = terminal.map_or(SMALL, |(width, height)| {
        (width.max(SMALL.0), height.max(SMALL.1))
    });
    (
        asked_size(env_vars::COLUMNS).unwrap_or(width),
        asked_size(env_vars::LINES).unwrap_or(height),
    )
}

/// Returns the number of columns or lines in a variable, clamped to the limits.
fn asked_size(variable: &str) -> Option<u16> {
    let asked: u16 = env_vars::text(variable)?.trim().parse().ok()?;
    (asked > 0).then(|| asked.clamp(LEAST, MOST))
}

fn scene(read: &dyn ReadStore, seen: &WatchedTarget) -> TopFrame {
    TopFrame::new(seen.view().clone(), seen.timeline(), read.now())
}

/// Returns the end of the selected worker's log.
fn log_lines(context: &Context, seen: &WatchedTarget, worker: usize) -> Vec<LogLine> {
    let view = seen.view();
    let (WatchedTarget::Team { .. }, Some(worker)) = (seen, view.workers.get(worker)) else {
        return Vec::new();
    };
    let log = view
        .name
        .parse()
        .ok()
        .and_then(|team| log_of(context, &team, &worker.name).ok());
    let mut lines = log.map(|log| log.lines).unwrap_or_default();
    lines.retain(|line| !line.text.is_empty());
    lines.drain(..lines.len().saturating_sub(LOG_LINES));
    lines
}

/// The interactive screen.
struct TopScreen<'a> {
    context: &'a Context,
    store: Arc<dyn Store>,
    targets: Vec<WatchTarget>,
    place: usize,
    seen: WatchedTarget,
    worker: usize,
    first_task: usize,
    log: Vec<LogLine>,
    /// The answer that is being typed.
    answering: Option<AnswerDraft>,
    /// The result of the last answer, until the next key.
    said: Option<String>,
}

/// What the user answers.
#[derive(Clone, Debug)]
enum AnswerTo {
    /// A question of an agent.
    Question { id: String, is_proposal: bool },
    /// A permission request of an agent.
    Request {
        worker: String,
        request: String,
        /// The position of the request's event.
        seq: u64,
    },
}

/// An answer that is being typed.
struct AnswerDraft {
    to: AnswerTo,
    typed: String,
}

impl AnswerDraft {
    /// Returns the text before the input line.
    fn about(&self) -> String {
        match &self.to {
            AnswerTo::Question { id, is_proposal } if *is_proposal => {
                format!("{id}: accept, or why not")
            }
            AnswerTo::Question { id, .. } => format!("answer {id}"),
            AnswerTo::Request { worker, .. } => format!("{worker}: allow, or deny and why"),
        }
    }
}

impl<'a> TopScreen<'a> {
    fn begin(context: &'a Context, targets: Vec<WatchTarget>) -> Result<Self> {
        let store = context.shared_store()?;
        let seen = open_target(context, &store, &targets[0])?;
        Ok(Self {
            context,
            store,
            targets,
            place: 0,
            seen,
            worker: 0,
            first_task: 0,
            log: Vec::new(),
            answering: None,
            said: None,
        })
    }

    fn run(mut self) -> Result {
        let mut screen = TerminalScreen::take().map_err(no_screen)?;
        let mut ticked: Option<Instant> = None;
        let mut draws = true;
        loop {
            let aged = ticked.is_none_or(|at| at.elapsed() >= TICK);
            if aged {
                self.log = log_lines(self.context, &self.seen, self.worker);
                ticked = Some(Instant::now());
                draws = true;
            }
            draws |= self.seen.apply_changes(&*self.store, aged)?;
            // A long journal is read in parts between frames, so that keys still work.
            let until = Instant::now() + BEAT;
            while Instant::now() < until && self.seen.read_on(&*self.store)? {
                draws = true;
            }
            if draws {
                screen.draw(&self.scene()).map_err(no_screen)?;
                draws = false;
            }
            if self.answering.is_some() {
                match screen.line_key(BEAT).map_err(no_screen)? {
                    Some(LineKey::Quit) => return Ok(()),
                    Some(key) => {
                        self.handle_line_key(key);
                        draws = true;
                    }
                    None => {}
                }
            } else if let Some(key) = screen.key(BEAT).map_err(no_screen)? {
                if key == KeyPress::Quit {
                    return Ok(());
                }
                self.said = None;
                self.handle_key(key)?;
                ticked = None;
            }
        }
    }

    fn scene(&self) -> TopFrame {
        TopFrame {
            place: (self.place + 1, self.targets.len()),
            worker: self.worker,
            first_task: self.first_task,
            log: self.log.clone(),
            keys: match &self.said {
                Some(said) => said.clone(),
                None if self.asked().is_empty() => KEYS.to_owned(),
                None => ANSWER_KEYS.to_owned(),
            },
            answer: (self.answering.as_ref())
                .map(|answering| (answering.about(), answering.typed.clone())),
            ..scene(&*self.store, &self.seen)
        }
    }

    /// Returns what can be answered, in display order.
    fn asked(&self) -> Vec<AnswerTo> {
        let view = self.seen.view();
        let questions = view
            .questions_for_person()
            .map(|question| AnswerTo::Question {
                id: question.id.clone(),
                is_proposal: question.proposal.is_some(),
            });
        let requests = view.requests().map(|(worker, request)| AnswerTo::Request {
            worker: worker.name.clone(),
            request: request.request.clone(),
            seq: request.seq,
        });
        questions.chain(requests).collect()
    }

    /// Handles a key while an answer is being typed.
    fn handle_line_key(&mut self, key: LineKey) {
        let Some(answering) = &mut self.answering else {
            return;
        };
        match key {
            LineKey::Letter(letter) => {
                if answering.typed.chars().count() < LONGEST_ANSWER {
                    answering.typed.push(letter);
                }
            }
            LineKey::Erase => {
                answering.typed.pop();
            }
            LineKey::Cancel => self.answering = None,
            LineKey::Send => {
                if let Some(answering) = self.answering.take() {
                    self.said = Some(match self.send(&answering) {
                        Ok(said) => said,
                        Err(error) => display_line(&error.to_string()),
                    });
                }
            }
            LineKey::Quit | LineKey::Other => {}
        }
    }

    fn send(&self, answering: &AnswerDraft) -> Result<String> {
        let WatchedTarget::Team { .. } = &self.seen else {
            return Err(AppError::usage("a session cannot be answered"));
        };
        let team: TeamName = self.seen.view().name.parse()?;
        let typed = answering.typed.trim();
        match &answering.to {
            AnswerTo::Question { id, is_proposal } => {
                let (first, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
                let reply = if *is_proposal && first.eq_ignore_ascii_case("accept") {
                    Reply::Accept(rest.trim().to_owned())
                } else {
                    Reply::Words(typed.to_owned())
                };
                let answered = questions::answer(self.context, &team, id.parse()?, reply)?;
                let asker = display_line(answered.question.asked_by.as_str());
                Ok(match answered.task {
                    Some(task) => format!("created task {task}, as {asker} proposed"),
                    None => format!("{asker} has the answer"),
                })
            }
            AnswerTo::Request {
                worker,
                request,
                seq,
            } => {
                let decision = PermissionAnswer::read(typed)
                    .ok_or_else(|| AppError::usage("type allow, deny, or deny and why"))?;
                let worker = worker.parse()?;
                permissions::answer(self.context, &team, &worker, request, Some(*seq), &decision)?;
                let word = if decision.allow { "allowed" } else { "denied" };
                Ok(format!("{word} for {worker}"))
            }
        }
    }

    fn handle_key(&mut self, key: KeyPress) -> Result {
        let count = self.targets.len();
        match key {
            KeyPress::Up => self.worker = self.worker.saturating_sub(1),
            KeyPress::Down => {
                let last = self.seen.view().workers.len().saturating_sub(1);
                self.worker = (self.worker + 1).min(last);
            }
            KeyPress::PageUp => self.first_task = self.first_task.saturating_sub(5),
            KeyPress::PageDown => {
                let last = self.seen.view().tasks.len().saturating_sub(1);
                self.first_task = (self.first_task + 5).min(last);
            }
            KeyPress::Left => self.switch_to((self.place + count - 1) % count)?,
            KeyPress::Right => self.switch_to((self.place + 1) % count)?,
            KeyPress::Answer(place) => {
                let to = self.asked().into_iter().nth(place.saturating_sub(1));
                self.answering = to.map(|to| AnswerDraft {
                    to,
                    typed: String::new(),
                });
            }
            KeyPress::Quit | KeyPress::Space | KeyPress::Other => {}
        }
        Ok(())
    }

    fn switch_to(&mut self, place: usize) -> Result {
        if place == self.place {
            return Ok(());
        }
        self.seen = open_target(self.context, &self.store, &self.targets[place])?;
        self.place = place;
        self.worker = 0;
        self.first_task = 0;
        Ok(())
    }
}

/// Opens a target and subscribes to its changes.
fn open_target(
    context: &Context,
    store: &Arc<dyn Store>,
    target: &WatchTarget,
) -> Result<WatchedTarget> {
    let mut seen = WatchedTarget::open(context, &**store, target)?;
    if let (WatchedTarget::Team { live, changes }, WatchTarget::Team(team)) = (&mut seen, target) {
        *changes = Some(follow(store, team, live.last())?);
    }
    Ok(seen)
}

/// Receives changes of a team on a separate thread, because the caller waits for keys and cannot also wait for files.
/// The thread ends when the receiver is dropped.
fn follow(store: &Arc<dyn Store>, team: &TeamName, after: u64) -> Result<Receiver<Vec<Change>>> {
    let mut watch = store.watch(team, after)?;
    let (sender, changes) = sync_channel(64);
    std::thread::spawn(move || {
        loop {
            match watch.wait(TICK) {
                // Sending an empty list finds out whether the receiver still exists.
                Ok(found) => {
                    if sender.send(found).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind == StoreErrorKind::NotFound => return,
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
pub fn no_screen(error: std::io::Error) -> AppError {
    AppError::new(
        ErrorKind::Failed,
        format!("the screen cannot be drawn: {error}"),
    )
    .hint("`--once` prints one frame")
}

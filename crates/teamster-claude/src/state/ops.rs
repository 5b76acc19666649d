//! What may be done to a state, and what then happens. Pure: no file, no clock.

use serde::{Deserialize, Serialize};
use teamster_types::Time;
use teamster_types::progress::Progress;

use super::record::{AgentState, Letter, Model, Pattern, Phase, Status, Teammate};
use super::{LONGEST_TASK, LONGEST_TEXT, MOST_MESSAGES, MOST_ROWS};
use teamster_types::text::{shown, shown_line};

/// How the task of a teammate begins that waits for a permission.
const WAITING: &str = "waiting for permission: ";

/// Operations of one session at one moment. As a line of JSON it can wait for its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at: Time,
    /// By whom; empty for a script that means whatever is shown.
    pub session: String,
    /// What, in order.
    pub ops: Vec<Op>,
}

/// With what a session begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// The team.
    pub team: String,
    /// What it works on.
    pub feature: String,
    /// Where that stands.
    pub phase: Option<Phase>,
    /// How the team is organised.
    pub pattern: Option<Pattern>,
    /// The lead's model.
    pub cto: Option<Model>,
}

/// A teammate that is to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: String,
    /// Which model it uses.
    pub model: Model,
    /// What it works on.
    pub task: Option<String>,
    /// The task's id.
    pub task_id: Option<String>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Op {
    /// Begins a session, or enables it again.
    Init(Begin),
    /// The same only if the session is not active.
    Ensure(Begin),
    /// A teammate is spawned: a row with `spawning`, new or not.
    Add(Row),
    /// A teammate begins a turn: a new row is `spawning`, a known one `working`.
    Start(Row),
    /// A teammate is there: a new row is `spawning`, a known one learns its task.
    Join(Row),
    /// A teammate has another status.
    Status {
        /// Which one.
        name: String,
        /// Now.
        status: Status,
        /// What it works on.
        task: Option<String>,
        /// The task's id.
        task_id: Option<String>,
    },
    /// A teammate does something: `working`, unless its turn is over.
    Act {
        /// Which one.
        name: String,
        /// What it works on.
        task: Option<String>,
        /// The task's id.
        task_id: Option<String>,
    },
    /// A teammate waits for a permission. The notice begins with its name.
    Wait {
        /// As the client shows it.
        notice: String,
    },
    /// A row goes.
    Remove {
        /// Which one.
        name: String,
    },
    /// How far the tasks are.
    Progress(Progress),
    /// Somebody said something.
    Message {
        /// Who; `unknown` when empty.
        from: String,
        /// To whom; `all` when empty.
        to: String,
        /// What.
        content: String,
        /// When, if not now. Such a message comes from the client's own inbox and may be known already.
        timestamp: Option<Time>,
    },
    /// What the status file says now about the feature.
    Phase {
        /// The feature; empty when the file names none.
        feature: String,
        /// Its phase.
        phase: Phase,
    },
    /// The session is alive.
    Touch,
    /// The session is over.
    CleanUp,
    /// Another session that is shown and was not heard of for too long, or is proven dead, is over.
    EndDead {
        /// The session that is proven dead.
        dead: Option<String>,
    },
}

/// What an operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The state is another one now.
    Changed,
    /// There was nothing to change.
    Nothing,
    /// There is no state of this session.
    NoState,
    /// Nobody has this name.
    Unknown(String),
    /// Everybody of a full roster is still active.
    Full(String),
    /// A step that no teammate can make.
    Refused {
        /// Who.
        name: String,
        /// From.
        from: Status,
        /// To.
        to: Status,
    },
    /// The phase has changed.
    Phase {
        /// From.
        from: Phase,
        /// To.
        to: Phase,
    },
}

impl Effect {
    /// Whether the state must be written.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Changed | Self::Phase { .. })
    }
}

impl Change {
    /// One by `session` at `at`.
    pub fn new(session: impl Into<String>, at: Time, ops: Vec<Op>) -> Self {
        Self {
            at,
            session: session.into(),
            ops,
        }
    }

    /// Whether it makes a state where there is none.
    pub(super) fn creates(&self) -> bool {
        self.ops
            .iter()
            .any(|op| matches!(op, Op::Init(_) | Op::Ensure(_)))
    }

    /// Every text redacted, cleaned and cut.
    pub(super) fn cleaned(mut self) -> Self {
        self.session = shown_line(&self.session, LONGEST_TEXT);
        self.ops.iter_mut().for_each(Op::clean);
        self
    }
}

impl Op {
    fn clean(&mut self) {
        let short = |text: &mut String| *text = shown_line(text, LONGEST_TEXT);
        let id = |id: &mut Option<String>| {
            *id = id.take().map(|id| shown_line(&id, LONGEST_TEXT));
        };
        let job = |task: &mut Option<String>| {
            *task = task
                .take()
                .map(|task| shown_line(&task, LONGEST_TASK))
                .filter(|task| !task.is_empty());
        };
        match self {
            Self::Init(begin) | Self::Ensure(begin) => {
                short(&mut begin.team);
                short(&mut begin.feature);
            }
            Self::Add(row) | Self::Start(row) | Self::Join(row) => {
                short(&mut row.name);
                short(&mut row.role);
                job(&mut row.task);
                id(&mut row.task_id);
            }
            Self::Status {
                name,
                task,
                task_id,
                ..
            }
            | Self::Act {
                name,
                task,
                task_id,
            } => {
                short(name);
                job(task);
                id(task_id);
            }
            Self::Wait { notice: name }
            | Self::Remove { name }
            | Self::Phase { feature: name, .. } => {
                short(name);
            }
            Self::Message {
                from, to, content, ..
            } => {
                short(from);
                short(to);
                *content = shown(content, LONGEST_TEXT);
            }
            Self::EndDead { dead } => id(dead),
            Self::Progress(_) | Self::Touch | Self::CleanUp => {}
        }
    }

    /// Does it to the state of the session that asks. `now` is the moment of the change.
    pub(super) fn apply(&self, state: &mut AgentState, now: &str) -> Effect {
        match self {
            Self::Init(begin) => {
                state.enabled = true;
                begin.set(state);
                Effect::Changed
            }
            Self::Ensure(begin) if !state.enabled => {
                state.enabled = true;
                begin.set(state);
                Effect::Changed
            }
            Self::Ensure(begin) => begin.complete(state),
            Self::Add(row) => {
                if let Some(known) = state
                    .teammates
                    .iter_mut()
                    .find(|known| known.name == row.name)
                {
                    known.current_task = None;
                    known.task_id = None;
                }
                put(state, row, Status::Spawning, now)
            }
            Self::Start(row) => put(state, row, Status::Working, now),
            Self::Join(row) => match state.teammate(&row.name) {
                Some(known) => put(state, row, known.status, now),
                None => put(state, row, Status::Spawning, now),
            },
            Self::Status {
                name,
                status,
                task,
                task_id,
            } => set_status(state, name, *status, task.as_ref(), task_id.as_ref(), now),
            Self::Act {
                name,
                task,
                task_id,
            } => match state.teammate(name) {
                Some(row) if !row.status.is_active() => Effect::Nothing,
                _ => {
                    stop_waiting(state, name);
                    set_status(
                        state,
                        name,
                        Status::Working,
                        task.as_ref(),
                        task_id.as_ref(),
                        now,
                    )
                }
            },
            Self::Wait { notice } => wait(state, notice, now),
            Self::Remove { name } => {
                let before = state.teammates.len();
                state.teammates.retain(|row| row.name != *name);
                if state.teammates.len() == before {
                    Effect::Unknown(name.clone())
                } else {
                    Effect::Changed
                }
            }
            Self::Progress(progress) if state.progress == *progress => Effect::Nothing,
            Self::Progress(progress) => {
                state.progress = *progress;
                Effect::Changed
            }
            Self::Message {
                from,
                to,
                content,
                timestamp,
            } => say(state, from, to, content, *timestamp, now),
            Self::Phase { feature, phase } => advance(state, feature, *phase, now),
            Self::Touch if state.enabled => Effect::Changed,
            Self::CleanUp if state.enabled || !state.teammates.is_empty() => {
                state.enabled = false;
                state.teammates.clear();
                Effect::Changed
            }
            // The transaction ends other sessions, which are in other files.
            Self::Touch | Self::CleanUp | Self::EndDead { .. } => Effect::Nothing,
        }
    }
}

impl Begin {
    /// What is known replaces what was.
    fn set(&self, state: &mut AgentState) {
        if !self.team.is_empty() {
            state.team_name.clone_from(&self.team);
        }
        if !self.feature.is_empty() {
            state.feature.clone_from(&self.feature);
        }
        state.pdca_phase = self.phase.unwrap_or(state.pdca_phase);
        state.orchestration_pattern = self.pattern.unwrap_or(state.orchestration_pattern);
        state.cto_agent = self.cto.unwrap_or(state.cto_agent);
    }

    /// An active session keeps what it has and learns what it did not know.
    fn complete(&self, state: &mut AgentState) -> Effect {
        if state.team_name.is_empty() && !self.team.is_empty() {
            state.team_name.clone_from(&self.team);
            return Effect::Changed;
        }
        Effect::Nothing
    }
}

/// Shows a teammate: a known row gets the status `known`, a new one is `spawning`.
fn put(state: &mut AgentState, new: &Row, known: Status, now: &str) -> Effect {
    if let Some(row) = state.teammates.iter_mut().find(|row| row.name == new.name) {
        row.role.clone_from(&new.role);
        row.model = new.model;
        row.status = known;
        if new.task.is_some() {
            row.current_task.clone_from(&new.task);
        }
        if new.task_id.is_some() {
            row.task_id.clone_from(&new.task_id);
        }
        now.clone_into(&mut row.last_activity_at);
        return Effect::Changed;
    }
    if state.teammates.len() >= MOST_ROWS {
        let ended = state
            .teammates
            .iter()
            .position(|row| !row.status.is_active());
        match ended {
            Some(oldest) => drop(state.teammates.remove(oldest)),
            None => return Effect::Full(new.name.clone()),
        }
    }
    state.teammates.push(Teammate {
        name: new.name.clone(),
        role: new.role.clone(),
        model: new.model,
        status: Status::Spawning,
        current_task: new.task.clone(),
        task_id: new.task_id.clone(),
        started_at: now.to_owned(),
        last_activity_at: now.to_owned(),
    });
    Effect::Changed
}

/// Gives a teammate another status, if it can take that step.
fn set_status(
    state: &mut AgentState,
    name: &str,
    status: Status,
    task: Option<&String>,
    task_id: Option<&String>,
    now: &str,
) -> Effect {
    let Some(row) = state.teammates.iter_mut().find(|row| row.name == name) else {
        return Effect::Unknown(name.to_owned());
    };
    if !row.status.may_become(status) {
        return Effect::Refused {
            name: name.to_owned(),
            from: row.status,
            to: status,
        };
    }
    row.status = status;
    if task.is_some() || task_id.is_some() {
        row.current_task = task.cloned();
        row.task_id = task_id.cloned();
    } else if matches!(status, Status::Idle | Status::Completed) {
        row.current_task = None;
        row.task_id = None;
    }
    now.clone_into(&mut row.last_activity_at);
    Effect::Changed
}

/// The five words have none for waiting, so the task says it; the next thing the teammate does takes it back.
fn wait(state: &mut AgentState, notice: &str, now: &str) -> Effect {
    let waits = |row: &&Teammate| {
        let rest = notice.strip_prefix(row.name.as_str());
        row.status.is_active() && rest.is_some_and(|rest| rest.starts_with(' '))
    };
    let Some(row) = state.teammates.iter().find(waits) else {
        return Effect::Nothing;
    };
    let (name, task_id) = (row.name.clone(), row.task_id.clone());
    let what = notice[name.len()..].trim_start();
    let what = what.strip_prefix("needs permission for ").unwrap_or(what);
    let task = format!("{WAITING}{what}");
    set_status(
        state,
        &name,
        Status::Working,
        Some(&task),
        task_id.as_ref(),
        now,
    )
}

/// What the teammate waited for has come, or it would do nothing.
fn stop_waiting(state: &mut AgentState, name: &str) {
    let row = state.teammates.iter_mut().find(|row| row.name == name);
    if let Some(row) = row
        && (row.current_task.as_ref()).is_some_and(|task| task.starts_with(WAITING))
    {
        row.current_task = None;
    }
}

/// Adds a message, unless it came from an inbox and is known.
fn say(
    state: &mut AgentState,
    from: &str,
    to: &str,
    content: &str,
    timestamp: Option<Time>,
    now: &str,
) -> Effect {
    /// The client's inbox has a message a moment before or after the hook of whoever sent it.
    const SAME: std::time::Duration = std::time::Duration::from_secs(60);
    let or = |name: &str, default: &str| if name.is_empty() { default } else { name }.to_owned();
    let letter = Letter {
        from: or(from, "unknown"),
        to: or(to, "all"),
        content: content.to_owned(),
        timestamp: timestamp.map_or_else(|| now.to_owned(), |time| time.to_string()),
    };
    if let Some(time) = timestamp {
        let is_known = state.recent_messages.iter().any(|known| {
            let same = (&known.from, &known.to, &known.content)
                == (&letter.from, &letter.to, &letter.content);
            let near = known
                .timestamp
                .parse::<Time>()
                .is_ok_and(|known| time.since(known) <= SAME && known.since(time) <= SAME);
            same && near
        });
        if is_known {
            return Effect::Nothing;
        }
    }
    // What an inbox tells may have been said before what is known already.
    let later = |known: &Letter| timestamp.is_some() && known.timestamp > letter.timestamp;
    let place = state
        .recent_messages
        .iter()
        .rposition(|known| !later(known));
    let place = place.map_or(0, |place| place + 1);
    state.recent_messages.insert(place, letter);
    let extra = state.recent_messages.len().saturating_sub(MOST_MESSAGES);
    state.recent_messages.drain(..extra);
    Effect::Changed
}

/// Follows the status file, and says so.
fn advance(state: &mut AgentState, feature: &str, phase: Phase, now: &str) -> Effect {
    if !state.enabled || state.pdca_phase == phase {
        return Effect::Nothing;
    }
    let from = state.pdca_phase;
    state.pdca_phase = phase;
    if !feature.is_empty() {
        feature.clone_into(&mut state.feature);
    }
    let (old, new) = (from.as_str(), phase.as_str());
    let notice = format!("Phase {old} → {new} (auto-advanced)");
    say(state, "system", "all", &notice, None, now);
    Effect::Phase { from, to: phase }
}

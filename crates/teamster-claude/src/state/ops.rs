//! What may be done to a state, and what then happens. Pure: no file, no clock.

use serde::{Deserialize, Serialize};
use teamster_types::Time;
use teamster_types::progress::Progress;

use super::record::{AgentState, Model, Pattern, Phase, Status};
use super::roster::{advance, put, say, set_status, stop_waiting, wait};
use crate::words::{LONGEST_TASK, LONGEST_TEXT, line, text};

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
        self.session = line(&self.session, LONGEST_TEXT);
        self.ops.iter_mut().for_each(Op::clean);
        self
    }
}

impl Op {
    fn clean(&mut self) {
        let short = |text: &mut String| *text = line(text, LONGEST_TEXT);
        let id = |id: &mut Option<String>| {
            *id = id.take().map(|id| line(&id, LONGEST_TEXT));
        };
        let job = |task: &mut Option<String>| {
            *task = task
                .take()
                .map(|task| line(&task, LONGEST_TASK))
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
                *content = text(content, LONGEST_TEXT);
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
            // The end of another session is the desk's business.
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

//! The operations on a state and their effects. Pure: no file, no clock.

use serde::{Deserialize, Serialize};
use teamster_types::Time;
use teamster_types::progress::Progress;

use super::memory::{AnnouncedAgent, SAME_MESSAGE, SessionMemory, message_hash};
use super::record::{AgentState, Model, Pattern, Phase, Status, Teammate, TeammateMessage};
use super::{LONGEST_MESSAGE, LONGEST_TASK, LONGEST_TEXT, MOST_MESSAGES, MOST_ROWS};
use teamster_types::json::Object;
use teamster_types::process::ProcessId;
use teamster_types::text::{shown, shown_line};

/// The prefix of the task of a teammate that waits for a permission.
const WAITING: &str = "waiting for permission: ";

/// Operations of one session at one moment. It can be left as a line of JSON to be applied later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// When the change was made.
    pub at: Time,
    /// The session that made it.
    pub session: String,
    /// The operations, in order.
    pub ops: Vec<Op>,
}

/// The facts known when a session starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// The team.
    pub team: String,
    /// The feature that it works on.
    pub feature: String,
    /// The phase of the feature.
    pub phase: Option<Phase>,
    /// How the team is organised.
    pub pattern: Option<Pattern>,
    /// The lead's model, or another name of the lead.
    pub cto: Option<String>,
    /// Whether an existing state of the session is archived first, because it may be that of another session of the
    /// same name.
    #[serde(default)]
    pub anew: bool,
}

/// A teammate to be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeammateRow {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Its model.
    pub model: Model,
    /// The task that it works on.
    pub task: Option<String>,
    /// The task's id.
    pub task_id: Option<String>,
}

/// One operation on a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Op {
    /// Starts a session, or enables it again.
    Init(Begin),
    /// Starts a session only if it is not active.
    Ensure(Begin),
    /// Spawns a teammate: a row with status `spawning`, whether it is new or not.
    Add(TeammateRow),
    /// Starts a teammate's turn: a new row is `spawning`, a known one `working`.
    Start(TeammateRow),
    /// Adds a teammate: a new row is `spawning`, a known one gets its task.
    Join(TeammateRow),
    /// Announces an agent that a tool call requests; it has no row before it starts.
    Announce(AnnouncedAgent),
    /// Starts the turn of an agent without a name. If it was announced, its row is made from the announcement, as
    /// `working`.
    StartAgent {
        /// The prompt that led to it.
        prompt_id: Option<String>,
        /// Its row if it was not announced, named by its id.
        row: TeammateRow,
    },
    /// Handles the response to the tool call that requested an agent.
    Spawned {
        /// The id of the tool call.
        tool_use: String,
        /// The id of the agent, if it has no name of its own.
        id: Option<String>,
        /// The name that the call gave to the agent.
        name: Option<String>,
        /// The model that the client chose.
        model: Option<Model>,
        /// Its assignment.
        task: Option<String>,
    },
    /// Ends a turn. A failed turn stays failed, whatever is reported later about its end.
    Stop {
        /// The teammate whose turn it was.
        name: String,
        /// Whether it failed.
        failed: bool,
        /// The error, shown in place of its task.
        reason: Option<String>,
    },
    /// Records the process of a teammate or, without a name, of the session itself.
    Process {
        /// The teammate.
        name: Option<String>,
        /// The process.
        process: ProcessId,
    },
    /// Changes the status of a teammate.
    Status {
        /// The name of the teammate.
        name: String,
        /// Its new status.
        status: Status,
        /// The task that it works on.
        task: Option<String>,
        /// The task's id.
        task_id: Option<String>,
    },
    /// Shows that a teammate is active: `working`, unless its turn is over.
    Act {
        /// The name of the teammate.
        name: String,
        /// The task that it works on.
        task: Option<String>,
        /// The task's id.
        task_id: Option<String>,
        /// Whether this starts another turn if the last one is over.
        #[serde(default)]
        wakes: bool,
    },
    /// Shows that a teammate waits for a permission. The notice begins with its name.
    Wait {
        /// The notice as the client shows it.
        notice: String,
    },
    /// Removes a row.
    Remove {
        /// The name of the teammate.
        name: String,
    },
    /// Sets the progress of the tasks.
    Progress(Progress),
    /// Adds a message.
    Message {
        /// The sender; `unknown` when empty.
        from: String,
        /// The recipient; `all` when empty.
        to: String,
        /// The text of the message.
        content: String,
        /// When it was sent, if not now. Such a message comes from the client's own inbox and may be known already.
        timestamp: Option<Time>,
    },
    /// Adds a delivered message that may be known already, however long ago it was sent.
    Heard {
        /// The sender.
        from: String,
        /// The recipient.
        to: String,
        /// The text of the message.
        content: String,
        /// When it was delivered.
        at: Time,
    },
    /// Takes over the feature and phase from the status file.
    Phase {
        /// The feature; empty when the file names none.
        feature: String,
        /// Its phase.
        phase: Phase,
    },
    /// Updates the time of the state: the session is alive.
    Touch,
    /// Ends the session.
    CleanUp,
    /// Ends other sessions that are proven dead.
    EndDead {
        /// The ids of these sessions.
        dead: Vec<String>,
    },
}

/// The effect of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The state has changed.
    Changed,
    /// There was nothing to change.
    Nothing,
    /// The session has no state.
    NoState,
    /// No teammate has this name.
    Unknown(String),
    /// The roster is full, and all its members are still active.
    Full(String),
    /// The transition between two statuses is not allowed.
    Refused {
        /// The name of the teammate.
        name: String,
        /// Its current status.
        from: Status,
        /// The status that was refused.
        to: Status,
    },
    /// The phase or the feature has changed, as the text describes.
    Phase(String),
}

impl Effect {
    /// Returns whether the state must be written.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Changed | Self::Phase(_))
    }
}

impl StateChange {
    /// Returns a change by `session` at `at`.
    pub fn new(session: impl Into<String>, at: Time, ops: Vec<Op>) -> Self {
        Self {
            at,
            session: session.into(),
            ops,
        }
    }

    /// Returns whether the change creates a state if there is none.
    pub(super) fn creates(&self) -> bool {
        self.ops
            .iter()
            .any(|op| matches!(op, Op::Init(_) | Op::Ensure(_)))
    }

    /// Returns whether the change needs the state folder: it creates a state, or has something to remember.
    pub(super) fn needs_folder(&self) -> bool {
        self.creates() || self.ops.iter().any(|op| matches!(op, Op::Announce(_)))
    }

    /// Returns whether the change starts a session that is unrelated to an earlier one of the same name.
    pub(super) fn restarts_session(&self) -> bool {
        let anew = |op: &Op| matches!(op, Op::Init(begin) if begin.anew);
        self.ops.iter().any(anew)
    }

    /// Returns the change with every text redacted, cleaned and truncated.
    pub(super) fn cleaned(mut self) -> Self {
        self.session = shown_line(&self.session, LONGEST_TEXT);
        self.ops.iter_mut().for_each(Op::clean);
        self
    }
}

impl Op {
    /// Returns whether the operation would change a state, for the operations that every hook makes.
    pub fn would_change(&self, state: &AgentState) -> bool {
        let mut state = state.clone();
        let now = state.last_updated.clone();
        let mut memory = SessionMemory::default();
        self.apply(&mut state, &mut memory, &now).is_change()
    }

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
                id(&mut begin.cto);
            }
            Self::Add(row) | Self::Start(row) | Self::Join(row) | Self::StartAgent { row, .. } => {
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
                ..
            } => {
                short(name);
                job(task);
                id(task_id);
            }
            Self::Announce(agent) => {
                short(&mut agent.tool_use);
                id(&mut agent.prompt_id);
                short(&mut agent.name);
                short(&mut agent.role);
                job(&mut agent.task);
            }
            Self::Spawned {
                tool_use,
                id: agent,
                name,
                task,
                ..
            } => {
                short(tool_use);
                id(agent);
                id(name);
                job(task);
            }
            Self::Stop { name, reason, .. } => {
                short(name);
                job(reason);
            }
            Self::Process { name, .. } => id(name),
            Self::Wait { notice: name }
            | Self::Remove { name }
            | Self::Phase { feature: name, .. } => {
                short(name);
            }
            Self::Message {
                from, to, content, ..
            }
            | Self::Heard {
                from, to, content, ..
            } => {
                short(from);
                short(to);
                *content = shown(content, LONGEST_MESSAGE);
            }
            Self::EndDead { dead } => dead.iter_mut().for_each(short),
            Self::Progress(_) | Self::Touch | Self::CleanUp => {}
        }
    }

    /// Applies the operation to the session's state and memory. `now` is the time of the change.
    pub(super) fn apply(
        &self,
        state: &mut AgentState,
        memory: &mut SessionMemory,
        now: &str,
    ) -> Effect {
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
            Self::Add(row) => add(state, row, now),
            Self::Start(row) => put(state, row, Status::Working, now),
            Self::Join(row) => match state.teammate(&row.name) {
                Some(known) => put(state, row, known.status, now),
                None => put(state, row, Status::Spawning, now),
            },
            Self::StartAgent { prompt_id, row } => {
                start_agent(state, memory, prompt_id.as_deref(), row, now)
            }
            Self::Spawned {
                tool_use,
                id,
                name,
                model,
                task,
            } => {
                memory.forget(tool_use);
                let row = id.as_ref().and_then(|id| memory.confirm(id, tool_use));
                let names = [row.as_ref(), id.as_ref(), name.as_ref()];
                record_response(state, &names, *model, task.as_ref(), now)
            }
            Self::Status {
                name,
                status,
                task,
                task_id,
            } => {
                let name = memory.row_of(name);
                set_status(state, name, *status, task.as_ref(), task_id.as_ref(), now)
            }
            Self::Act {
                name,
                task,
                task_id,
                wakes,
            } => {
                let name = memory.row_of(name);
                wake(state, name, *wakes);
                act(state, name, task.as_ref(), task_id.as_ref(), now)
            }
            Self::Stop {
                name,
                failed,
                reason,
            } => {
                let name = memory.row_of(name).to_owned();
                // The process of a teammate whose turn failed keeps running, and may still be killed.
                if !*failed {
                    memory.teammates.remove(&name);
                }
                stop(state, &name, *failed, reason.as_ref(), now)
            }
            Self::Process { name, process } => {
                memory.note_process(name.as_ref(), process);
                Effect::Nothing
            }
            Self::Wait { notice } => wait(state, notice, now),
            Self::Remove { name } => remove(state, name),
            Self::Progress(progress) if *state.progress == *progress => Effect::Nothing,
            Self::Progress(progress) => {
                state.progress.counts = *progress;
                Effect::Changed
            }
            Self::Message {
                from,
                to,
                content,
                timestamp,
            } => {
                let letter = teammate_message(memory.row_of(from), to, content, *timestamp, now);
                add_message(state, memory, letter, *timestamp)
            }
            Self::Heard {
                from,
                to,
                content,
                at,
            } => {
                let letter = teammate_message(from, to, content, Some(*at), now);
                add_inbox_message(state, memory, letter, *at)
            }
            Self::Phase { feature, phase } => advance(state, feature, *phase, now),
            Self::Touch if state.enabled => Effect::Changed,
            Self::CleanUp if state.enabled || !state.teammates.is_empty() => clean_up(state),
            // The transaction itself ends other sessions, which are in other files, and records announcements before
            // there is a state.
            Self::Touch | Self::CleanUp | Self::EndDead { .. } | Self::Announce(_) => {
                Effect::Nothing
            }
        }
    }
}

impl Begin {
    /// Replaces the values of the state by those known here.
    fn set(&self, state: &mut AgentState) {
        if !self.team.is_empty() {
            state.team_name.clone_from(&self.team);
        }
        if !self.feature.is_empty() {
            state.feature.clone_from(&self.feature);
        }
        state.pdca_phase = self.phase.unwrap_or(state.pdca_phase);
        state.orchestration_pattern = self.pattern.unwrap_or(state.orchestration_pattern);
        if let Some(cto) = &self.cto {
            state.cto_agent.clone_from(cto);
        }
    }

    /// Adds the values that an active session does not have yet; existing ones stay.
    fn complete(&self, state: &mut AgentState) -> Effect {
        if state.team_name.is_empty() && !self.team.is_empty() {
            state.team_name.clone_from(&self.team);
            return Effect::Changed;
        }
        Effect::Nothing
    }
}

/// Shows a teammate as spawning, with nothing of its earlier row but its start time.
fn add(state: &mut AgentState, row: &TeammateRow, now: &str) -> Effect {
    let mut rows = state.teammates.iter_mut();
    if let Some(known) = rows.find(|known| known.name == row.name) {
        known.current_task = None;
        known.task_id = None;
    }
    put(state, row, Status::Spawning, now)
}

/// Takes a row out.
fn remove(state: &mut AgentState, name: &str) -> Effect {
    let before = state.teammates.len();
    state.teammates.retain(|row| row.name != name);
    if state.teammates.len() == before {
        Effect::Unknown(name.to_owned())
    } else {
        Effect::Changed
    }
}

/// Shows a teammate: a known row gets the status `known`, a new one is `spawning`.
fn put(state: &mut AgentState, new: &TeammateRow, known: Status, now: &str) -> Effect {
    if let Some(row) = state.teammates.iter_mut().find(|row| row.name == new.name) {
        row.role.clone_from(&new.role);
        row.model = new.model;
        let stays_failed = row.status == Status::Failed && known == Status::Failed;
        if row.status == Status::Failed && known == Status::Working {
            // The failed turn's row showed the error in place of a task.
            row.current_task = None;
            row.task_id = None;
        }
        row.status = known;
        // The assignment from its start says less than a task taken since, or than the error of a failed turn.
        let says_more = new.task_id.is_some() || row.task_id.is_none();
        if new.task.is_some() && says_more && !stays_failed {
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
        more: Object::new(),
    });
    Effect::Changed
}

/// Shows an agent without a name of its own: as it was announced, or by its id.
fn start_agent(
    state: &mut AgentState,
    memory: &mut SessionMemory,
    prompt_id: Option<&str>,
    row: &TeammateRow,
    now: &str,
) -> Effect {
    let id = row.name.as_str();
    if memory.knows(id) || state.teammate(id).is_some() {
        let name = memory.row_of(id).to_owned();
        // The model of a known row came from the client; the payload of another turn has none.
        let model = state.teammate(&name).map_or(row.model, |known| known.model);
        let row = TeammateRow {
            name,
            model,
            ..row.clone()
        };
        return put(state, &row, Status::Working, now);
    }
    let Some(agent) = memory.begin(id, &row.role, prompt_id, state) else {
        return put(state, row, Status::Working, now);
    };
    let row = TeammateRow {
        name: agent.name,
        role: row.role.clone(),
        model: agent.model.unwrap_or(row.model),
        task: agent.task.or_else(|| row.task.clone()),
        task_id: None,
    };
    let effect = put(state, &row, Status::Working, now);
    // It was announced, so it is not new but working.
    if let Some(new) = state
        .teammates
        .iter_mut()
        .find(|known| known.name == row.name)
    {
        new.status = Status::Working;
    }
    effect
}

/// Records the client's response about an agent that it has started, in the row of the first of these names that has
/// one. The model is recorded even when the turn is over.
fn record_response(
    state: &mut AgentState,
    names: &[Option<&String>],
    model: Option<Model>,
    task: Option<&String>,
    now: &str,
) -> Effect {
    let mut names = names.iter().copied().flatten();
    let Some(name) = names.find(|name| state.teammate(name).is_some()) else {
        return Effect::Nothing;
    };
    let mut effect = act(state, name, task, None, now);
    let row = state.teammates.iter_mut().find(|row| row.name == *name);
    if let (Some(row), Some(model)) = (row, model)
        && row.model != model
    {
        row.model = model;
        effect = Effect::Changed;
    }
    effect
}

/// Shows that a teammate is active, unless its turn is over.
fn act(
    state: &mut AgentState,
    name: &str,
    task: Option<&String>,
    task_id: Option<&String>,
    now: &str,
) -> Effect {
    if state
        .teammate(name)
        .is_some_and(|row| !row.status.is_active())
    {
        return Effect::Nothing;
    }
    stop_waiting(state, name);
    set_status(state, name, Status::Working, task, task_id, now)
}

/// Ends the session and removes all its rows.
fn clean_up(state: &mut AgentState) -> Effect {
    state.enabled = false;
    state.teammates.clear();
    Effect::Changed
}

/// Adds a message unless it is known already, however long ago it was sent.
fn add_inbox_message(
    state: &mut AgentState,
    memory: &mut SessionMemory,
    letter: TeammateMessage,
    at: Time,
) -> Effect {
    let is_same = |known: &TeammateMessage| {
        (&known.from, &known.to, &known.content) == (&letter.from, &letter.to, &letter.content)
    };
    if state.recent_messages.iter().any(is_same) {
        return Effect::Nothing;
    }
    add_message(state, memory, letter, Some(at))
}

/// Starts another turn of a teammate whose last one failed, and removes the error from its row.
fn wake(state: &mut AgentState, name: &str, wakes: bool) {
    let row = state.teammates.iter_mut().find(|row| row.name == name);
    if let Some(row) = row.filter(|row| wakes && row.status == Status::Failed) {
        row.status = Status::Working;
        row.current_task = None;
        row.task_id = None;
    }
}

/// Ends a teammate's turn. A failed turn stays failed, whatever is reported later.
fn stop(
    state: &mut AgentState,
    name: &str,
    failed: bool,
    reason: Option<&String>,
    now: &str,
) -> Effect {
    let Some(row) = state.teammates.iter_mut().find(|row| row.name == name) else {
        return Effect::Unknown(name.to_owned());
    };
    if row.status == Status::Failed {
        return Effect::Nothing;
    }
    if failed {
        row.status = Status::Failed;
        if reason.is_some() {
            row.current_task = reason.cloned();
        }
        now.clone_into(&mut row.last_activity_at);
        return Effect::Changed;
    }
    set_status(state, name, Status::Completed, None, None, now)
}

/// Changes the status of a teammate, if the transition is allowed.
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

/// Marks a teammate that waits for a permission. There is no status for that, so its task says it; the teammate's next
/// activity removes the mark.
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

/// Removes the mark of a waiting teammate: it has got its permission, or it would not be active.
fn stop_waiting(state: &mut AgentState, name: &str) {
    let row = state.teammates.iter_mut().find(|row| row.name == name);
    if let Some(row) = row
        && (row.current_task.as_ref()).is_some_and(|task| task.starts_with(WAITING))
    {
        row.current_task = None;
    }
}

/// Returns a message, with defaults for missing fields.
fn teammate_message(
    from: &str,
    to: &str,
    content: &str,
    timestamp: Option<Time>,
    now: &str,
) -> TeammateMessage {
    let or = |name: &str, default: &str| if name.is_empty() { default } else { name }.to_owned();
    TeammateMessage {
        from: or(from, "unknown"),
        to: or(to, "all"),
        content: content.to_owned(),
        timestamp: timestamp.map_or_else(|| now.to_owned(), |time| time.to_string()),
        more: Object::new(),
    }
}

/// Adds a message, unless it is known: from an inbox after its sender's hook reported it, or the other way round.
fn add_message(
    state: &mut AgentState,
    memory: &mut SessionMemory,
    letter: TeammateMessage,
    timestamp: Option<Time>,
) -> Effect {
    let hash = message_hash(&letter.from, &letter.to, &letter.content);
    if let Some(time) = timestamp {
        let is_known = state.recent_messages.iter().any(|known| {
            let same = (&known.from, &known.to, &known.content)
                == (&letter.from, &letter.to, &letter.content);
            let near = known.timestamp.parse::<Time>().is_ok_and(|known| {
                time.since(known) <= SAME_MESSAGE && known.since(time) <= SAME_MESSAGE
            });
            same && near
        });
        let is_full = state.recent_messages.len() >= MOST_MESSAGES;
        let is_older = |known: &TeammateMessage| letter.timestamp < known.timestamp;
        // A message older than all of a full list would be dropped first anyway.
        if is_known || (is_full && state.recent_messages.iter().all(is_older)) {
            return Effect::Nothing;
        }
        memory.note_inbox_sighting(hash, time);
    } else if let Ok(now) = letter.timestamp.parse()
        && memory.take_inbox_sighting(hash, now)
    {
        return Effect::Nothing;
    }
    // A message from an inbox may have been sent before known ones.
    let later = |known: &TeammateMessage| timestamp.is_some() && known.timestamp > letter.timestamp;
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

/// Takes over the feature and phase from the status file, and reports the change.
fn advance(state: &mut AgentState, feature: &str, phase: Phase, now: &str) -> Effect {
    let is_other = !feature.is_empty() && state.feature != feature;
    if !state.enabled || (state.pdca_phase == phase && !is_other) {
        return Effect::Nothing;
    }
    let from = std::mem::replace(&mut state.pdca_phase, phase);
    let before = if is_other {
        std::mem::replace(&mut state.feature, feature.to_owned())
    } else {
        String::new()
    };
    let (old, new) = (from.as_str(), phase.as_str());
    let phases = format!("{old} → {new}");
    let notice = match (before.is_empty(), from == phase) {
        // The session did not know its feature before.
        (true, true) => return Effect::Changed,
        (false, true) => format!("Feature {before} → {feature}"),
        (false, false) => format!("Feature {before} → {feature}, phase {phases}"),
        (true, false)
            if Phase::ALL.iter().position(|one| *one == from)
                < Phase::ALL.iter().position(|one| *one == phase) =>
        {
            format!("Phase {phases} (auto-advanced)")
        }
        (true, false) => format!("Phase {phases} (went back)"),
    };
    let letter = teammate_message("system", "all", &notice, None, now);
    add_message(state, &mut SessionMemory::default(), letter, None);
    Effect::Phase(notice)
}

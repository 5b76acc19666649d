//! What the file holds: exactly these fields in this order. Keys of other programs are kept behind them; words of theirs
//! are read, and become the nearest of ours.

use std::ops::Deref;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use teamster_fs::Dir;
use teamster_types::Time;
use teamster_types::json::Object;
use teamster_types::progress::Progress;

use super::{STALE_AFTER, StateError};

/// A state may be ahead of the time at which its file was written by this much.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// A word that stands in the file, one of a few.
macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $default:ident, { $($(#[$item_doc:meta])* $item:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "String", into = "&'static str")]
        pub enum $name { $($(#[$item_doc])* $item),+ }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$item),+];

            /// Returns the word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$item => $text),+ }
            }

            /// Returns the one with this very word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == word)
            }
        }

        impl From<$name> for &'static str {
            fn from(word: $name) -> Self { word.as_str() }
        }

        impl Default for $name {
            fn default() -> Self { Self::$default }
        }
    };
}

word!(
    /// How a teammate is.
    Status, Working, {
        /// It has just begun.
        Spawning = "spawning",
        /// It works.
        Working = "working",
        /// It waits for work.
        Idle = "idle",
        /// Its turn is over.
        Completed = "completed",
        /// It ended with an error.
        Failed = "failed",
    }
);

word!(
    /// Where the feature stands.
    Phase, Plan, {
        /// It is being planned.
        Plan = "plan",
        /// It is being designed.
        Design = "design",
        /// It is being made.
        Do = "do",
        /// It is being checked.
        Check = "check",
        /// It is being finished.
        Act = "act",
    }
);

word!(
    /// How a team is organised.
    Pattern, Leader, {
        /// One leads.
        Leader = "leader",
        /// Everybody takes what is free.
        Swarm = "swarm",
        /// They decide together.
        Council = "council",
        /// One watches the others.
        Watchdog = "watchdog",
    }
);

word!(
    /// Which model, by its family.
    Model, Sonnet, {
        /// The largest.
        Opus = "opus",
        /// The usual one.
        Sonnet = "sonnet",
        /// The smallest.
        Haiku = "haiku",
    }
);

impl Status {
    /// Returns whether the teammate has not ended.
    pub fn is_active(self) -> bool {
        !matches!(self, Self::Completed | Self::Failed)
    }

    /// Returns whether a teammate may go from this status to `next`. To stay is no step, and always allowed.
    pub fn may_become(self, next: Self) -> bool {
        use Status::{Completed, Failed, Idle, Spawning, Working};
        self == next
            || matches!(
                (self, next),
                (Spawning, Working | Idle | Completed | Failed)
                    | (Working, Idle | Completed | Failed)
                    | (Idle, Working | Completed | Failed)
                    | (Completed | Failed, Working)
                    | (Completed, Idle)
            )
    }
}

/// A word of somebody else's: whoever wrote it is there and was not said to have ended.
impl From<String> for Status {
    fn from(word: String) -> Self {
        Self::parse(&word).unwrap_or_default()
    }
}

impl Phase {
    /// Returns the phase that is nearest to a word of a status file.
    pub fn nearest(word: &str) -> Self {
        match word {
            "pm" => Self::Plan,
            "qa" => Self::Check,
            "report" | "archived" | "completed" => Self::Act,
            word => Self::parse(word).unwrap_or_default(),
        }
    }
}

impl From<String> for Phase {
    fn from(word: String) -> Self {
        Self::nearest(&word)
    }
}

impl From<String> for Pattern {
    fn from(word: String) -> Self {
        Self::parse(&word).unwrap_or_default()
    }
}

impl Model {
    /// Returns the family that a model's name tells; `None` when it tells none.
    pub fn of(name: &str) -> Option<Self> {
        // No model has a longer name, and nobody should pay for one that has.
        let name = name.get(..name.len().min(200)).unwrap_or_default();
        let name = name.to_ascii_lowercase();
        Self::ALL
            .iter()
            .copied()
            .find(|model| name.contains(model.as_str()))
    }
}

impl From<String> for Model {
    fn from(word: String) -> Self {
        Self::of(&word).unwrap_or_default()
    }
}

/// One teammate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Teammate {
    /// Its name; no other row of the file has it.
    pub name: String,
    /// What it is for.
    pub role: String,
    /// Which model it uses.
    pub model: Model,
    /// How it is.
    pub status: Status,
    /// What it works on, in words.
    pub current_task: Option<String>,
    /// The task's id.
    pub task_id: Option<String>,
    /// When it first began.
    pub started_at: String,
    /// When it last did something.
    pub last_activity_at: String,
    /// What another program has added.
    #[serde(flatten)]
    pub more: Object,
}

/// One message between teammates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// Who sent it.
    pub from: String,
    /// To whom.
    pub to: String,
    /// What it says.
    pub content: String,
    /// When it was sent.
    pub timestamp: String,
    /// What another program has added.
    #[serde(flatten)]
    pub more: Object,
}

/// How far the tasks are, with what another program has added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Object", into = "Object")]
pub struct ShownProgress {
    /// The counts that we know.
    pub counts: Progress,
    more: Object,
}

impl Deref for ShownProgress {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        &self.counts
    }
}

impl From<Object> for ShownProgress {
    fn from(mut object: Object) -> Self {
        // A count that is none is nobody's, and is replaced by the next one.
        let mut count = |key: &str| -> usize {
            let count = object.shift_remove(key);
            let count = count.as_ref().and_then(Value::as_u64).unwrap_or(0);
            usize::try_from(count).unwrap_or(0)
        };
        let counts = Progress {
            total_tasks: count("totalTasks"),
            completed_tasks: count("completedTasks"),
            in_progress_tasks: count("inProgressTasks"),
            failed_tasks: count("failedTasks"),
            pending_tasks: count("pendingTasks"),
        };
        Self {
            counts,
            more: object,
        }
    }
}

impl From<ShownProgress> for Object {
    fn from(progress: ShownProgress) -> Self {
        let counts = progress.counts;
        let mut object: Self = [
            ("totalTasks", counts.total_tasks),
            ("completedTasks", counts.completed_tasks),
            ("inProgressTasks", counts.in_progress_tasks),
            ("failedTasks", counts.failed_tasks),
            ("pendingTasks", counts.pending_tasks),
        ]
        .into_iter()
        .map(|(key, count)| (key.to_owned(), Value::from(count)))
        .collect();
        object.extend(progress.more);
        object
    }
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentState {
    /// Of this format.
    pub version: String,
    /// Whether the session goes on.
    pub enabled: bool,
    /// The team.
    pub team_name: String,
    /// What it works on.
    pub feature: String,
    /// Where that stands.
    pub pdca_phase: Phase,
    /// How the team is organised.
    pub orchestration_pattern: Pattern,
    /// The lead's model, or whatever else leads, as it was told.
    pub cto_agent: String,
    /// When the session began.
    pub started_at: String,
    /// When the file was last written.
    pub last_updated: String,
    /// Who is there, in the order of spawning.
    pub teammates: Vec<Teammate>,
    /// How far the tasks are.
    pub progress: ShownProgress,
    /// The last messages, oldest first.
    pub recent_messages: Vec<Letter>,
    /// The session.
    pub session_id: String,
    /// What another program has added.
    #[serde(flatten)]
    pub more: Object,
}

/// The keys of a state.
const KEYS: [&str; 13] = [
    "version",
    "enabled",
    "teamName",
    "feature",
    "pdcaPhase",
    "orchestrationPattern",
    "ctoAgent",
    "startedAt",
    "lastUpdated",
    "teammates",
    "progress",
    "recentMessages",
    "sessionId",
];
/// The keys of a teammate.
const ROW_KEYS: [&str; 8] = [
    "name",
    "role",
    "model",
    "status",
    "currentTask",
    "taskId",
    "startedAt",
    "lastActivityAt",
];
/// The keys of a message.
const LETTER_KEYS: [&str; 4] = ["from", "to", "content", "timestamp"];

/// Returns what an object has besides these keys.
fn rest(value: &Value, keys: &[&str]) -> Object {
    let all = value.as_object().into_iter().flatten();
    all.filter(|(key, _)| !keys.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

impl AgentState {
    /// Makes the state of a session that begins.
    pub fn new(session: &str, now: &str) -> Self {
        Self {
            version: "1.0".to_owned(),
            enabled: true,
            team_name: String::new(),
            feature: String::new(),
            pdca_phase: Phase::Plan,
            orchestration_pattern: Pattern::Leader,
            cto_agent: Model::Opus.as_str().to_owned(),
            started_at: now.to_owned(),
            last_updated: now.to_owned(),
            teammates: Vec::new(),
            progress: ShownProgress::default(),
            recent_messages: Vec::new(),
            session_id: session.to_owned(),
            more: Object::new(),
        }
    }

    /// Reads a file. The error says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        // What we wrote ourselves, which is nearly always.
        if let Ok(state) = serde_json::from_slice(bytes) {
            return Ok(state);
        }
        let object = teamster_types::json::parse_object(bytes)?;
        Ok(Self::from_foreign(&Value::Object(object)))
    }

    /// Returns the bytes of the file: two spaces of indent.
    pub fn to_file(&self) -> Vec<u8> {
        // Strings and numbers always have a JSON form.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// Returns the row of a teammate.
    pub fn teammate(&self, name: &str) -> Option<&Teammate> {
        self.teammates.iter().find(|row| row.name == name)
    }

    /// Returns when the file was last written, as a moment.
    pub fn updated(&self) -> Option<Time> {
        self.last_updated.parse().ok()
    }

    /// Returns whether the session goes on and was heard of lately.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.enabled
            && self
                .updated()
                .is_some_and(|updated| now.since(updated) <= STALE_AFTER)
    }

    /// Whatever of a foreign object has the right type; the rest is as in a new state.
    fn from_foreign(value: &Value) -> Self {
        let text = |value: &Value, key: &str| -> String {
            value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let optional = |value: &Value, key: &str| -> Option<String> {
            value.get(key).and_then(Value::as_str).map(str::to_owned)
        };
        let list = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        let progress = value.get("progress").and_then(Value::as_object);
        Self {
            enabled: value.get("enabled").and_then(Value::as_bool) == Some(true),
            team_name: text(value, "teamName"),
            feature: text(value, "feature"),
            pdca_phase: text(value, "pdcaPhase").into(),
            orchestration_pattern: text(value, "orchestrationPattern").into(),
            cto_agent: match text(value, "ctoAgent") {
                nobody if nobody.is_empty() => Model::Opus.as_str().to_owned(),
                somebody => somebody,
            },
            last_updated: text(value, "lastUpdated"),
            teammates: list("teammates")
                .filter(|row| row.get("name").is_some_and(Value::is_string))
                .map(|row| Teammate {
                    name: text(row, "name"),
                    role: text(row, "role"),
                    model: text(row, "model").into(),
                    status: text(row, "status").into(),
                    current_task: optional(row, "currentTask"),
                    task_id: optional(row, "taskId"),
                    started_at: text(row, "startedAt"),
                    last_activity_at: text(row, "lastActivityAt"),
                    more: rest(row, &ROW_KEYS),
                })
                .collect(),
            progress: progress.cloned().unwrap_or_default().into(),
            recent_messages: list("recentMessages")
                .filter(|letter| letter.get("content").is_some_and(Value::is_string))
                .map(|letter| Letter {
                    from: text(letter, "from"),
                    to: text(letter, "to"),
                    content: text(letter, "content"),
                    timestamp: text(letter, "timestamp"),
                    more: rest(letter, &LETTER_KEYS),
                })
                .collect(),
            session_id: text(value, "sessionId"),
            more: rest(value, &KEYS),
            ..Self::new("", &text(value, "startedAt"))
        }
    }
}

/// Tells whether a session is under way, as viewers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Liveness {
    /// The session goes on.
    Live,
    /// It should go on, was not heard of for more than five minutes, and its process cannot be seen.
    Stale,
    /// It is over; its progress and messages are still worth a look.
    Ended,
}

impl Liveness {
    /// Returns the word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Stale => "stale",
            Self::Ended => "ended",
        }
    }
}

impl AgentState {
    /// Returns how a viewer shows the state at this time when it knows nothing but the file. Where the session's process
    /// can be seen, [`States::viewed`](super::States::viewed) knows better.
    pub fn viewed(&self, now: Time) -> Liveness {
        match self.enabled {
            false => Liveness::Ended,
            true if self.is_fresh(now) => Liveness::Live,
            true => Liveness::Stale,
        }
    }
}

/// One session, as viewers of ours list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSession {
    /// Its state.
    pub state: AgentState,
    /// Whether it is the one in `agent-state.json`.
    pub is_main: bool,
}

/// Reads a state file; `None` when there is none. A time that is ahead of the file's modification time counts as that.
pub(super) fn read_file(dir: &Dir, name: &str) -> Result<Option<AgentState>, StateError> {
    let Some((bytes, stamp)) = dir.read(name)? else {
        return Ok(None);
    };
    match AgentState::parse(&bytes) {
        Ok(mut state) => {
            let written = Time::from_millis(stamp.modified / 1_000_000);
            // A state cannot be newer than its file: whoever wrote it has another clock, or made the time up.
            if state
                .updated()
                .is_some_and(|updated| updated.since(written) > CLOCK_SLACK)
            {
                state.last_updated = written.to_string();
            }
            Ok(Some(state))
        }
        Err(error) => Err(StateError::Corrupt {
            file: dir.join(name),
            error,
        }),
    }
}

/// Returns the names of the states in the folder of sessions, in order.
pub(super) fn state_files(sessions: &Dir) -> Result<Vec<String>, StateError> {
    let mut names: Vec<String> = sessions
        .entries()?
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| !name.starts_with('.') && name.strip_suffix(".json").is_some())
        .collect();
    names.sort_unstable();
    Ok(names)
}

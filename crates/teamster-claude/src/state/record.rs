//! The content of a state file: exactly these fields in this order. Keys of other programs are kept after them; unknown
//! values of other programs are mapped to the nearest known one.

use std::ops::Deref;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use teamster_fs::Dir;
use teamster_types::Time;
use teamster_types::json::Object;
use teamster_types::progress::Progress;

use super::{STALE_AFTER, StateError};

/// How far a state's time may be ahead of its file's modification time.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// Defines an enum whose variants are words in the file.
macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $default:ident, { $($(#[$item_doc:meta])* $item:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "String", into = "&'static str")]
        pub enum $name { $($(#[$item_doc])* $item),+ }

        impl $name {
            /// All variants, in order.
            pub const ALL: &'static [Self] = &[$(Self::$item),+];

            /// Returns the word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$item => $text),+ }
            }

            /// Returns the variant with exactly this word.
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
    /// The status of a teammate.
    Status, Working, {
        /// It has just started.
        Spawning = "spawning",
        /// It is working.
        Working = "working",
        /// It is waiting for work.
        Idle = "idle",
        /// Its turn is over.
        Completed = "completed",
        /// It ended with an error.
        Failed = "failed",
    }
);

word!(
    /// The phase of a feature.
    Phase, Plan, {
        /// It is being planned.
        Plan = "plan",
        /// It is being designed.
        Design = "design",
        /// It is being implemented.
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
        /// One member leads.
        Leader = "leader",
        /// Every member takes free tasks.
        Swarm = "swarm",
        /// The members decide together.
        Council = "council",
        /// One member watches the others.
        Watchdog = "watchdog",
    }
);

word!(
    /// The family of a model.
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

    /// Returns whether a teammate may change from this status to `next`. Keeping the status is always allowed.
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

/// Maps an unknown status to the default: the teammate exists, and was not reported to have ended.
impl From<String> for Status {
    fn from(word: String) -> Self {
        Self::parse(&word).unwrap_or_default()
    }
}

impl Phase {
    /// Returns the phase that is nearest to a word in a status file.
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
    /// Returns the family in a model's name; `None` when it contains none.
    pub fn of(name: &str) -> Option<Self> {
        // No model has a longer name, and a longer text should cost no time.
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

/// A teammate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Teammate {
    /// Its name, which is unique in the file.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Its model.
    pub model: Model,
    /// Its status.
    pub status: Status,
    /// A description of the task that it works on.
    pub current_task: Option<String>,
    /// The task's id.
    pub task_id: Option<String>,
    /// When it first began.
    pub started_at: String,
    /// When it last did something.
    pub last_activity_at: String,
    /// Fields that another program has added.
    #[serde(flatten)]
    pub more: Object,
}

/// A message between teammates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeammateMessage {
    /// The sender.
    pub from: String,
    /// The recipient.
    pub to: String,
    /// The text of the message.
    pub content: String,
    /// When it was sent.
    pub timestamp: String,
    /// Fields that another program has added.
    #[serde(flatten)]
    pub more: Object,
}

/// The progress of the tasks, with fields that another program has added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Object", into = "Object")]
pub struct ShownProgress {
    /// The counts known to teamster.
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
        // An invalid count is dropped, and replaced by the next update.
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
    /// The version of the format.
    pub version: String,
    /// Whether the session is active.
    pub enabled: bool,
    /// The team.
    pub team_name: String,
    /// The feature that it works on.
    pub feature: String,
    /// The phase of the feature.
    pub pdca_phase: Phase,
    /// How the team is organised.
    pub orchestration_pattern: Pattern,
    /// The lead's model, or another name of the lead, as it was reported.
    pub cto_agent: String,
    /// When the session began.
    pub started_at: String,
    /// When the file was last written.
    pub last_updated: String,
    /// The teammates, in the order of spawning.
    pub teammates: Vec<Teammate>,
    /// The progress of the tasks.
    pub progress: ShownProgress,
    /// The last messages, oldest first.
    pub recent_messages: Vec<TeammateMessage>,
    /// The id of the session.
    pub session_id: String,
    /// Fields that another program has added.
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

/// Returns the fields of an object besides these keys.
fn rest(value: &Value, keys: &[&str]) -> Object {
    let all = value.as_object().into_iter().flatten();
    all.filter(|(key, _)| !keys.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

impl AgentState {
    /// Returns the state of a session that starts.
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

    /// Parses a file. The error says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        // A file written by teamster, which is nearly always the case.
        if let Ok(state) = serde_json::from_slice(bytes) {
            return Ok(state);
        }
        let object = teamster_types::json::parse_object(bytes)?;
        Ok(Self::from_foreign(&Value::Object(object)))
    }

    /// Returns the bytes of the file, indented by two spaces.
    pub fn to_file(&self) -> Vec<u8> {
        // Strings and numbers always have a JSON form.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// Returns the row of a teammate.
    pub fn teammate(&self, name: &str) -> Option<&Teammate> {
        self.teammates.iter().find(|row| row.name == name)
    }

    /// Returns the time when the file was last written.
    pub fn updated(&self) -> Option<Time> {
        self.last_updated.parse().ok()
    }

    /// Returns whether the session is active and was updated recently.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.enabled
            && self
                .updated()
                .is_some_and(|updated| now.since(updated) <= STALE_AFTER)
    }

    /// Takes over every field of a foreign object that has the right type; the rest is as in a new state.
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
                .map(|letter| TeammateMessage {
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

/// Whether a session is active, as viewers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Liveness {
    /// The session is active.
    Live,
    /// It should be active, but was not updated for more than five minutes, and its process cannot be seen.
    Stale,
    /// It is over; its progress and messages are still shown.
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
    /// Returns the liveness of the state at this time by the file alone. Where the session's process can be seen,
    /// [`StateFiles::liveness`](super::StateFiles::liveness) is more accurate.
    pub fn liveness(&self, now: Time) -> Liveness {
        match self.enabled {
            false => Liveness::Ended,
            true if self.is_fresh(now) => Liveness::Live,
            true => Liveness::Stale,
        }
    }
}

/// One session, as teamster's viewers list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSession {
    /// Its state.
    pub state: AgentState,
    /// Whether it is the one in `agent-state.json`.
    pub is_main: bool,
}

/// Reads a state file; `None` when there is none. A time ahead of the file's modification time is replaced by that.
pub(super) fn read_file(dir: &Dir, name: &str) -> Result<Option<AgentState>, StateError> {
    let Some((bytes, stamp)) = dir.read(name)? else {
        return Ok(None);
    };
    match AgentState::parse(&bytes) {
        Ok(mut state) => {
            let written = Time::from_millis(stamp.modified / 1_000_000);
            // A state cannot be newer than its file: its writer has another clock, or made the time up.
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

/// Returns the names of the state files in the folder of sessions, sorted.
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

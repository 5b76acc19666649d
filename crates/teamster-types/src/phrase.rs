//! Sentences of ours that are shown in several languages.
//!
//! A [`Phrase`] is an English sentence together with the code and the parameters that it was made from. Whoever shows it in
//! another language takes those and never the sentence. Every code stands in one table below, with its English template;
//! the page has a text for each of them in every other language, and its tests fail when one is missing.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! phrases {
    ($($code:ident: $template:literal,)*) => {
        /// Names a sentence of ours.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum PhraseCode {
            $(#[doc = $template] $code,)*
        }

        impl PhraseCode {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$code,)*];

            /// Returns the English sentence, with `{name}` for each parameter.
            pub fn template(self) -> &'static str {
                match self {
                    $(Self::$code => $template,)*
                }
            }
        }
    };
}

phrases! {
    // What somebody else wrote, which has no other language.
    Verbatim: "{text}",
    // What the verdict about a worker rests on.
    HeartbeatOld: "heartbeat {age} old",
    HeartbeatAhead: "heartbeat {ahead} in the future (a clock was set)",
    PidGone: "process {pid} is gone",
    PidGoneAlone: "process {pid} is gone, told by its pid alone",
    PidAlive: "pid {pid} alive",
    PidElsewhere: "pid {pid} on {host} cannot be judged from here",
    PidNotJudged: "pid {pid} cannot be judged from here",
    NoHeartbeat: "no heartbeat",
    ProcessGone: "its process is gone",
    ProcessAlive: "process alive: it is starting, or its heartbeat was removed",
    NoProcess: "no process to judge: a missing heartbeat alone proves nothing",
    NotStarted: "the run has started no worker for it",
    OneError: "1 error in a row",
    ErrorsInARow: "{count} errors in a row",
    LastError: "the last one: {reason}",
    SaysQuarantined: "says it is quarantined",
    Limited: "{provider}: limited until {until}",
    LimitedWindow: "{provider}: limited until {until} ({window})",
    ProviderDown: "{provider} does not answer; it is tried again at {until}",
    ProviderSignedOut: "{provider} is not signed in; it is tried again at {until}",
    AgentQuiet: "no event of the agent for {quiet}",
    AgentQuietOnTask: "no event of the agent for {quiet} on task {task}",
    InLeadRuns: "in its lead's process, pid {pid} runs",
    InLeadGone: "in its lead's process, pid {pid} gone",
    InLeadNotJudged: "in its lead's process, pid {pid} cannot be judged from here",
    InLeadUnrecorded: "in its lead's process, no process is recorded",
    LeadRuns: "its lead: pid {pid} runs",
    LeadGone: "its lead: pid {pid} gone",
    LeadNotJudged: "its lead: pid {pid} cannot be judged from here",
    LeadUnrecorded: "its lead: no process is recorded",
    ClientCallsActive: "its client calls it active",
    ClientCallsIdle: "its client calls it idle",
    SessionInPaneRuns: "its session in pane {pane} (pid {pid}) runs",
    SessionInPaneGone: "its session in pane {pane} (pid {pid}) is gone",
    PlaceUnknown: "its client has not said where it runs",
    InPane: "in pane {pane}, which `teamster zombies scan` asks tmux about",
    EndedInOrder: "it ended in order",
    EndedInOrderBecause: "it ended in order: {reason}",
    JournalSays: "the journal says: {status}",
    AttemptsFailed: "{count} attempts failed in a row",
    StateFileSays: "its state file calls it {status}",
    LastActive: "last active {ago} ago",
    SeatTaken: "another process has its seat",
    // What needs a person.
    WorkerVerdict: "{verdict}",
    WorkWaits: "{words}; it waits for you: `{command}`, or reject, or revise",
    PlanWaits: "revision {revision} waits for you: `teamster plan show --team {team}`, then accept, revise, edit or reject",
    MessageUndelivered: "1 message is not delivered after {age}",
    MessagesUndelivered: "{count} messages are not delivered after {age}",
    MessageUndeliveredLong: "1 message is not delivered after more than a minute",
    MessagesUndeliveredLong: "{count} messages are not delivered after more than a minute",
    FileDamaged: "it cannot be understood: {error}",
    JournalLineDamaged: "1 line cannot be understood: {error}",
    JournalLinesDamaged: "{count} lines cannot be understood; the first: {error}",
    // What is left behind, and why that is said.
    LeadSessionEnds: "the session of its lead ends",
    LeadProcessGone: "its lead (pid {pid}) is gone",
    LeadProcessRuns: "its lead (pid {pid}) runs",
    LeadProcessNotJudged: "its lead (pid {pid}) cannot be judged from here",
    HostRuns: "its host (pid {pid}) runs",
    HostNotJudged: "its host (pid {pid}) cannot be judged from here",
    LeadSessionRuns: "the session of its lead (pid {pid}) runs",
    LeadSessionNotJudged: "the session of its lead (pid {pid}) cannot be judged from here",
    HeartbeatsUnreadable: "its heartbeats cannot be read: {error}",
    WorkerHeartbeat: "heartbeat of {worker} (pid {pid}) {age} old",
    WorkerNotJudged: "{worker} (pid {pid}) cannot be judged from here",
    InboxFolder: "there is a folder inboxes/{name}",
    InboxUnreadable: "inboxes/{name} cannot be read",
    InboxUnreadMessage: "1 unread message in inboxes/{name}",
    InboxUnreadMessages: "{count} unread messages in inboxes/{name}",
    ClaimRuns: "the claim of {worker} on task {task} runs",
    ClaimerRuns: "{worker} (pid {pid}), who claimed task {task}, runs",
    ClaimerNotJudged: "{worker} (pid {pid}), who claimed task {task}, cannot be judged from here",
    LockInUse: "{name} is in use",
    LockNotJudged: "{name} cannot be judged from here",
    LockHeld: "{name} is held",
    RunsAsMember: "pid {pid} runs as {name} of it",
    PidRuns: "pid {pid} runs",
    PaneOutOfReach: "pane {pane} of {name} cannot be looked at from here",
    ClientRunsInPane: "a session of Claude Code (pid {pid}) runs in pane {pane} of {name}",
    PaneNotLookedFor: "pane {pane} of {name} was not looked for",
    PaneNotFindable: "pane {pane} of {name} cannot be looked for: {error}",
    PaneProgramEnded: "pane {pane} is open, its program has ended",
    PaneOfMemberOpen: "pane {pane} of {name} is open",
    PaneOpen: "pane {pane} is open",
    OwnPaneEnded: "its program has ended, in our own tmux server",
    OddTime: "{odd}: the newest change of its files counts",
    OthersStopped: "every other member is proven stopped",
    OthersNotProven: "not every member is proven stopped",
    NoSignOfLife: "no change for {age}, no sign of life",
    OldAlive: "old, alive",
    OldPerhapsAlive: "old, perhaps alive",
    WasRestored: "it was restored from the trash",
    OpenTaskOfSession: "1 open task, which a resumed session would go on with",
    OpenTasksOfSession: "{count} open tasks, which a resumed session would go on with",
    OpenTask: "1 open task",
    OpenTasks: "{count} open tasks",
    RemovalUnfinished: "its removal was begun and not finished",
    RunUnfinished: "its run has not finished; it can be resumed",
    RunNeverFinished: "it has no run that finished",
    RunFinished: "its run has finished",
    RunHostGone: "the host of its run is gone",
    TeamRemoved: "its team was removed",
    TeamGone: "its team is gone",
    TeamHalfMade: "a team that pid {pid} did not finish making",
    RegistryUnreadable: "config.json cannot be read: {error}",
    NameNotUtf8: "its name is not UTF-8, so no team can have it",
    LinkNotFollowed: "{path} is a symbolic link and not followed",
    OfAnotherUser: "{path} belongs to another user (uid {owner})",
    HeartbeatPidRuns: "heartbeat {age} old, pid {pid} runs",
    HeartbeatPidMayRun: "heartbeat {age} old, pid {pid} may run",
    HeartbeatPidGone: "heartbeat {age} old, pid {pid} gone",
    TaskInItsName: "task {task} is still in its name",
    TempFileLeft: "temp file, its writer (pid {pid}) is gone",
    LockFolderLeft: "lock folder of Claude Code that nobody keeps fresh",
    ClaimLockUnnamed: "claim lock that names no process",
    ClaimLockLeft: "claim lock, its claimer (pid {pid}) is gone",
    EndedWhenAsked: "it ended when it was asked to",
    KilledAfter: "it did not end within {limit} and was killed",
    // Why a task stands where it stands.
    TaskFailed: "failed for good: {error}",
    TaskFailedUnexplained: "failed for good: no reason was recorded",
    TaskCompleted: "completed",
    WorksOnIt: "{owner} works on it",
    WorksOnItUntil: "{owner} works on it, lease until {until}",
    WorksOnItOverdue: "{owner} works on it; its lease ran out at {until}",
    BlockedByFailure: "blocked by failure of {tasks}",
    BlockedByMissing: "blocked by the missing task {tasks}",
    WaitsFor: "waits for {tasks}",
    WaitsForMerge: "waits for the merge of {tasks}",
    WaitsForAnswer: "waits for an answer to {asker}: {question}",
    NotAgainUntil: "failed before, not again until {until}",
    FilesReserved: "may change the same files as task {task}, which is being worked on",
    Internal: "internal, claimed only by id",
    AssignedTo: "assigned to {owner}",
    Free: "free",
    FreeAgain: "free again: worker {worker} died: its lease ran out at {until}, pid {pid} is gone and no heartbeat is fresh",
}

/// A code with its parameters: all that another language needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PhraseKey {
    /// Which sentence it is.
    pub code: PhraseCode,
    /// What is filled in, by name.
    pub params: BTreeMap<String, String>,
}

/// A sentence of ours. As text, and in JSON, it is the English one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    key: PhraseKey,
    text: String,
}

impl Phrase {
    /// Returns the sentence of this code with its parameters filled in.
    pub fn new<const N: usize>(code: PhraseCode, params: [(&str, &dyn fmt::Display); N]) -> Self {
        let params: BTreeMap<String, String> = params
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_string()))
            .collect();
        Self::of(PhraseKey { code, params })
    }

    /// Returns the sentence of a code with parameters.
    pub fn of(key: PhraseKey) -> Self {
        let text = filled(key.code.template(), &key.params);
        Self { key, text }
    }

    /// Returns a sentence that somebody else wrote, or that was recorded without its code.
    pub fn verbatim(text: &str) -> Self {
        Self::new(PhraseCode::Verbatim, [("text", &text)])
    }

    /// Returns its code and parameters.
    pub fn key(&self) -> &PhraseKey {
        &self.key
    }

    /// Returns the English sentence.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the codes and parameters of several sentences.
    pub fn keys(phrases: &[Self]) -> Vec<PhraseKey> {
        phrases.iter().map(|phrase| phrase.key.clone()).collect()
    }

    /// Returns the English sentences.
    pub fn texts(phrases: &[Self]) -> Vec<String> {
        phrases.iter().map(|phrase| phrase.text.clone()).collect()
    }
}

/// Fills the parameters in. A parameter's own braces are text.
fn filled(template: &str, params: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        text.push_str(params.get(name).map_or("", String::as_str));
        rest = after;
    }
    text + rest
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// Lets a list of phrases be joined as texts are.
impl Borrow<str> for Phrase {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl Serialize for Phrase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Phrase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::verbatim(&text))
    }
}

impl JsonSchema for Phrase {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        String::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrase_is_its_template_with_the_parameters_filled_in() {
        let phrase = Phrase::new(
            PhraseCode::AgentQuietOnTask,
            [("quiet", &"6 min"), ("task", &3)],
        );
        let english = "no event of the agent for 6 min on task 3";
        assert_eq!(phrase.to_string(), english);
        assert_eq!(serde_json::to_value(&phrase).unwrap(), english);
        let key = serde_json::to_value(phrase.key()).unwrap();
        assert_eq!(key["code"], "agent-quiet-on-task");
        assert_eq!(key["params"]["quiet"], "6 min");
    }

    #[test]
    fn braces_in_a_parameter_are_text() {
        let phrase = Phrase::verbatim("{text} {other");
        assert_eq!(phrase.as_str(), "{text} {other");
    }

    #[test]
    fn every_template_has_whole_parameters() {
        for code in PhraseCode::ALL {
            let template = code.template();
            assert_eq!(
                template.matches('{').count(),
                template.matches('}').count(),
                "{template}"
            );
        }
    }
}

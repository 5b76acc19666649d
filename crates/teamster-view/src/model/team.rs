//! The view of one team, and its timeline.

use schemars::JsonSchema;
use serde::Serialize;
pub use teamster_journal::{Mark, Span, SpanEnd};
use teamster_types::progress::Progress;
use teamster_types::{TaskId, Time};

use super::collaboration::{ChoiceView, FindingView, ProposalView, ReviewView, WakeView};
use super::cost::CostView;
use super::rows::{MessageView, PermissionRequest, TaskRow, WorkerView};
use super::run::{Approval, MergeView, RunView, Verification};
use crate::questions::QuestionView;
use crate::status::TeamProblem;

/// The program that created a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TeamKind {
    /// Made by teamster.
    Teamster,
    /// Made by Claude Code; teamster never changes it.
    Claude,
    /// A session that is known only by its state file, which any program may have written.
    StateFile,
}

/// The activity of a team, a session or a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Viewed {
    /// At least one of its workers or its host is alive.
    Live,
    /// It is unfinished, but none of its processes is known to be alive.
    Stale,
    /// It has ended; its results can still be viewed.
    Ended,
    /// There is neither a team nor a session.
    Inactive,
}

impl Viewed {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Stale => "stale",
            Self::Ended => "ended",
            Self::Inactive => "inactive",
        }
    }
}

/// How much of the journal a view includes. A long journal is read while the current state is already shown; until it
/// is read, costs, times and older messages are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct History {
    /// The position up to which it has been read.
    pub read: u64,
    /// The last position of the journal.
    pub last: u64,
    /// Whether all of it has been read.
    pub complete: bool,
}

/// What a state file says about its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub struct SessionView {
    /// The file, in the project.
    pub file: String,
    /// The id of the session.
    pub session_id: String,
    /// The feature that it works on.
    pub feature: String,
    /// The phase of that feature: `plan`, `design`, `do`, `check` or `act`.
    pub pdca_phase: String,
    /// The organisation of the team: `leader`, `swarm`, `council` or `watchdog`.
    pub orchestration_pattern: String,
    /// The lead's model.
    pub cto_agent: String,
    /// When it began.
    pub started_at: Option<Time>,
    /// When the file was last written.
    pub last_updated: Option<Time>,
}

/// One team, now or at a past moment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamView {
    /// Its identifier in the API.
    pub id: String,
    /// Its own name. Another program may have chosen any name.
    pub name: String,
    /// The program that created the team; `null` when its registry cannot be read.
    pub kind: Option<TeamKind>,
    /// The project it works on.
    pub project: Option<String>,
    /// Its description.
    pub description: String,
    /// Whether it is active; at a past moment, according to the journal.
    pub state: Viewed,
    /// The journal position that this view shows; 0 when there is none.
    pub seq: u64,
    /// The moment that this view shows.
    pub at: Option<Time>,
    /// Whether this is a past moment, derived from the journal alone.
    pub past: bool,
    /// How much of the journal has been read.
    pub history: History,
    /// Its progress.
    pub progress: Progress,
    /// Its workers, at most 1,000. If there are more, those that work or need a person are kept first.
    pub workers: Vec<WorkerView>,
    /// The total number of workers.
    pub worker_count: usize,
    /// Its tasks, in number order.
    pub tasks: Vec<TaskRow>,
    /// The longest chain of uncompleted tasks.
    pub critical_path: Vec<TaskId>,
    /// The last 50 messages, the oldest first.
    pub messages: Vec<MessageView>,
    /// The total number of messages.
    pub message_count: u64,
    /// Its run; `null` while it has none.
    pub run: Option<RunView>,
    /// The gate; `null` if it was never opened.
    pub approval: Option<Approval>,
    /// The verifications, in order.
    pub verifications: Vec<Verification>,
    /// The merges, including failed ones, in order.
    pub merges: Vec<MergeView>,
    /// The last plan that was proposed to a person; `null` when there was none.
    pub proposal: Option<ProposalView>,
    /// The questions of agents: up to 200 open ones, and the last 100 ended ones, the oldest first.
    pub questions: Vec<QuestionView>,
    /// The turns of the agent that leads the run, after its plan, in order.
    pub wakes: Vec<WakeView>,
    /// The reviews of the merged work, in order.
    pub reviews: Vec<ReviewView>,
    /// The findings of workers and the leader, in order.
    pub findings: Vec<FindingView>,
    /// Which of several candidate results was chosen.
    pub choice: Option<ChoiceView>,
    /// The costs.
    pub cost: CostView,
    /// The problems that need a person, at most 200.
    pub problems: Vec<TeamProblem>,
    /// The total number of problems.
    pub problem_count: usize,
    /// The session's state file; `null` for other teams.
    pub session: Option<SessionView>,
}

/// The maximum number of workers in one view, because a registry or a state file may name any number.
pub(crate) const MOST_WORKERS: usize = 1_000;
/// The maximum number of problems in one view.
const MOST_PROBLEMS: usize = 200;

impl TeamView {
    /// Counts workers and problems, and drops those beyond what a page can show.
    pub(crate) fn bounded(mut self) -> Self {
        self.worker_count = self.workers.len();
        if self.worker_count > MOST_WORKERS {
            let (first, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.workers)
                .into_iter()
                .partition(WorkerView::matters);
            self.workers = first.into_iter().chain(others).take(MOST_WORKERS).collect();
        }
        self.problem_count = self.problems.len();
        self.problems.truncate(MOST_PROBLEMS);
        self
    }

    /// Returns the stage of its run.
    pub fn stage(&self) -> Option<&str> {
        self.run.as_ref()?.stage.as_deref()
    }

    /// Returns the questions that wait for a person's answer, the oldest first.
    pub fn questions_for_person(&self) -> impl Iterator<Item = &QuestionView> {
        self.questions.iter().filter(|open| open.is_for_person())
    }

    /// Returns the permission requests of agents that wait for a person, each with its worker.
    pub fn requests(&self) -> impl Iterator<Item = (&WorkerView, &PermissionRequest)> {
        let workers = self.workers.iter();
        workers.flat_map(|worker| worker.requests.iter().map(move |request| (worker, request)))
    }

    /// Returns the revision of the plan that waits for a person's decision.
    pub fn open_plan(&self) -> Option<u32> {
        let open = self.proposal.as_ref().filter(|proposal| proposal.waits)?;
        Some(open.revision)
    }

    /// Returns whether the run waits for a person's decision.
    pub fn awaits_approval(&self) -> bool {
        self.approval.as_ref().is_some_and(|gate| gate.waits)
    }
}

/// The history of one worker, for the timeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Lane {
    /// The name of the worker.
    pub worker: String,
    /// Its work spans, in order.
    pub spans: Vec<Span>,
    /// What happened to it, in order.
    pub marks: Vec<Mark>,
}

/// A stage of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StageSpan {
    /// The name of the stage.
    pub stage: String,
    /// The position of the event at which it began.
    pub seq: u64,
    /// When it began.
    pub from: Time,
    /// When it ended; `null` while it is running.
    pub to: Option<Time>,
}

/// A journal position and its time, for mapping a moment to a position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tick {
    /// The position.
    pub seq: u64,
    /// Its time.
    pub at: Time,
}

/// The timeline of a team.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// The journal position that this shows.
    pub seq: u64,
    /// The moment of the first event.
    pub from: Option<Time>,
    /// The moment of the last event.
    pub to: Option<Time>,
    /// A lane for each worker, in name order.
    pub lanes: Vec<Lane>,
    /// The stages of the run.
    pub stages: Vec<StageSpan>,
    /// At most 512 evenly spread positions, including the first and the last.
    pub ticks: Vec<Tick>,
}

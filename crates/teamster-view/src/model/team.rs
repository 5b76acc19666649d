//! One team as a whole, and what happened in it when.

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

/// Whose team it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TeamKind {
    /// Made by teamster.
    Teamster,
    /// Made by Claude Code; nothing of it is changed.
    Claude,
    /// A session that is known by its state file only, whoever wrote that.
    StateFile,
}

/// What a viewer says about a team, a session or a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Viewed {
    /// Somebody of it is there.
    Live,
    /// It should go on, and nobody of it was heard of.
    Stale,
    /// It is over; what it did is still worth a look.
    Ended,
    /// There is nothing.
    Inactive,
}

impl Viewed {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Stale => "stale",
            Self::Ended => "ended",
            Self::Inactive => "inactive",
        }
    }
}

/// How much of the journal a view has counted in. A long journal is read while the present is shown already; until it
/// is read, costs, times and older messages are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct History {
    /// Up to this position.
    pub read: u64,
    /// Of this last one.
    pub last: u64,
    /// Whether that is all of it.
    pub complete: bool,
}

/// What a session's state file says of the session itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub struct SessionView {
    /// The file, in the project.
    pub file: String,
    /// The session.
    pub session_id: String,
    /// What it works on.
    pub feature: String,
    /// Where that stands: `plan`, `design`, `do`, `check` or `act`.
    pub pdca_phase: String,
    /// How the team is organised: `leader`, `swarm`, `council` or `watchdog`.
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
    /// Its name in the API.
    pub id: String,
    /// Its own name. A foreign program may have chosen any.
    pub name: String,
    /// Whose team; `null` when its registry cannot be read.
    pub kind: Option<TeamKind>,
    /// The project it works on.
    pub project: Option<String>,
    /// What it is for.
    pub description: String,
    /// Whether it still does something; at a past moment, as far as the journal tells.
    pub state: Viewed,
    /// The position of the journal that this shows; 0 when there is none.
    pub seq: u64,
    /// The moment that this shows.
    pub at: Option<Time>,
    /// Whether this is a past moment, told by the journal alone.
    pub past: bool,
    /// How much of the journal is counted in.
    pub history: History,
    /// How far it is.
    pub progress: Progress,
    /// Its workers, at most 1,000: first those that work or need a person, where there are more.
    pub workers: Vec<WorkerView>,
    /// How many workers there are in all.
    pub worker_count: usize,
    /// Its tasks, in the order of their numbers.
    pub tasks: Vec<TaskRow>,
    /// The longest chain of tasks that are not completed.
    pub critical_path: Vec<TaskId>,
    /// The last 50 messages, the oldest first.
    pub messages: Vec<MessageView>,
    /// How many messages there were in all.
    pub message_count: u64,
    /// Its run; `null` while it has none.
    pub run: Option<RunView>,
    /// The gate; `null` while it was never open.
    pub approval: Option<Approval>,
    /// What was run to verify, in order.
    pub verifications: Vec<Verification>,
    /// What was merged or could not be, in order.
    pub merges: Vec<MergeView>,
    /// The plan that was proposed to a person last; `null` when none was.
    pub proposal: Option<ProposalView>,
    /// What agents ask: all that wait for an answer, and the last 100 that do not any more, the oldest first.
    pub questions: Vec<QuestionView>,
    /// The turns of the agent that leads the run, after its plan, in order.
    pub wakes: Vec<WakeView>,
    /// The reviews of the merged work, in order.
    pub reviews: Vec<ReviewView>,
    /// What workers and the leader found wrong, in order.
    pub findings: Vec<FindingView>,
    /// Which of several results of the same work was chosen.
    pub choice: Option<ChoiceView>,
    /// What was spent.
    pub cost: CostView,
    /// What needs a person, at most 200.
    pub problems: Vec<TeamProblem>,
    /// How many of these there are in all.
    pub problem_count: usize,
    /// What a state file says of its session; `null` for other teams.
    pub session: Option<SessionView>,
}

/// The most workers that one view has: a registry or a state file may name any number.
pub(crate) const MOST_WORKERS: usize = 1_000;
/// The most problems that one view has.
const MOST_PROBLEMS: usize = 200;

impl TeamView {
    /// Counts workers and problems, and keeps no more of them than a page can show.
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

    /// The stage of its run.
    pub fn stage(&self) -> Option<&str> {
        self.run.as_ref()?.stage.as_deref()
    }

    /// The questions that wait for words of a person, the oldest first.
    pub fn questions_for_person(&self) -> impl Iterator<Item = &QuestionView> {
        self.questions.iter().filter(|open| open.is_for_person())
    }

    /// What agents want to do and a person has to decide, each with its worker.
    pub fn requests(&self) -> impl Iterator<Item = (&WorkerView, &PermissionRequest)> {
        let workers = self.workers.iter();
        workers.flat_map(|worker| worker.requests.iter().map(move |request| (worker, request)))
    }

    /// The revision of the plan that waits for a decision of a person.
    pub fn open_plan(&self) -> Option<u32> {
        let open = self.proposal.as_ref().filter(|proposal| proposal.waits)?;
        Some(open.revision)
    }

    /// Whether a decision waits for a person.
    pub fn awaits_approval(&self) -> bool {
        self.approval.as_ref().is_some_and(|gate| gate.waits)
    }
}

/// What one worker did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Lane {
    /// The name of the worker.
    pub worker: String,
    /// Its work, in order.
    pub spans: Vec<Span>,
    /// What happened to it, in order.
    pub marks: Vec<Mark>,
}

/// A stage of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StageSpan {
    /// The name of the stage.
    pub stage: String,
    /// The position of the journal at which it began.
    pub seq: u64,
    /// When it began.
    pub from: Time,
    /// When it ended; `null` while it goes on.
    pub to: Option<Time>,
}

/// A position of the journal and its time, for whoever goes from a moment to a position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tick {
    /// The position.
    pub seq: u64,
    /// Its time.
    pub at: Time,
}

/// What happened when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Timeline {
    /// The position of the journal that this shows.
    pub seq: u64,
    /// The moment of the first event.
    pub from: Option<Time>,
    /// The moment of the last event.
    pub to: Option<Time>,
    /// A lane for each worker, in the order of their names.
    pub lanes: Vec<Lane>,
    /// The stages of the run.
    pub stages: Vec<StageSpan>,
    /// At most 512 positions, evenly spread, the first and the last among them.
    pub ticks: Vec<Tick>,
}

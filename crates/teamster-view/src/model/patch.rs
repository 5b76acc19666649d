//! The difference between two views of one team.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_types::progress::Progress;
use teamster_types::{TaskId, Time};

use super::collaboration::{ChoiceView, FindingView, ProposalView, ReviewView, WakeView};
use super::cost::CostView;
use super::rows::{MessageView, TaskRow, WorkerView};
use super::run::{Approval, MergeView, RunView, Verification};
use super::team::{History, TeamView, Viewed};
use crate::questions::QuestionView;
use crate::status::TeamProblem;

/// The difference between two views of one team. An omitted part is unchanged; applying a patch twice has no further
/// effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// The journal position of the new view.
    pub seq: u64,
    /// The time of that event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Whether the team is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Viewed>,
    /// Its progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// How much of the journal has been read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Workers that are new or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerView>,
    /// The names of all workers in order, when one joined or left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_names: Option<Vec<String>>,
    /// The total number of workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_count: Option<usize>,
    /// Tasks that are new or changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskRow>,
    /// Tasks that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed_tasks: Vec<TaskId>,
    /// The longest chain of uncompleted tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_path: Option<Vec<TaskId>>,
    /// New messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageView>,
    /// The total number of messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_count: Option<u64>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunView>,
    /// The gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Every verification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifications: Option<Vec<Verification>>,
    /// Every merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<Vec<MergeView>>,
    /// The last proposed plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProposalView>,
    /// Every question that is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub questions: Option<Vec<QuestionView>>,
    /// Every turn of the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wakes: Option<Vec<WakeView>>,
    /// Every review.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviews: Option<Vec<ReviewView>>,
    /// Every finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<FindingView>>,
    /// Which of several candidate results was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceView>,
    /// The costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostView>,
    /// The problems that need a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problems: Option<Vec<TeamProblem>>,
    /// The total number of problems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem_count: Option<usize>,
}

fn changed<T: PartialEq + Clone>(before: &T, after: &T) -> Option<T> {
    (before != after).then(|| after.clone())
}

impl Patch {
    /// Returns the patch from `before` to `after`, or `None` when they are equal.
    pub fn between(before: &TeamView, after: &TeamView) -> Option<Self> {
        let names = |view: &TeamView| -> Vec<String> {
            let names = view.workers.iter().map(|worker| worker.name.clone());
            names.collect()
        };
        let newest = before.messages.last().map_or(0, |message| message.seq);
        let patch = Self {
            seq: after.seq,
            at: changed(&before.at, &after.at).flatten(),
            state: changed(&before.state, &after.state),
            progress: changed(&before.progress, &after.progress),
            history: changed(&before.history, &after.history),
            workers: different(&before.workers, &after.workers, |worker| &worker.name),
            worker_names: changed(&names(before), &names(after)),
            worker_count: changed(&before.worker_count, &after.worker_count),
            tasks: different(&before.tasks, &after.tasks, |task| &task.id),
            removed_tasks: gone(&before.tasks, &after.tasks),
            critical_path: changed(&before.critical_path, &after.critical_path),
            messages: after
                .messages
                .iter()
                .filter(|message| message.seq > newest)
                .cloned()
                .collect(),
            message_count: changed(&before.message_count, &after.message_count),
            run: changed(&before.run, &after.run).flatten(),
            approval: changed(&before.approval, &after.approval).flatten(),
            verifications: changed(&before.verifications, &after.verifications),
            merges: changed(&before.merges, &after.merges),
            proposal: changed(&before.proposal, &after.proposal).flatten(),
            questions: changed(&before.questions, &after.questions),
            wakes: changed(&before.wakes, &after.wakes),
            reviews: changed(&before.reviews, &after.reviews),
            findings: changed(&before.findings, &after.findings),
            choice: changed(&before.choice, &after.choice).flatten(),
            cost: changed(&before.cost, &after.cost),
            problems: changed(&before.problems, &after.problems),
            problem_count: changed(&before.problem_count, &after.problem_count),
        };
        let nothing = Self {
            seq: before.seq,
            ..Self::default()
        };
        (patch != nothing).then_some(patch)
    }
}

/// Returns the rows of `after` that are new or differ from the row with the same key in `before`.
fn different<T: PartialEq + Clone, K: Ord>(
    before: &[T],
    after: &[T],
    key: impl Fn(&T) -> &K,
) -> Vec<T> {
    let known: std::collections::BTreeMap<&K, &T> =
        before.iter().map(|row| (key(row), row)).collect();
    after
        .iter()
        .filter(|row| known.get(key(row)) != Some(row))
        .cloned()
        .collect()
}

fn gone(before: &[TaskRow], after: &[TaskRow]) -> Vec<TaskId> {
    let left: std::collections::BTreeSet<&TaskId> = after.iter().map(|task| &task.id).collect();
    before
        .iter()
        .filter(|task| !left.contains(&task.id))
        .map(|task| task.id.clone())
        .collect()
}

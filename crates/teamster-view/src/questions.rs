//! Questions that wait for an answer of the leader or a person.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_journal::payload::{Addressee, ProposedTask, QuestionKind};
use teamster_journal::{Event, EventType, Question, QuestionStatus, Questions, family};
use teamster_store::{ReadStore, Result};
use teamster_types::phrase::{PhraseKey, Wording};
use teamster_types::{TaskId, TeamName, Time};

/// The number of recent events that are searched for open questions.
const LOOKED_THROUGH: u64 = 20_000;
/// The number of events that are read at once.
const PAGE: usize = 1_000;
/// The maximum numbers of open and of ended questions that are shown.
const MOST_OPEN: usize = 200;
const MOST_OVER: usize = 100;

/// The state of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuestionState {
    /// It waits for an answer.
    Open,
    /// It was answered.
    Answered,
    /// It expired: no agent waits for an answer any more.
    Expired,
}

/// A question of an agent, and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Question")]
pub struct QuestionView {
    /// Its id, for the answer.
    pub id: String,
    /// The asker.
    pub from: String,
    /// The task that it concerns.
    pub task_id: Option<TaskId>,
    /// The kind of the question: `ask`, `blocked`, `plan` or `proposal`.
    pub kind: &'static str,
    /// The addressee: `leader` or `person`.
    pub to: &'static str,
    /// The text of the question.
    pub text: String,
    /// When it was asked.
    pub asked_at: Time,
    /// Why the question was forwarded from its first addressee.
    pub forwarded: Option<String>,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub forwarded_codes: Vec<PhraseKey>,
    /// The proposed task.
    pub proposal: Option<ProposedTask>,
    /// Its state.
    pub state: QuestionState,
    /// The answer, or why the question expired.
    pub answer: Option<String>,
    /// The message codes of this text, for translation; empty if teamster did not write it, or an older version did.
    pub answer_codes: Vec<PhraseKey>,
    /// Who answered.
    pub answered_by: Option<String>,
    /// When it was answered or expired.
    pub ended_at: Option<Time>,
}

impl QuestionView {
    /// Creates the view of a question.
    pub fn of(question: &Question) -> Self {
        let (state, answer, answered_by, ended_at) = match &question.state {
            QuestionStatus::Open => (QuestionState::Open, None, None, None),
            QuestionStatus::Answered { at, by, answer, .. } => (
                QuestionState::Answered,
                Some(answer.clone()),
                Some(by.as_str().to_owned()),
                Some(*at),
            ),
            QuestionStatus::Expired { at, reason, .. } => (
                QuestionState::Expired,
                Some(reason.to_string()),
                None,
                Some(*at),
            ),
        };
        let answer_codes = match &question.state {
            QuestionStatus::Expired { reason, .. } => reason.codes().to_vec(),
            QuestionStatus::Open | QuestionStatus::Answered { .. } => Vec::new(),
        };
        let forwarded = question.forwarded.as_ref();
        Self {
            id: question.id.to_string(),
            from: question.asked_by.as_str().to_owned(),
            task_id: question.task.clone(),
            kind: question.kind.as_str(),
            to: question.to.as_str(),
            text: question.text.clone(),
            asked_at: question.asked_at,
            forwarded: forwarded.map(Wording::to_string),
            forwarded_codes: forwarded.map_or_else(Vec::new, |why| why.codes().to_vec()),
            proposal: question.proposal.clone(),
            state,
            answer,
            answer_codes,
            answered_by,
            ended_at,
        }
    }

    /// Returns whether it waits for an answer.
    pub fn is_open(&self) -> bool {
        self.state == QuestionState::Open
    }

    /// Returns whether it waits for a person's answer.
    pub fn is_for_person(&self) -> bool {
        self.is_open() && self.to == Addressee::Person.as_str()
    }

    /// Returns whether a worker waits for its answer.
    pub fn is_waited_for_by(&self, worker: &str) -> bool {
        self.is_open() && self.from == worker && self.kind == QuestionKind::Ask.as_str()
    }

    /// Returns a sentence for people: `worker-1 asks about task 3: Which port?`.
    pub fn words(&self) -> String {
        let about = match &self.task_id {
            Some(task) => format!(" about task {task}"),
            None => String::new(),
        };
        match (&self.proposal, &self.task_id) {
            (Some(proposal), _) => format!("{} proposes a task: {}", self.from, proposal.subject),
            (None, Some(task)) if self.kind == QuestionKind::Blocked.as_str() => {
                format!("{} cannot go on with task {task}: {}", self.from, self.text)
            }
            (None, _) => format!("{} asks{about}: {}", self.from, self.text),
        }
    }

    /// Returns the command that answers it.
    pub fn command(&self, team: &str) -> String {
        let words = if self.proposal.is_some() {
            "--accept"
        } else {
            "\"…\""
        };
        format!("teamster answer {} {words} --team {team}", self.id)
    }
}

/// Returns the questions of a team for a viewer: the oldest open ones, and the last ended ones, up to a limit each.
pub(crate) fn shown(questions: &Questions) -> Vec<QuestionView> {
    let over: Vec<&Question> = questions.all().filter(|it| !it.is_open()).collect();
    let mut shown: Vec<&Question> = questions.open().take(MOST_OPEN).collect();
    shown.extend(over.iter().rev().take(MOST_OVER));
    shown.sort_by_key(|question| question.id);
    shown.into_iter().map(QuestionView::of).collect()
}

/// Returns the questions of a team that wait for an answer, the oldest first.
pub fn open(read: &dyn ReadStore, team: &TeamName) -> Result<Vec<QuestionView>> {
    // Most teams never ask anything, which can be checked without reading their events.
    let asked = [family::QUESTION, EventType::TaskBlocked.name()];
    if read.last_of(team, &asked)?.is_none() {
        return Ok(Vec::new());
    }
    let mut questions = Questions::default();
    for_recent(read, team, LOOKED_THROUGH, |event| {
        questions.apply(event, &event.payload());
    })?;
    Ok(questions.open().map(QuestionView::of).collect())
}

/// Calls `apply` for the events at the last `positions` positions, in order. They are read page by page, because all of
/// them together would need much memory.
pub(crate) fn for_recent(
    read: &dyn ReadStore,
    team: &TeamName,
    positions: u64,
    mut apply: impl FnMut(&Event),
) -> Result<()> {
    let last = read.position(team)?;
    let mut from = last.saturating_sub(positions) + 1;
    while from <= last {
        let page = read.events(team, from, PAGE)?.events;
        page.iter().for_each(&mut apply);
        // A page has more positions than events where lines are damaged.
        let Some(reached) = page.last() else { break };
        from = reached.seq + 1;
    }
    Ok(())
}

/// Returns the question at this position with its state, or `None` when the event there asks nothing.
pub fn find(read: &dyn ReadStore, team: &TeamName, seq: u64) -> Result<Option<Question>> {
    let mut questions = Questions::default();
    let mut from = seq;
    loop {
        let page = read.events(team, from, PAGE)?;
        for event in &page.events {
            questions.apply(event, &event.payload());
            from = event.seq + 1;
        }
        let found = questions.all().next().filter(|found| found.id.seq() == seq);
        let is_settled = found.is_none_or(|found| !found.is_open());
        if page.events.len() < PAGE || is_settled {
            return Ok(found.cloned());
        }
    }
}

//! Questions that wait for words of the leader or of a person.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_journal::payload::{Addressee, ProposedTask, QuestionKind};
use teamster_journal::{EventType, Question, QuestionFate, Questions, family};
use teamster_store::{Read, Result};
use teamster_types::phrase::{PhraseKey, Wording};
use teamster_types::{TaskId, TeamName, Time};

/// The number of events that are searched for open questions.
const LOOKED_THROUGH: usize = 20_000;
/// Events that are read at once.
const PAGE: usize = 1_000;
/// Questions that are shown: those that wait, and those that are over.
const MOST_OPEN: usize = 200;
const MOST_OVER: usize = 100;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuestionState {
    /// It waits for an answer.
    Open,
    /// It was answered.
    Answered,
    /// Nobody waits for an answer any more.
    Expired,
}

/// A question of an agent, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Question")]
pub struct QuestionView {
    /// Its name, for the answer.
    pub id: String,
    /// Who asks.
    pub from: String,
    /// The task that it is about.
    pub task_id: Option<TaskId>,
    /// What is wanted: `ask`, `blocked`, `plan` or `proposal`.
    pub kind: &'static str,
    /// Who is to answer: `leader` or `person`.
    pub to: &'static str,
    /// The question in words.
    pub text: String,
    /// Since when it waits.
    pub asked_at: Time,
    /// Why somebody else than the first addressee is to answer.
    pub forwarded: Option<String>,
    /// The codes of these words, for other languages; empty where somebody else wrote them, or an older version did.
    pub forwarded_codes: Vec<PhraseKey>,
    /// The task that is proposed.
    pub proposal: Option<ProposedTask>,
    /// What became of it.
    pub state: QuestionState,
    /// The answer, or why nobody waits for one any more.
    pub answer: Option<String>,
    /// The codes of these words, for other languages; empty where somebody else wrote them, or an older version did.
    pub answer_codes: Vec<PhraseKey>,
    /// Who answered.
    pub answered_by: Option<String>,
    /// When it was answered, or ended without an answer.
    pub ended_at: Option<Time>,
}

impl QuestionView {
    /// Returns what a viewer shows of a question.
    pub fn of(question: &Question) -> Self {
        let (state, answer, answered_by, ended_at) = match &question.fate {
            QuestionFate::Open => (QuestionState::Open, None, None, None),
            QuestionFate::Answered { at, by, answer, .. } => (
                QuestionState::Answered,
                Some(answer.clone()),
                Some(by.as_str().to_owned()),
                Some(*at),
            ),
            QuestionFate::Expired { at, reason, .. } => (
                QuestionState::Expired,
                Some(reason.to_string()),
                None,
                Some(*at),
            ),
        };
        let answer_codes = match &question.fate {
            QuestionFate::Expired { reason, .. } => reason.codes().to_vec(),
            QuestionFate::Open | QuestionFate::Answered { .. } => Vec::new(),
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

    /// Returns whether it waits for words of a person.
    pub fn is_for_person(&self) -> bool {
        self.is_open() && self.to == Addressee::Person.as_str()
    }

    /// Returns whether a worker can do nothing until it is answered.
    pub fn is_waited_for_by(&self, worker: &str) -> bool {
        self.is_open() && self.from == worker && self.kind == QuestionKind::Ask.as_str()
    }

    /// Returns who asks what, in words: `worker-1 asks about task 3: Which port?`.
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

/// Returns the questions of a team for a viewer: all that wait for an answer, and the last that do not any more.
pub(crate) fn shown(questions: &Questions) -> Vec<QuestionView> {
    let over: Vec<&Question> = questions.all().filter(|it| !it.is_open()).collect();
    let mut shown: Vec<&Question> = questions.open().take(MOST_OPEN).collect();
    shown.extend(over.iter().rev().take(MOST_OVER));
    shown.sort_by_key(|question| question.id);
    shown.into_iter().map(QuestionView::of).collect()
}

/// Returns the questions of a team that wait for an answer, the oldest first.
pub fn open(read: &dyn Read, team: &TeamName) -> Result<Vec<QuestionView>> {
    // Most teams never ask anything, and that is found out without reading their events.
    let asked = [family::QUESTION, EventType::TaskBlocked.name()];
    if read.last_of(team, &asked)?.is_none() {
        return Ok(Vec::new());
    }
    let questions = Questions::of(&read.last_events(team, LOOKED_THROUGH)?.events);
    Ok(questions.open().map(QuestionView::of).collect())
}

/// Returns one question and what became of it, or `None` when the event at its position asks nothing.
pub fn find(read: &dyn Read, team: &TeamName, seq: u64) -> Result<Option<Question>> {
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

//! Questions that wait for words of the leader or of a person.

use schemars::JsonSchema;
use serde::Serialize;
use teamster_journal::payload::QuestionKind;
use teamster_journal::{Question, Questions, family};
use teamster_store::{Read, Result};
use teamster_types::{TaskId, TeamName, Time};

/// The number of events that are searched for open questions.
const LOOKED_THROUGH: usize = 20_000;
/// Events that are read at once.
const PAGE: usize = 1_000;

/// A question that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
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
}

impl OpenQuestion {
    fn of(question: &Question) -> Self {
        Self {
            id: question.id.to_string(),
            from: question.asked_by.as_str().to_owned(),
            task_id: question.task.clone(),
            kind: question.kind.as_str(),
            to: question.to.as_str(),
            text: question.text.clone(),
            asked_at: question.asked_at,
        }
    }

    /// Returns whether a worker can do nothing until it is answered.
    pub fn is_waited_for_by(&self, worker: &str) -> bool {
        self.from == worker && self.kind == QuestionKind::Ask.as_str()
    }

    /// Returns the command that answers it.
    pub fn command(&self, team: &str) -> String {
        let words = if self.kind == QuestionKind::Proposal.as_str() {
            "--accept"
        } else {
            "\"…\""
        };
        format!("teamster answer {} {words} --team {team}", self.id)
    }
}

/// Returns the questions of a team that wait for an answer, the oldest first.
pub fn open(read: &dyn Read, team: &TeamName) -> Result<Vec<OpenQuestion>> {
    // Most teams never ask anything, and that is found out without reading their events.
    if read.last_of(team, &[family::QUESTION])?.is_none() {
        return Ok(Vec::new());
    }
    let questions = Questions::of(&read.last_events(team, LOOKED_THROUGH)?.events);
    Ok(questions.open().map(OpenQuestion::of).collect())
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

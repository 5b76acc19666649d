//! The questions of a team, folded from its journal: which are open, and how the others ended.
//!
//! A question ends once: by its first answer, or when it expires. Later answers change nothing, so an answerer can read
//! back whether its answer was in time.
//!
//! A blocked task also asks a question, through the event that blocks it; the event that unblocks the task answers it.

use std::collections::BTreeMap;

use teamster_types::phrase::{PhraseCode, Wording};
use teamster_types::{TaskId, Time};

use crate::actor::EventActor;
use crate::event::Event;
use crate::kind::EventKind;
use crate::payload::{Addressee, ProposedTask, QuestionAsked, QuestionId, QuestionKind};

/// The maximum number of questions that are kept; the oldest ended ones are dropped first.
const MOST_QUESTIONS: usize = 1_000;

/// The state of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionStatus {
    /// It waits for an answer.
    Open,
    /// It was answered.
    Answered {
        /// The position of the event that answered it.
        seq: u64,
        /// When it was answered.
        at: Time,
        /// Who answered it.
        by: EventActor,
        /// The answer.
        answer: String,
    },
    /// It expired: no agent waits for an answer any more.
    Expired {
        /// The position of the event that ended it.
        seq: u64,
        /// When it ended.
        at: Time,
        /// Why it expired.
        reason: Wording,
    },
}

/// A question and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its id.
    pub id: QuestionId,
    /// The actor that asked.
    pub asked_by: EventActor,
    /// When it was asked.
    pub asked_at: Time,
    /// The task that it concerns.
    pub task: Option<TaskId>,
    /// The kind of the question.
    pub kind: QuestionKind,
    /// The text of the question.
    pub text: String,
    /// The current addressee.
    pub to: Addressee,
    /// Why the question was forwarded from its first addressee.
    pub forwarded: Option<Wording>,
    /// The proposed task.
    pub proposal: Option<ProposedTask>,
    /// Its state.
    pub state: QuestionStatus,
}

impl Question {
    /// Returns whether it waits for an answer.
    pub fn is_open(&self) -> bool {
        self.state == QuestionStatus::Open
    }

    /// Returns whether a worker is waiting for its answer.
    fn is_waited_for_by(&self, worker: &str) -> bool {
        self.kind == QuestionKind::Ask && self.asked_by.as_str() == worker
    }

    /// Returns the answer, if it has one that counts.
    pub fn answer(&self) -> Option<&str> {
        match &self.state {
            QuestionStatus::Answered { answer, .. } => Some(answer),
            _ => None,
        }
    }
}

/// The questions of a team.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    all: BTreeMap<QuestionId, Question>,
    /// Whether an agent leads the run and is therefore asked before a person.
    has_leader: bool,
}

impl Questions {
    /// Folds these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut questions = Self::default();
        for event in events {
            questions.apply(event, &event.payload());
        }
        questions
    }

    /// Returns every question, the oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Question> {
        self.all.values()
    }

    /// Returns the questions that wait for an answer, the oldest first.
    pub fn open(&self) -> impl Iterator<Item = &Question> {
        self.all.values().filter(|question| question.is_open())
    }

    /// Returns the question with this id.
    pub fn get(&self, id: QuestionId) -> Option<&Question> {
        self.all.get(&id)
    }

    /// Returns whether the worker waits for the answer to one of its questions.
    pub fn is_waiting(&self, worker: &str) -> bool {
        self.open()
            .any(|question| question.is_waited_for_by(worker))
    }

    /// Applies one event. Returns the asker of the question that the event is about.
    pub fn apply(&mut self, event: &Event, what: &EventKind) -> Option<EventActor> {
        let id = match what {
            EventKind::QuestionAsked(asked) => self.ask(event, asked),
            EventKind::QuestionForwarded(forwarded) => {
                let question = self.still_open(forwarded.question)?;
                question.to = forwarded.to;
                let codes = forwarded.reason_codes.clone();
                question.forwarded = Some(Wording::new(forwarded.reason.as_str(), codes));
                forwarded.question
            }
            EventKind::QuestionAnswered(answered) => {
                let question = self.still_open(answered.question)?;
                question.state = QuestionStatus::Answered {
                    seq: event.seq,
                    at: event.ts,
                    by: event.actor.clone(),
                    answer: answered.answer.clone(),
                };
                answered.question
            }
            EventKind::QuestionExpired(expired) => {
                let question = self.still_open(expired.question)?;
                question.state = QuestionStatus::Expired {
                    seq: event.seq,
                    at: event.ts,
                    reason: Wording::new(expired.reason.as_str(), expired.reason_codes.clone()),
                };
                expired.question
            }
            EventKind::TaskBlocked(change) => {
                let to = if self.has_leader {
                    Addressee::Leader
                } else {
                    Addressee::Person
                };
                let asked = QuestionAsked {
                    kind: QuestionKind::Blocked,
                    text: change.reason.clone().unwrap_or_default(),
                    to,
                    proposal: None,
                };
                self.ask(event, &asked)
            }
            EventKind::TaskUnblocked(change) => {
                let state = QuestionStatus::Answered {
                    seq: event.seq,
                    at: event.ts,
                    by: event.actor.clone(),
                    answer: change.reason.clone().unwrap_or_default(),
                };
                self.end_block(event, &state)?
            }
            EventKind::TaskFailed(_)
            | EventKind::TaskDeleted(_)
            | EventKind::TaskRetried(_)
            | EventKind::TaskClaimed(_)
            | EventKind::TaskCompleted(_) => {
                let reason = match what {
                    EventKind::TaskFailed(_) => PhraseCode::QuestionTaskGivenUp,
                    EventKind::TaskDeleted(_) => PhraseCode::QuestionTaskRemoved,
                    _ => PhraseCode::QuestionTaskGoesOn,
                };
                let state = QuestionStatus::Expired {
                    seq: event.seq,
                    at: event.ts,
                    reason: reason.into(),
                };
                self.end_block(event, &state)?
            }
            EventKind::RunStarted(run)
            | EventKind::RunResumed(run)
            | EventKind::RunOrdered(run) => {
                self.has_leader = run.spec.leading_agent().is_some();
                return None;
            }
            // After the end of the run, no agent would act on an answer.
            EventKind::RunFinished(finished)
                if finished.end().is_some_and(|end| !end.is_resumable()) =>
            {
                self.end_all(event, PhraseCode::QuestionRunOver);
                return None;
            }
            EventKind::WorkerSpawned(_) => {
                let why = PhraseCode::QuestionWorkerRestarted;
                self.give_up(event.actor.as_str(), event, why);
                return None;
            }
            EventKind::WorkerStopped(stopped) => {
                let worker = stopped.worker.as_deref().unwrap_or(event.actor.as_str());
                self.give_up(worker, event, PhraseCode::QuestionWorkerStopped);
                return None;
            }
            EventKind::WorkerDead(dead) => {
                let worker = dead.worker.as_deref().unwrap_or(event.actor.as_str());
                self.give_up(worker, event, PhraseCode::QuestionWorkerDead);
                return None;
            }
            _ => return None,
        };
        self.all.get(&id).map(|question| question.asked_by.clone())
    }

    fn ask(&mut self, event: &Event, asked: &QuestionAsked) -> QuestionId {
        let id = QuestionId::at(event.seq);
        let question = Question {
            id,
            asked_by: event.actor.clone(),
            asked_at: event.ts,
            task: event.task_id.clone(),
            kind: asked.kind,
            text: asked.text.clone(),
            to: asked.to,
            forwarded: None,
            proposal: asked.proposal.clone(),
            state: QuestionStatus::Open,
        };
        self.all.insert(id, question);
        self.shorten();
        id
    }

    /// Ends the question of a blocked task. Returns the last question that this ended.
    fn end_block(&mut self, event: &Event, state: &QuestionStatus) -> Option<QuestionId> {
        let mut ended = None;
        for question in self.all.values_mut() {
            if question.is_open()
                && question.kind == QuestionKind::Blocked
                && event.task_id.is_some()
                && question.task == event.task_id
            {
                question.state = state.clone();
                ended = Some(question.id);
            }
        }
        ended
    }

    fn still_open(&mut self, id: QuestionId) -> Option<&mut Question> {
        self.all.get_mut(&id).filter(|question| question.is_open())
    }

    /// Expires the questions that a worker waited for, because its process is gone.
    fn give_up(&mut self, worker: &str, event: &Event, reason: PhraseCode) {
        self.expire(event, reason, |question| question.is_waited_for_by(worker));
    }

    fn end_all(&mut self, event: &Event, reason: PhraseCode) {
        self.expire(event, reason, |_| true);
    }

    fn expire(&mut self, event: &Event, reason: PhraseCode, is_meant: impl Fn(&Question) -> bool) {
        for question in self.all.values_mut() {
            if question.is_open() && is_meant(question) {
                question.state = QuestionStatus::Expired {
                    seq: event.seq,
                    at: event.ts,
                    reason: reason.into(),
                };
            }
        }
    }

    fn shorten(&mut self) {
        if self.all.len() > MOST_QUESTIONS {
            let over = self.all.values().find(|question| !question.is_open());
            let oldest = over.or_else(|| self.all.values().next());
            if let Some(id) = oldest.map(|question| question.id) {
                self.all.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::NewEvent;
    use crate::payload::{
        QuestionAnswered, QuestionExpired, QuestionForwarded, RunSpec, RunStarted, TaskChange,
        WorkerSpawned,
    };

    fn placed(seq: u64, actor: &str, kind: EventKind) -> Event {
        NewEvent::new(actor, kind).placed(
            seq,
            format!("e{seq}"),
            Time::from_millis(i64::try_from(seq).unwrap()),
            "crew".to_owned(),
        )
    }

    fn asked(seq: u64, actor: &str, kind: QuestionKind) -> Event {
        let asked = QuestionAsked {
            kind,
            text: "Which one?".to_owned(),
            to: Addressee::Leader,
            proposal: None,
        };
        placed(seq, actor, EventKind::QuestionAsked(asked))
    }

    fn answered(seq: u64, actor: &str, question: u64, answer: &str) -> Event {
        let answered = QuestionAnswered {
            question: QuestionId::at(question),
            answer: answer.to_owned(),
        };
        placed(seq, actor, EventKind::QuestionAnswered(answered))
    }

    fn expired(seq: u64, actor: &str, question: u64) -> Event {
        let expired = QuestionExpired {
            question: QuestionId::at(question),
            reason: "nobody answered".to_owned(),
            ..QuestionExpired::default()
        };
        placed(seq, actor, EventKind::QuestionExpired(expired))
    }

    #[test]
    fn first_answer_counts_and_later_ones_do_not() {
        let questions = Questions::of(&[
            asked(3, "ann", QuestionKind::Ask),
            answered(4, "user", 3, "the first"),
            answered(5, "lead", 3, "the second"),
            expired(6, "ann", 3),
        ]);
        let question = questions.get(QuestionId::at(3)).unwrap();
        assert_eq!(question.answer(), Some("the first"));
        assert_eq!(questions.open().count(), 0);
    }

    #[test]
    fn questions_end_with_a_run_that_cannot_go_on() {
        use crate::payload::{RunEnd, RunFinished};
        let finished = |end| {
            let finished = RunFinished::new(None, end, &Wording::default(), None);
            placed(4, "lead", EventKind::RunFinished(finished))
        };
        let proposal = asked(3, "ann", QuestionKind::Proposal);
        let over = Questions::of(&[proposal.clone(), finished(RunEnd::Complete)]);
        assert_eq!(over.open().count(), 0);
        let stopped = Questions::of(&[proposal, finished(RunEnd::Cancelled)]);
        assert_eq!(stopped.open().count(), 1);
    }

    #[test]
    fn answer_after_the_end_of_waiting_does_not_count() {
        let questions = Questions::of(&[
            asked(3, "ann", QuestionKind::Ask),
            expired(4, "ann", 3),
            answered(5, "user", 3, "too late"),
        ]);
        let question = questions.get(QuestionId::at(3)).unwrap();
        assert!(matches!(
            question.state,
            QuestionStatus::Expired { seq: 4, .. }
        ));
    }

    #[test]
    fn forwarded_question_is_for_somebody_else_and_stays_open() {
        let forwarded = QuestionForwarded {
            question: QuestionId::at(3),
            to: Addressee::Person,
            reason: "the leader cannot tell".to_owned(),
            ..QuestionForwarded::default()
        };
        let questions = Questions::of(&[
            asked(3, "ann", QuestionKind::Ask),
            placed(4, "leader", EventKind::QuestionForwarded(forwarded)),
        ]);
        let question = questions.open().next().unwrap();
        assert_eq!(question.to, Addressee::Person);
        assert_eq!(
            question.forwarded.as_ref().map(Wording::as_str),
            Some("the leader cannot tell")
        );
    }

    #[test]
    fn restarted_worker_waits_for_nothing_but_its_proposal_stays() {
        let questions = Questions::of(&[
            asked(3, "ann", QuestionKind::Ask),
            asked(4, "ann", QuestionKind::Proposal),
            asked(5, "ben", QuestionKind::Ask),
            placed(6, "ann", EventKind::WorkerSpawned(WorkerSpawned::default())),
        ]);
        let open: Vec<u64> = questions.open().map(|question| question.id.seq()).collect();
        assert_eq!(open, [4, 5]);
        assert!(!questions.is_waiting("ann") && questions.is_waiting("ben"));
    }

    fn about_task(seq: u64, actor: &str, kind: EventKind) -> Event {
        let task = TaskId::from_number(7);
        NewEvent::new(actor, kind).task(&task).placed(
            seq,
            format!("e{seq}"),
            Time::from_millis(i64::try_from(seq).unwrap()),
            "crew".to_owned(),
        )
    }

    fn saying(words: &str) -> TaskChange {
        TaskChange::default().reason(words)
    }

    #[test]
    fn blocked_task_is_a_question_that_its_unblocking_answers() {
        let blocked = about_task(3, "ann", EventKind::TaskBlocked(saying("Which port?")));
        let unblocked = about_task(5, "user", EventKind::TaskUnblocked(saying("8080")));
        let questions = Questions::of([&blocked]);
        let open = questions.open().next().unwrap();
        assert_eq!(
            (open.kind, open.to),
            (QuestionKind::Blocked, Addressee::Person)
        );
        assert_eq!(
            (open.text.as_str(), open.asked_by.as_str()),
            ("Which port?", "ann")
        );
        assert!(!questions.is_waiting("ann"), "its worker does other tasks");
        let questions = Questions::of([&blocked, &unblocked]);
        let question = questions.get(QuestionId::at(3)).unwrap();
        assert_eq!(question.answer(), Some("8080"));
    }

    #[test]
    fn blocked_task_of_a_led_run_is_a_question_to_the_leader() {
        let spec = RunSpec {
            leader: "claude".to_owned(),
            ..RunSpec::default()
        };
        let started = RunStarted {
            spec,
            replacements: None,
        };
        let questions = Questions::of(&[
            placed(1, "lead", EventKind::RunStarted(started)),
            about_task(3, "ann", EventKind::TaskBlocked(saying("Which port?"))),
        ]);
        assert_eq!(questions.open().next().unwrap().to, Addressee::Leader);
    }

    #[test]
    fn question_of_a_blocked_task_ends_with_the_task() {
        let blocked = about_task(3, "ann", EventKind::TaskBlocked(saying("Which port?")));
        for end in [
            EventKind::TaskFailed(TaskChange::default()),
            EventKind::TaskDeleted(TaskChange::default()),
            EventKind::TaskRetried(TaskChange::default()),
        ] {
            let end = about_task(4, "user", end);
            assert_eq!(
                Questions::of([&blocked, &end]).open().count(),
                0,
                "{}",
                end.kind
            );
        }
        let other = placed(4, "ben", EventKind::TaskFailed(TaskChange::default()));
        assert_eq!(Questions::of([&blocked, &other]).open().count(), 1);
    }

    #[test]
    fn number_of_questions_that_are_kept_is_bounded_and_open_ones_stay() {
        let mut events = vec![asked(1, "ann", QuestionKind::Proposal)];
        for seq in 1..=2 * MOST_QUESTIONS as u64 {
            events.push(asked(2 * seq, "ben", QuestionKind::Ask));
            events.push(answered(2 * seq + 1, "user", 2 * seq, "yes"));
        }
        let questions = Questions::of(&events);
        assert_eq!(questions.all().count(), MOST_QUESTIONS);
        assert_eq!(questions.open().count(), 1);
    }

    proptest! {
        #[test]
        fn fate_of_a_question_never_changes_once_it_has_one(steps in prop::collection::vec((0_u8..5, 1_u64..8), 1..60)) {
            let mut questions = Questions::default();
            let mut known: BTreeMap<u64, QuestionStatus> = BTreeMap::new();
            for (place, (step, about)) in steps.into_iter().enumerate() {
                let seq = place as u64 + 1;
                let event = match step {
                    0 => asked(seq, "ann", QuestionKind::Ask),
                    1 => asked(seq, "ben", QuestionKind::Blocked),
                    2 => answered(seq, "user", about, "yes"),
                    3 => expired(seq, "ann", about),
                    _ => placed(seq, "ann", EventKind::WorkerSpawned(WorkerSpawned::default())),
                };
                questions.apply(&event, &event.payload());
                for question in questions.all() {
                    let seq = question.id.seq();
                    match known.get(&seq) {
                        Some(state) => prop_assert_eq!(state, &question.state),
                        None if question.is_open() => {}
                        None => { known.insert(seq, question.state.clone()); }
                    }
                }
            }
        }
    }
}

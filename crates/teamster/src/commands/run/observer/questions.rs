//! Agents' questions during a run, which the user answers by number at its terminal.
//!
//! A question is shown when it arrives, with a prompt below it. Nothing else is drawn while the user may type. An
//! empty line postpones the questions: the run is shown again, and any line typed later shows them again or answers
//! one at once.
//!
//! A line answers only what was on the screen when it was typed. So a prompt knows what was shown above it. When that
//! changes, because another agent asks or a question is answered elsewhere, everything is shown again with a new
//! prompt.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use teamster_app::permissions::{self, PermissionAnswer};
use teamster_app::questions::{self, Reply};
use teamster_journal::payload::{Addressee, QuestionId, QuestionKind};
use teamster_journal::{Event, OpenRequests, Question, Questions};
use teamster_types::{TeamName, WorkerName};

use crate::context::Context;
use crate::error::{AppError, Result};
use crate::input::{PromptInput, TerminalPrompt, line_up};
use crate::notify::{Notification, notify};
use crate::shown::{display_line, display_text};

const PROMPT: &str = "answer> ";
const ANSWERED_ELSEWHERE: &str = "This was answered elsewhere, or no longer needs an answer.";
const NOT_ANSWERED: &str = "nothing was answered: the question had changed";
/// How many lines of one question are shown; `teamster status` and Studio show all of it.
const MOST_LINES: usize = 12;

/// Something that waits for an answer from the user at this terminal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AwaitedAnswer {
    /// A question of an agent.
    Question(QuestionId),
    /// A permission request of a worker's agent, by its id and the position of its event: a client may reuse the same
    /// ids in each of its processes.
    Request {
        worker: String,
        request: String,
        seq: u64,
    },
}

/// The state of the prompt.
#[derive(Debug)]
enum PromptState {
    /// There is nothing to answer, or it has not been shown yet.
    No,
    /// The questions are on the screen, and an answer can be typed.
    Open(TerminalPrompt),
    /// The questions were postponed; anything typed brings them back.
    PutOff(TerminalPrompt),
    /// Nothing more can be typed here.
    Never,
}

/// The questions that wait for the user at the terminal of a run.
#[derive(Debug)]
pub(super) struct TerminalQuestions {
    team: TeamName,
    questions: Questions,
    requests: OpenRequests,
    /// The pending questions, by the number they are shown with. A number is used once.
    waiting: BTreeMap<u32, AwaitedAnswer>,
    next: u32,
    /// The numbers that were shown with the open or postponed prompt. Only these can be answered by it.
    shown: BTreeSet<u32>,
    asking: PromptState,
}

impl TerminalQuestions {
    pub(super) fn new(team: &TeamName, has_terminal: bool) -> Self {
        Self {
            team: team.clone(),
            questions: Questions::default(),
            requests: OpenRequests::default(),
            waiting: BTreeMap::new(),
            next: 1,
            shown: BTreeSet::new(),
            asking: if has_terminal {
                PromptState::No
            } else {
                PromptState::Never
            },
        }
    }

    /// Returns whether an answer can be typed now, so that nothing else may be drawn.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.asking, PromptState::Open(_))
    }

    /// Returns the number of pending answers.
    pub(super) fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Applies one event. Returns the text of a notification for a person who is not watching.
    pub(super) fn follow(&mut self, event: &Event) -> Option<String> {
        let what = event.payload();
        self.questions.apply(event, &what);
        self.requests.apply(event, &what);
        let open: Vec<AwaitedAnswer> = self.open();
        self.waiting.retain(|_, asked| open.contains(asked));
        let mut news = None;
        for asked in open {
            if self.waiting.values().any(|known| *known == asked) {
                continue;
            }
            news = Some(self.heading(&asked));
            self.waiting.insert(self.next, asked);
            self.next += 1;
        }
        news
    }

    /// Returns everything that waits for a person.
    fn open(&self) -> Vec<AwaitedAnswer> {
        let questions = self.questions.open();
        // Questions that the leader asks before it plans are asked together with the plan.
        let questions = questions.filter(|question| {
            question.to == Addressee::Person && question.kind != QuestionKind::Plan
        });
        let mut open: Vec<AwaitedAnswer> = questions
            .map(|question| AwaitedAnswer::Question(question.id))
            .collect();
        let requests = self.requests.iter();
        open.extend(requests.map(|(worker, open)| AwaitedAnswer::Request {
            worker: worker.to_owned(),
            request: open.request.clone(),
            seq: open.seq,
        }));
        open
    }

    /// Returns the text to show now if it differs from what is on the screen, and closes a prompt that was open for
    /// the old text. The caller shows the text, and calls [`TerminalQuestions::ask`].
    pub(super) fn take_text(&mut self) -> Option<String> {
        let is_due = match &self.asking {
            PromptState::Never => false,
            PromptState::Open(_) => !self.is_current(),
            // Postponed questions are shown again when a new one arrives.
            PromptState::No | PromptState::PutOff(_) => {
                !self.waiting.keys().all(|it| self.shown.contains(it))
            }
        };
        if !is_due || self.waiting.is_empty() {
            return None;
        }
        let is_gone = |number: &u32| !self.waiting.contains_key(number);
        let why = if self.shown.iter().any(is_gone) {
            ANSWERED_ELSEWHERE
        } else {
            ""
        };
        if let PromptState::Open(prompt) = std::mem::replace(&mut self.asking, PromptState::No) {
            prompt.close(why);
        }
        self.shown = self.waiting.keys().copied().collect();
        Some(self.text())
    }

    /// Returns whether exactly the pending questions are on the screen.
    fn is_current(&self) -> bool {
        self.waiting.keys().eq(&self.shown)
    }

    /// Asks about what has been shown.
    pub(super) fn ask(&mut self) {
        self.asking = PromptState::Open(TerminalPrompt::new("", PROMPT));
    }

    /// Closes the prompt because something else is asked or the run is over.
    pub(super) fn close(&mut self) {
        self.shown.clear();
        match std::mem::replace(&mut self.asking, PromptState::No) {
            PromptState::Open(prompt) | PromptState::PutOff(prompt) => prompt.close(""),
            PromptState::No => {}
            PromptState::Never => self.asking = PromptState::Never,
        }
    }

    /// Handles typed input. Returns a line with the result.
    pub(super) fn take_input(&mut self, context: &Context) -> Option<String> {
        if self.waiting.is_empty() {
            self.shown.clear();
            match std::mem::replace(&mut self.asking, PromptState::No) {
                PromptState::Open(prompt) => prompt.close(ANSWERED_ELSEWHERE),
                PromptState::Never => self.asking = PromptState::Never,
                PromptState::No | PromptState::PutOff(_) => {}
            }
            return None;
        }
        let is_open = self.is_asking();
        let (PromptState::Open(prompt) | PromptState::PutOff(prompt)) = &mut self.asking else {
            return None;
        };
        let line = match prompt.poll(Duration::ZERO)? {
            PromptInput::Line(line) => line,
            PromptInput::Ended => {
                self.close();
                self.asking = PromptState::Never;
                return Some(
                    "Nothing more can be typed here: `teamster status` names what waits, and Studio shows it."
                        .to_owned(),
                );
            }
        };
        if !is_open {
            // The typed line has moved the cursor below the live lines, which are redrawn from their end.
            line_up();
        }
        self.typed(context, line.trim(), is_open)
    }

    fn typed(&mut self, context: &Context, line: &str, is_open: bool) -> Option<String> {
        if line.is_empty() {
            if is_open {
                // The questions were shown, so anything typed from now on counts.
                self.asking = match std::mem::replace(&mut self.asking, PromptState::No) {
                    PromptState::Open(prompt) => PromptState::PutOff(prompt),
                    other => other,
                };
            } else {
                self.show_again();
            }
            return None;
        }
        let (number, words) = match self.chosen(line) {
            Ok(chosen) => chosen,
            // The questions are shown again, as they are now.
            Err(_) if is_open && !self.is_current() => return Some(NOT_ANSWERED.to_owned()),
            Err(remark) if is_open => {
                self.remark(&remark);
                return None;
            }
            Err(_) => {
                self.show_again();
                return None;
            }
        };
        let asked = self.waiting.get(&number)?.clone();
        match self.answer(context, &asked, words) {
            Ok(said) => {
                self.waiting.remove(&number);
                self.show_remaining(is_open);
                Some(said)
            }
            Err(error) if error.kind() == teamster_app::ErrorKind::Usage && is_open => {
                self.remark(&error_line(&error));
                None
            }
            Err(error) => {
                self.show_remaining(is_open);
                Some(error_line(&error))
            }
        }
    }

    /// Shows the remaining questions again.
    fn show_remaining(&mut self, is_open: bool) {
        if is_open || self.waiting.is_empty() {
            self.show_again();
        }
    }

    fn show_again(&mut self) {
        self.asking = PromptState::No;
        self.shown.clear();
    }

    fn remark(&self, remark: &str) {
        if let PromptState::Open(prompt) = &self.asking {
            prompt.again(remark);
        }
    }

    /// Returns which question a line answers, and with which text; else what to type. It must be one that was shown
    /// when the line was typed, and the only one of them if the line has no number.
    fn chosen<'a>(&self, line: &'a str) -> std::result::Result<(u32, &'a str), String> {
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let waits = |number: &u32| self.shown.contains(number) && self.waiting.contains_key(number);
        let by_number = first.parse::<u32>().ok();
        let by_name = || {
            let id = first.parse::<QuestionId>().ok()?;
            let is_it =
                |(_, asked): &(&u32, &AwaitedAnswer)| **asked == AwaitedAnswer::Question(id);
            self.waiting.iter().find(is_it).map(|(number, _)| *number)
        };
        let named = by_number.filter(waits).or_else(|| by_name().filter(waits));
        let is_waiting = |number: &u32| self.waiting.contains_key(number);
        if named.is_none() && (by_number.as_ref().is_some_and(is_waiting) || by_name().is_some()) {
            return Err("That one is not on the screen yet.".to_owned());
        }
        let only = self.shown.first().filter(|_| self.shown.len() == 1);
        match (named, only.filter(|only| waits(only))) {
            (Some(number), _) if rest.trim().is_empty() => {
                Err(format!("Type {number} and your answer."))
            }
            (Some(number), _) => Ok((number, rest.trim())),
            (None, Some(only)) => Ok((*only, line)),
            (None, None) => Err("Which one? Begin with its number.".to_owned()),
        }
    }

    fn answer(&self, context: &Context, asked: &AwaitedAnswer, words: &str) -> Result<String> {
        match asked {
            AwaitedAnswer::Question(id) => {
                let is_proposal = self.question(*id).is_some_and(|it| it.proposal.is_some());
                let (first, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
                let reply = if is_proposal && first.eq_ignore_ascii_case("accept") {
                    Reply::Accept(rest.trim().to_owned())
                } else {
                    Reply::Words(words.to_owned())
                };
                let answered = questions::answer(context, &self.team, *id, reply)?;
                let who = display_line(answered.question.asked_by.as_str());
                Ok(match answered.task {
                    Some(task) => format!("created task {task}, as {who} proposed"),
                    None => format!("{who} has the answer"),
                })
            }
            AwaitedAnswer::Request {
                worker,
                request,
                seq,
            } => {
                let decision = PermissionAnswer::read(words)
                    .ok_or_else(|| AppError::usage("Type allow, deny, or deny and why."))?;
                let worker: WorkerName = worker.parse()?;
                permissions::answer(context, &self.team, &worker, request, Some(*seq), &decision)?;
                let word = if decision.allow { "allowed" } else { "denied" };
                Ok(format!("{word} for {worker}"))
            }
        }
    }

    fn question(&self, id: QuestionId) -> Option<&Question> {
        self.questions.get(id)
    }

    /// Returns in one line who asks, and for what.
    fn heading(&self, asked: &AwaitedAnswer) -> String {
        match asked {
            AwaitedAnswer::Question(id) => {
                let Some(question) = self.question(*id) else {
                    return id.to_string();
                };
                let who = display_line(question.asked_by.as_str());
                let about = match &question.task {
                    Some(task) => format!(" about task {task}"),
                    None => String::new(),
                };
                match &question.proposal {
                    Some(_) => format!("{who} proposes a task ({id})"),
                    None => format!("{who} asks{about} ({id})"),
                }
            }
            AwaitedAnswer::Request { worker, .. } => format!("{worker} asks for permission"),
        }
    }

    fn words(&self, asked: &AwaitedAnswer) -> String {
        match asked {
            AwaitedAnswer::Question(id) => match self.question(*id) {
                Some(question) => match &question.proposal {
                    Some(proposal) => format!("{}\n{}", proposal.subject, proposal.description),
                    None => question.text.clone(),
                },
                None => String::new(),
            },
            AwaitedAnswer::Request { worker, seq, .. } => {
                let mut open = self.requests.of(worker).iter();
                let asked = open.find(|open| open.seq == *seq);
                asked.map(|open| open.what.clone()).unwrap_or_default()
            }
        }
    }

    /// Returns all pending questions, as shown above the prompt.
    fn text(&self) -> String {
        let mut text = String::new();
        for (number, asked) in &self.waiting {
            let _ = writeln!(text, "\n{number}  {}", self.heading(asked));
            let words = display_text(&self.words(asked));
            let lines: Vec<&str> = words.trim().lines().collect();
            for line in lines.iter().take(MOST_LINES) {
                let _ = writeln!(text, "   {line}");
            }
            if lines.len() > MOST_LINES {
                let _ = writeln!(text, "   … {} more lines", lines.len() - MOST_LINES);
            }
        }
        let mut ways: Vec<String> = Vec::new();
        let only = self.waiting.len() == 1;
        for (number, asked) in &self.waiting {
            let number = if only {
                String::new()
            } else {
                format!("{number} ")
            };
            ways.push(match asked {
                AwaitedAnswer::Request { .. } => format!("{number}allow · {number}deny WHY"),
                AwaitedAnswer::Question(id) => {
                    let proposal = self.question(*id).and_then(|it| it.proposal.as_ref());
                    match proposal {
                        Some(_) => format!("{number}accept · {number}WHY NOT"),
                        None => format!("{number}YOUR ANSWER"),
                    }
                }
            });
        }
        let _ = write!(text, "\nType: {} · Enter to answer later", ways.join(" · "));
        text
    }
}

/// Returns an error's message in one line.
fn error_line(error: &AppError) -> String {
    display_line(&error.to_string())
}

/// Notifies a person who is not watching that an agent asks a question.
pub(super) fn tell(context: &Context, team: &TeamName, news: &str) {
    notify(
        context,
        Notification::AnswerNeeded,
        &format!("team {team}: {news}"),
    );
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(seq: u64, kind: &str, actor: &str, data: &Value) -> Event {
        let event = json!({
            "seq": seq, "id": format!("e{seq}"), "ts": "2026-02-07T12:00:00.000Z", "team": "crew", "type": kind,
            "actor": actor, "taskId": "3", "data": data,
        });
        serde_json::from_value(event).unwrap()
    }

    fn asking() -> TerminalQuestions {
        let mut terminal = TerminalQuestions::new(&"crew".parse().unwrap(), true);
        let asked = json!({ "kind": "ask", "text": "Which port?", "to": "person" });
        assert_eq!(
            terminal.follow(&event(7, "question.asked", "ann", &asked)),
            Some("ann asks about task 3 (q7)".to_owned())
        );
        terminal
    }

    #[test]
    fn questions_are_shown_with_numbers_and_how_to_answer_them() {
        let mut terminal = asking();
        let wants = json!({ "what": "asked", "request": "r1", "text": "Bash rm -r build" });
        terminal.follow(&event(8, "agent.event", "ben", &wants));
        let proposal = json!({ "kind": "proposal", "text": "", "to": "person",
            "proposal": { "subject": "Test the port", "description": "There is no test." } });
        terminal.follow(&event(9, "question.asked", "ann", &proposal));
        insta::assert_snapshot!(terminal.take_text().unwrap(), @r"

        1  ann asks about task 3 (q7)
           Which port?

        2  ben asks for permission
           Bash rm -r build

        3  ann proposes a task (q9)
           Test the port
           There is no test.

        Type: 1 YOUR ANSWER · 2 allow · 2 deny WHY · 3 accept · 3 WHY NOT · Enter to answer later
        ");
        assert_eq!(terminal.take_text(), None, "it was shown");
    }

    #[test]
    fn answer_names_its_question_where_there_are_several() {
        let mut terminal = asking();
        assert!(terminal.chosen("8080").is_err(), "it was not shown yet");
        terminal.take_text();
        assert_eq!(terminal.chosen("8080"), Ok((1, "8080")));
        assert_eq!(terminal.chosen("1 8080"), Ok((1, "8080")));
        assert_eq!(terminal.chosen("q7 the  first"), Ok((1, "the  first")));
        assert!(terminal.chosen("1").is_err());
        let wants = json!({ "what": "asked", "request": "r1", "text": "Bash ls" });
        terminal.follow(&event(8, "agent.event", "ben", &wants));
        assert!(terminal.chosen("2 allow").is_err(), "it was not shown yet");
        terminal.take_text();
        assert_eq!(terminal.chosen("2 allow"), Ok((2, "allow")));
        assert!(terminal.chosen("8080").is_err());
        assert!(terminal.chosen("7 x").is_err());
    }

    #[test]
    fn line_answers_nothing_that_came_after_what_was_shown() {
        let answered = json!({ "question": "q7", "answer": "8080" });
        let wants = json!({ "what": "asked", "request": "r1", "text": "Bash ls" });
        let mut terminal = asking();
        terminal.take_text();
        terminal.follow(&event(8, "agent.event", "ben", &wants));
        terminal.follow(&event(9, "question.answered", "user", &answered));
        for line in ["allow", "2 allow", "yes, go ahead"] {
            assert!(terminal.chosen(line).is_err(), "{line}");
        }
        // The last of several questions needs its number until it is shown alone.
        let mut terminal = asking();
        terminal.follow(&event(8, "agent.event", "ben", &wants));
        terminal.take_text();
        terminal.follow(&event(9, "question.answered", "user", &answered));
        assert!(terminal.chosen("allow").is_err());
        assert_eq!(terminal.chosen("2 allow"), Ok((2, "allow")));
    }

    #[test]
    fn request_with_the_name_of_an_earlier_one_is_another_one() {
        let mut terminal = TerminalQuestions::new(&"crew".parse().unwrap(), true);
        let wants = json!({ "what": "asked", "request": "r1", "text": "Bash ls" });
        terminal.follow(&event(7, "agent.event", "ben", &wants));
        terminal.take_text();
        terminal.follow(&event(8, "task.failed", "ben", &json!({})));
        terminal.follow(&event(9, "agent.event", "ben", &wants));
        assert!(terminal.chosen("1 allow").is_err());
        assert!(
            terminal
                .take_text()
                .is_some_and(|text| text.contains("\n2  ben asks"))
        );
    }

    #[test]
    fn what_the_leader_is_to_answer_is_not_asked_here_until_it_is_passed_on() {
        let mut terminal = TerminalQuestions::new(&"crew".parse().unwrap(), true);
        let asked = json!({ "kind": "ask", "text": "Which port?", "to": "leader" });
        assert_eq!(
            terminal.follow(&event(7, "question.asked", "ann", &asked)),
            None
        );
        assert_eq!(terminal.take_text(), None);
        let forwarded = json!({ "question": "q7", "to": "person", "reason": "no idea" });
        let news = terminal.follow(&event(8, "question.forwarded", "leader", &forwarded));
        assert!(news.is_some() && terminal.take_text().is_some());
    }

    #[test]
    fn what_was_answered_elsewhere_is_asked_no_more() {
        let mut terminal = asking();
        let answered = json!({ "question": "q7", "answer": "8080" });
        terminal.follow(&event(8, "question.answered", "user", &answered));
        assert_eq!(terminal.count(), 0);
        assert_eq!(terminal.take_text(), None);
    }

    #[test]
    fn run_without_a_terminal_asks_nobody() {
        let mut terminal = TerminalQuestions::new(&"crew".parse().unwrap(), false);
        let asked = json!({ "kind": "ask", "text": "Which port?", "to": "person" });
        assert!(
            terminal
                .follow(&event(7, "question.asked", "ann", &asked))
                .is_some()
        );
        assert_eq!(terminal.take_text(), None);
    }
}

//! Shows a run to a person or a program while it is running, and takes their input.

mod json;
mod live;
mod questions;
mod signals;
mod text;

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use teamster_journal::payload::{
    GateAnswer, PlanAnswer, PlanAnswered, PlanProposed, QuestionId, RunSpec,
};
use teamster_journal::{Event, EventKind, Question};
use teamster_run::observer::{GateReply, PersonReply, PlanShown, RunObserver};
use teamster_run::plan::{EDITED_FILE, edited_document, read_edited};
use teamster_types::TeamName;
use teamster_types::flow::DecisionChannel;

use crate::context::Context;
use crate::editor::PlanEditor;
use crate::input::{PromptInput, TerminalPrompt};
use crate::notify::{Notification, notify};
use crate::shown::{display_line, display_text};
use json::JsonObserver;
use live::LiveBars;
use questions::TerminalQuestions;
pub use signals::Signals;
use text::{PlainLines, TextObserver};

/// What the user can type at the gate.
const GATE_HELP: &str = "Type: approve · reject · reject rollback · revise WHAT TO CHANGE";
const GATE: &str = "decision> ";
/// What the user can type when a plan is proposed.
const PLAN_HELP: &str = "Type: accept · edit · revise WHAT TO CHANGE · reject [WHY]";
const PLAN: &str = "plan> ";
/// What the user can type when an edited plan has faults.
const FAULTY_HELP: &str = "Type: edit (to correct it) · back (to the plan as it was)";
const FAULTY: &str = "edited plan> ";
/// What the user can type when the leader asks.
const QUESTION_HELP: &str = "Type your answer, or `skip` to leave it to the leader";
const QUESTION: &str = "answer> ";
const ELSEWHERE: &str = "This was decided elsewhere.";

/// A plan that the user is asked about.
struct PlanDialog {
    proposed: PlanProposed,
    spec: RunSpec,
    /// The version from the user's editor, while it has faults.
    edited: Option<String>,
}

/// An edited plan that was sent as the answer, until it is known whether that answer counts.
struct SentPlan {
    revision: u32,
    answer: PlanAnswer,
    editor: PlanEditor,
}

/// The answers to a plan that a line can contain.
#[derive(Debug, PartialEq, Eq)]
enum PlanLine {
    Answer(PlanAnswer),
    Edit,
    Back,
}

/// The state that all observers at this terminal share.
pub struct RunTerminal<'a> {
    context: &'a Context,
    signals: Signals,
    has_terminal: bool,
    /// The open prompt.
    prompt: Option<TerminalPrompt>,
    /// The plan that the open prompt is about.
    plan: Option<PlanDialog>,
    /// The editor that owns the terminal. Nothing is drawn or asked meanwhile; the run continues.
    editing: Option<PlanEditor>,
    sent: Option<SentPlan>,
    /// The leader's question that the open prompt is about.
    question: Option<QuestionId>,
    answer: Option<GateReply>,
    stays: bool,
    team: &'a TeamName,
    questions: TerminalQuestions,
}

impl<'a> RunTerminal<'a> {
    /// Creates a terminal for this call, with a reply for the gate if the call brings one.
    pub fn of(context: &'a Context, team: &'a TeamName, answer: Option<GateReply>) -> Self {
        let has_terminal = context.can_ask();
        Self {
            context,
            signals: Signals::listen(),
            has_terminal,
            prompt: None,
            plan: None,
            editing: None,
            sent: None,
            question: None,
            stays: answer.is_none() || has_terminal,
            answer,
            team,
            questions: TerminalQuestions::new(team, has_terminal),
        }
    }

    /// Whether the user may be typing, so that nothing else may be drawn.
    fn is_asking(&self) -> bool {
        !self.is_free() || self.questions.is_asking()
    }

    /// Whether agents' questions may be shown: no prompt of the run itself and no editor is open.
    fn is_free(&self) -> bool {
        self.prompt.is_none() && self.editing.is_none()
    }

    /// Applies an event from before this host took over.
    fn follow_past(&mut self, event: &Event) {
        self.questions.follow(event);
    }

    /// Returns the agents' questions to show now; [`RunTerminal::ask_questions`] then asks them.
    fn questions_to_show(&mut self) -> Option<String> {
        let is_free = self.is_free();
        is_free.then(|| self.questions.take_text()).flatten()
    }

    fn ask_questions(&mut self) {
        self.questions.ask();
    }

    /// Handles typed answers to agents' questions. Returns a line with the result.
    fn take_answers(&mut self) -> Option<String> {
        let is_free = self.is_free();
        is_free
            .then(|| self.questions.take_input(self.context))
            .flatten()
    }

    /// Asks about the plan that has been shown.
    fn ask_about_plan(&mut self, plan: &PlanShown<'_>) {
        self.questions.close();
        self.question = None;
        self.plan = Some(PlanDialog {
            proposed: plan.proposed.clone(),
            spec: plan.spec.clone(),
            edited: None,
        });
        self.prompt = self
            .has_terminal
            .then(|| TerminalPrompt::new(PLAN_HELP, PLAN));
        let text = "a plan waits for your decision";
        notify(self.context, Notification::ApprovalNeeded, text);
    }

    /// Asks the question that has been shown.
    fn ask_question(&mut self, question: &Question) {
        self.questions.close();
        self.plan = None;
        self.question = Some(question.id);
        self.prompt = self
            .has_terminal
            .then(|| TerminalPrompt::new(QUESTION_HELP, QUESTION));
        let text = "the leader of a run asks you something";
        notify(self.context, Notification::AnswerNeeded, text);
    }

    /// Asks about the gate that has been shown, unless the call brought a reply.
    fn ask_about_gate(&mut self) {
        self.questions.close();
        (self.plan, self.question) = (None, None);
        let is_asked = self.has_terminal && self.answer.is_none();
        self.prompt = is_asked.then(|| TerminalPrompt::new(GATE_HELP, GATE));
    }

    /// Closes the prompt without an answer, and prints the reason on its own line. An open editor is ended, and its
    /// text is kept.
    fn close(&mut self, why: &str) {
        if let Some(prompt) = self.prompt.take() {
            prompt.close(why);
        }
        if let Some(editor) = self.editing.take() {
            self.keep(editor, why);
            self.signals.lend_terminal(false);
        }
    }

    fn keep(&self, editor: PlanEditor, why: &str) {
        let file = editor.keep();
        let kept = format!("{why} What you edited is kept in {}", file.display());
        self.context.out.remark(kept.trim());
    }

    /// Closes the question about a plan when this revision has been answered.
    fn plan_is_answered(&mut self, answered: &PlanAnswered) {
        if let Some(sent) = self.sent.take_if(|sent| sent.revision == answered.revision)
            && answered.answer().as_ref() != Some(&sent.answer)
        {
            self.keep(sent.editor, ELSEWHERE);
        }
        let asked = self.plan.as_ref().map(|dialog| dialog.proposed.revision);
        if asked == Some(answered.revision) {
            self.close(ELSEWHERE);
            self.plan = None;
        }
    }

    /// Closes all prompts without an answer.
    fn close_all(&mut self) {
        self.questions.close();
        self.close("");
    }

    /// Closes a prompt when its question is answered elsewhere.
    fn follow(&mut self, event: &Event) {
        if let Some(news) = self.questions.follow(event) {
            questions::tell(self.context, self.team, &news);
        }
        match event.payload() {
            EventKind::ApprovalGiven(_)
            | EventKind::ApprovalRefused(_)
            | EventKind::ApprovalRevised(_) => self.close(ELSEWHERE),
            EventKind::PlanAnswered(answered) => self.plan_is_answered(&answered),
            EventKind::QuestionAnswered(answered) if self.question == Some(answered.question) => {
                self.close("This was answered elsewhere.");
            }
            EventKind::ApprovalRequested(_)
            | EventKind::RunStage(_)
            | EventKind::RunFinished(_) => self.close("This question is closed."),
            _ => {}
        }
    }

    /// Notifies a person who is not watching that the gate is open, unless the call brought a reply.
    fn gate_is_open(&self) {
        if self.answer.is_none() {
            notify(
                self.context,
                Notification::ApprovalNeeded,
                "a run waits for your decision",
            );
        }
    }

    /// Returns the user's answer to the plan on the screen; `None` while there is no valid one.
    fn plan_answer(&mut self) -> Option<PlanAnswer> {
        if self.editing.is_some() {
            return self.edited_plan();
        }
        let dialog = self.plan.as_ref()?;
        let prompt = self.prompt.as_mut()?;
        let line = match prompt.poll(Duration::ZERO)? {
            PromptInput::Line(line) => line,
            PromptInput::Ended => {
                self.close(
                    "Nothing more can be typed here. The plan waits: `teamster plan show`, `accept`, `edit`, `revise` and \
                     `reject` answer it from another terminal, and so does Studio.",
                );
                return None;
            }
        };
        let is_faulty = dialog.edited.is_some();
        let has_leader = dialog.spec.leading_agent().is_some();
        match understand_plan(&line, is_faulty) {
            Some(PlanLine::Answer(PlanAnswer::Revise { .. })) if !has_leader => {
                prompt.again("No agent leads this run, so none can change the plan. Type `edit` to do it yourself.");
                None
            }
            Some(PlanLine::Answer(answer)) => {
                (self.prompt, self.plan) = (None, None);
                Some(answer)
            }
            Some(PlanLine::Edit) => {
                self.edit_plan();
                None
            }
            Some(PlanLine::Back) => {
                self.plan.as_mut()?.edited = None;
                self.prompt = Some(TerminalPrompt::new(PLAN_HELP, PLAN));
                None
            }
            None => {
                let help = if is_faulty { FAULTY_HELP } else { PLAN_HELP };
                prompt.again(&not_understood(&line, help));
                None
            }
        }
    }

    /// Opens the plan in the user's editor. The run continues meanwhile.
    fn edit_plan(&mut self) {
        // The editor owns the terminal now.
        self.prompt = None;
        let Some(dialog) = &self.plan else {
            return;
        };
        let before = match &dialog.edited {
            Some(edited) => Ok(edited.clone()),
            None => edited_document(&dialog.proposed, &dialog.spec),
        };
        self.signals.lend_terminal(true);
        match before.and_then(|before| PlanEditor::open(&before)) {
            Ok(editor) => self.editing = Some(editor),
            Err(why) => self.ask_about_plan_again(&format!("Nothing was changed: {why}")),
        }
    }

    /// Returns the edited plan once the editor is closed; asks again when there is no valid change.
    fn edited_plan(&mut self) -> Option<PlanAnswer> {
        let edited = self.editing.as_mut()?.poll()?;
        let editor = self.editing.take()?;
        let dialog = self.plan.as_mut()?;
        let remark = match edited {
            Ok(text) if text == editor.before() && dialog.edited.is_none() => {
                "Nothing was changed.".to_owned()
            }
            Ok(text) => match read_edited(Path::new(EDITED_FILE), &text, &dialog.spec) {
                Ok(plan) => {
                    let answer = PlanAnswer::Edit {
                        plan: Box::new(plan),
                    };
                    self.sent = Some(SentPlan {
                        revision: dialog.proposed.revision,
                        answer: answer.clone(),
                        editor,
                    });
                    self.plan = None;
                    self.signals.lend_terminal(false);
                    return Some(answer);
                }
                Err(faults) => {
                    dialog.edited = Some(text);
                    faults.to_string()
                }
            },
            Err(why) => format!("Nothing was changed: {why}"),
        };
        self.ask_about_plan_again(&remark);
        None
    }

    /// Asks about the plan again, or about its edited version, below a remark.
    fn ask_about_plan_again(&mut self, remark: &str) {
        self.signals.lend_terminal(false);
        self.context.out.remark(remark);
        let is_faulty = self.plan.as_ref().is_some_and(|it| it.edited.is_some());
        self.prompt = Some(if is_faulty {
            TerminalPrompt::new(FAULTY_HELP, FAULTY)
        } else {
            TerminalPrompt::new(PLAN_HELP, PLAN)
        });
    }

    /// Returns the user's answer to the leader's question; `None` while there is none.
    fn question_answer(&mut self) -> Option<PersonReply> {
        let question = self.question?;
        let prompt = self.prompt.as_mut()?;
        let line = match prompt.poll(Duration::ZERO)? {
            PromptInput::Line(line) => line,
            PromptInput::Ended => {
                self.close(&format!(
                    "Nothing more can be typed here. `teamster answer {question} \"…\"` answers from another terminal, \
                     and so does Studio."
                ));
                return None;
            }
        };
        let answer = match line.trim() {
            "" => {
                prompt.again("");
                return None;
            }
            "skip" => None,
            answer => Some(answer.to_owned()),
        };
        (self.prompt, self.question) = (None, None);
        Some(PersonReply { question, answer })
    }

    /// Returns the user's decision at the gate.
    fn answer(&mut self) -> Option<GateReply> {
        self.answer.take().or_else(|| self.typed())
    }

    fn typed(&mut self) -> Option<GateReply> {
        let prompt = self.prompt.as_mut()?;
        let line = match prompt.poll(Duration::ZERO)? {
            PromptInput::Line(line) => line,
            PromptInput::Ended => {
                self.close(
                    "Nothing more can be typed here. The gate stays open: `teamster approve`, `teamster reject` and \
                     `teamster revise` answer it from another terminal, and so does Studio.",
                );
                return None;
            }
        };
        let Some(answer) = understand(&line) else {
            prompt.again(&not_understood(&line, GATE_HELP));
            return None;
        };
        self.prompt = None;
        Some(GateReply {
            answer,
            via: DecisionChannel::Terminal,
            gate: None,
        })
    }
}

/// Parses a line as a decision at the gate; `None` if it is not a clear one.
fn understand(line: &str) -> Option<GateAnswer> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word.to_lowercase().as_str() {
        "approve" | "yes" if rest.is_empty() => Some(GateAnswer::Approve),
        "reject" => {
            let (rollback, text) = match rest.strip_prefix("rollback") {
                Some(text) => (true, text.trim()),
                None => (false, rest),
            };
            Some(GateAnswer::Reject {
                rollback,
                text: text.to_owned(),
            })
        }
        "revise" if !rest.is_empty() => Some(GateAnswer::Revise {
            text: rest.to_owned(),
        }),
        _ => None,
    }
}

fn not_understood(line: &str, help: &str) -> String {
    match line.trim() {
        "" => String::new(),
        line => format!("Not understood: {}\n{help}", display_line(line)),
    }
}

/// Parses a line as an answer to a plan; `None` if it is not a clear one. While an edited plan has faults, only
/// `edit` and `back` count.
fn understand_plan(line: &str, is_faulty: bool) -> Option<PlanLine> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim().to_owned();
    let word = word.to_lowercase();
    if is_faulty {
        return match (word.as_str(), rest.as_str()) {
            ("edit", "") => Some(PlanLine::Edit),
            ("back", "") => Some(PlanLine::Back),
            _ => None,
        };
    }
    Some(match (word.as_str(), rest.as_str()) {
        ("accept" | "yes" | "y", "") => PlanLine::Answer(PlanAnswer::Accept),
        ("no" | "n", "") | ("reject", _) => PlanLine::Answer(PlanAnswer::Reject { why: rest }),
        ("edit", "") => PlanLine::Edit,
        ("revise", words) if !words.is_empty() => {
            PlanLine::Answer(PlanAnswer::Revise { words: rest })
        }
        _ => return None,
    })
}

/// Formats the leader's question for a person.
fn question_text(question: &Question) -> String {
    format!(
        "{}: the leader asks before it plans:\n\n  {}\n",
        question.id,
        display_text(&question.text).trim().replace('\n', "\n  ")
    )
}

/// Returns the observer that suits this call.
pub fn make<'a>(context: &Context, terminal: RunTerminal<'a>) -> Box<dyn RunObserver + 'a> {
    let out = context.out;
    if out.is_json() {
        Box::new(JsonObserver::new(out, terminal))
    } else if out.is_screen() && std::io::stderr().is_terminal() {
        Box::new(TextObserver::new(terminal, LiveBars::new(out)))
    } else {
        Box::new(TextObserver::new(terminal, PlainLines { out }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_clear_is_an_answer() {
        assert_eq!(understand(" approve "), Some(GateAnswer::Approve));
        assert_eq!(understand("approve it all"), None);
        assert_eq!(understand("a"), None);
        assert_eq!(understand("y"), None);
        assert_eq!(understand("revise"), None);
        let revise = GateAnswer::Revise {
            text: "use one word".to_owned(),
        };
        assert_eq!(understand("Revise  use one word"), Some(revise));
        let reject = |rollback, text: &str| {
            Some(GateAnswer::Reject {
                rollback,
                text: text.to_owned(),
            })
        };
        assert_eq!(understand("reject"), reject(false, ""));
        assert_eq!(
            understand("reject rollback too slow"),
            reject(true, "too slow")
        );
        assert_eq!(understand("reject too slow"), reject(false, "too slow"));
    }

    #[test]
    fn only_what_is_clear_is_an_answer_to_a_plan() {
        let answer = |line: &str| match understand_plan(line, false) {
            Some(PlanLine::Answer(answer)) => Some(answer),
            _ => None,
        };
        let reject = |why: &str| {
            Some(PlanAnswer::Reject {
                why: why.to_owned(),
            })
        };
        for line in ["accept", "yes", " Y "] {
            assert_eq!(answer(line), Some(PlanAnswer::Accept), "{line}");
        }
        for line in [
            "",
            "a",
            "accept it",
            "maybe",
            "revise",
            "yes please",
            "no way",
        ] {
            assert_eq!(understand_plan(line, false), None, "{line}");
        }
        assert_eq!(answer("no"), reject(""));
        assert_eq!(answer("reject  too many"), reject("too many"));
        let revise = PlanAnswer::Revise {
            words: "one task only".to_owned(),
        };
        assert_eq!(answer("revise one task only"), Some(revise));
        assert_eq!(understand_plan("edit", false), Some(PlanLine::Edit));
        assert_eq!(understand_plan("back", false), None);
        assert_eq!(understand_plan("back", true), Some(PlanLine::Back));
        assert_eq!(understand_plan("edit", true), Some(PlanLine::Edit));
        assert_eq!(understand_plan("accept", true), None);
    }
}

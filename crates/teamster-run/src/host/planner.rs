//! Turns the specification of the run into tasks.
//!
//! ```text
//! file, sentence ───────────────────────┐
//! leader ─▶ proposal ─┬─ questions ─▶ person ─▶ leader ─▶ proposal
//!                     ├─ asked about ─▶ person ─┬─ accept ─▶ tasks
//!                     │                         ├─ revise ─▶ leader ─▶ proposal
//!                     │                         ├─ edit ─▶ proposal of the person
//!                     └─ not asked about ─▶ tasks └─ reject ─▶ end
//! ```
//!
//! Every proposal, question and answer is journalled before anything follows from it. So the next host of a run
//! continues with the last of them: it repeats no question to a person, and no turn of the leader.

use std::path::Path;

use teamster_fs::Dir;
use teamster_journal::payload::{
    self, Addressee, Check, PlanAnswer, PlanAnswered, PlanAuthor, PlanDraft, PlanFailed, PlanMade,
    PlanOrigin, PlanProposed, PlanSource, QuestionAnswered, QuestionAsked, QuestionExpired,
    QuestionId, QuestionKind, RunEnd, RunSpec,
};
use teamster_journal::{EventActor, EventKind, NewEvent, PlanProposal, Question};
use teamster_prompts::facts::AnswerFacts;
use teamster_store::PlannedTask;
use teamster_types::flow::{DecisionChannel, Stage};
use teamster_types::phrase::{Phrase, PhraseCode, Wording};
use teamster_types::task::Task;

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::leader_turn::{self, PlanBrief, TurnError};
use super::projector::Projector;
use super::verifier::Verifier;
use super::{HostCommand, Result};
use crate::cast::nobody_can;
use crate::leader::{LeaderError, LeaderProblem, PlanRevision};
use crate::plan::{Plan, check_for_run, proposal_text};

/// The answer that a leader gets to a question without an answer.
const NOT_ANSWERED: &str =
    "Nobody answered. Decide by yourself, and say in `assumptions` what you decided.";
/// The journalled channel of an answer that was given at the terminal of the run.
const TERMINAL: DecisionChannel = DecisionChannel::Terminal;

/// Plans the run: from a file, by a leader, or from the sentence alone.
#[derive(Default)]
pub(super) struct Planner {
    /// The proposal that was shown to the observer, by the position of its event.
    shown: Option<u64>,
    /// The question that was shown to the observer.
    shown_question: Option<QuestionId>,
}

/// The result of a step towards a plan.
enum PlanStep {
    /// This plan is carried out.
    CarryOut(Box<Plan>),
    /// There is no plan yet; these commands come first.
    Then(Vec<HostCommand>),
}

impl PlanStep {
    fn wait() -> Self {
        Self::Then(vec![HostCommand::Wait])
    }

    /// Continues with the next step, because the journal has changed.
    fn again() -> Self {
        Self::Then(Vec::new())
    }

    fn finish(end: RunEnd, why: impl Into<Wording>) -> Self {
        Self::Then(vec![HostCommand::finish(end, why)])
    }
}

impl Planner {
    /// Makes the plan and its tasks, after the checks were run on the base.
    pub(super) fn step(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        verifier: &mut Verifier,
        projector: &mut Projector,
    ) -> Result<Vec<HostCommand>> {
        if run.spec().collects {
            let reason = PhraseCode::FinishedIsMerged;
            return Ok(vec![HostCommand::enter(Stage::Execute, reason)]);
        }
        let is_begun = run.state().planning.last().is_some();
        if run.state().stage == Some(Stage::Plan) && run.spec().requirements && !is_begun {
            // The requirements are recorded in the findings; the host itself has nothing to ask.
            let next = HostCommand::enter(Stage::Requirements, PhraseCode::RequirementsWanted);
            return Ok(vec![next]);
        }
        if !verifier.check_base(run, guard, projector)? {
            return Ok(vec![HostCommand::Wait]);
        }
        let known = planned_tasks(run)?;
        if known.is_empty() {
            let plan = match self.plan(run, guard)? {
                PlanStep::CarryOut(plan) => *plan,
                PlanStep::Then(commands) => return Ok(commands),
            };
            run.set_waiting(false);
            if let Some(why) = nobody_can(run.spec(), &plan) {
                return Ok(vec![HostCommand::finish(
                    RunEnd::Failed,
                    Phrase::verbatim(&why),
                )]);
            }
            if run.add_checks(checks_of(&plan))? && !verifier.check_base(run, guard, projector)? {
                // The run stops. The next host finds the missing checks, and the plan in the journal or in its file.
                return Ok(vec![HostCommand::Wait]);
            }
            let mut plan = plan;
            plan.assign_roles(&run.spec().members);
            let made = run.import_tasks(&with_merge_note(guard, plan.tasks))?;
            record_plan(run, &made)?;
            if let Some(note) = unsplit_note(run.spec()) {
                run.say(&note);
            }
        } else if run.state().plan.is_none() {
            // A host was killed after it had created the tasks and before it could journal the plan.
            record_plan(run, &known)?;
        }
        Ok(vec![HostCommand::enter(
            Stage::Execute,
            PhraseCode::PlanIsMade,
        )])
    }

    /// Advances the plan by one step from its state in the journal.
    fn plan(&mut self, run: &mut RunContext<'_>, guard: &IntegrationGuard) -> Result<PlanStep> {
        let Some(last) = run.state().planning.last() else {
            return first_plan(run, guard);
        };
        if !last.proposed.plan.questions.is_empty() {
            let last = last.clone();
            return self.settle_questions(run, guard, &last);
        }
        let Some(reply) = &last.reply else {
            if last.is_open() && run.spec().approve_plan {
                return self.ask(run);
            }
            return Ok(carry_out(run.spec(), &last.proposed));
        };
        let (last, answer) = (last.clone(), reply.answer.clone());
        run.set_waiting(false);
        match answer {
            PlanAnswer::Accept => Ok(carry_out(run.spec(), &last.proposed)),
            PlanAnswer::Reject { why } => {
                let why = match why.as_str() {
                    "" => PhraseCode::PlanNotAccepted.into(),
                    why => Phrase::new(PhraseCode::PlanNotAcceptedBecause, [("words", &why)]),
                };
                Ok(PlanStep::finish(RunEnd::Cancelled, why))
            }
            PlanAnswer::Revise { words } => revise(run, guard, &last, words),
            PlanAnswer::Edit { plan } => edit(run, &last, &plan),
        }
    }

    /// Shows the plan to the observer, and waits for a decision, from there or from elsewhere.
    fn ask(&mut self, run: &mut RunContext<'_>) -> Result<PlanStep> {
        let Some(last) = run.state().planning.last() else {
            return Ok(PlanStep::wait());
        };
        let revision = last.proposed.revision;
        if self.shown != Some(last.seq) {
            self.shown = Some(last.seq);
            let (proposed, spec) = (last.proposed.clone(), run.spec().clone());
            let text = proposal_text(&proposed, &spec);
            run.observer().show_plan(&crate::observer::PlanShown {
                proposed: &proposed,
                text: &text,
                spec: &spec,
            });
        }
        if let Some(answer) = run.observer().plan_answer() {
            let answered = PlanAnswered::new(revision, TERMINAL, answer);
            let event = EventKind::PlanAnswered(answered);
            let seq = run.record_at(NewEvent::new(EventActor::Person, event))?;
            let first = run.state().planning.reply_to(revision);
            if first.is_none_or(|first| first.seq != seq) {
                run.say("your answer came too late: the plan was decided elsewhere");
            }
            return Ok(PlanStep::again());
        }
        // Reading the plan does not count as working time.
        run.set_waiting(true);
        Ok(PlanStep::wait())
    }

    /// Asks the person the leader's questions, and then the leader for another plan.
    fn settle_questions(
        &mut self,
        run: &mut RunContext<'_>,
        guard: &IntegrationGuard,
        last: &PlanProposal,
    ) -> Result<PlanStep> {
        let questions = &last.proposed.plan.questions;
        let can_ask = !run.spec().assume && run.can_ask_person();
        let asked = questions_since(run, last.seq);
        if can_ask && asked.len() < questions.len() {
            if run.state().stage == Some(Stage::Plan) {
                let reason = PhraseCode::LeaderAsksFirst;
                let next = HostCommand::enter(Stage::Requirements, reason);
                return Ok(PlanStep::Then(vec![next]));
            }
            // Questions that a killed host has asked are not asked again.
            for text in &questions[asked.len()..] {
                let asked = EventKind::QuestionAsked(QuestionAsked {
                    kind: QuestionKind::Plan,
                    text: text.clone(),
                    to: Addressee::Person,
                    proposal: None,
                });
                run.record(NewEvent::new(EventActor::Leader, asked))?;
            }
            return Ok(PlanStep::again());
        }
        if let Some(open) = asked.iter().find(|question| question.is_open()) {
            if !can_ask {
                leave_to_leader(run, open.id, PhraseCode::NobodyToAsk)?;
                return Ok(PlanStep::again());
            }
            return self.ask_question(run, open);
        }
        run.set_waiting(false);
        let unasked = questions.iter().skip(asked.len()).map(|text| AnswerFacts {
            question: text.clone(),
            from: "nobody".to_owned(),
            text: NOT_ANSWERED.to_owned(),
        });
        let mut brief = brief_to_revise(run, last, None);
        brief.answers.extend(unasked);
        match leader_turn::plan(run, guard, &brief) {
            Ok(led) => propose(run, PlanAuthor::Leader, &led.plan, led.left_out),
            Err(error) => end_without_plan(run, error),
        }
    }

    /// Shows a question to the observer, and waits for an answer, from there or from elsewhere.
    fn ask_question(&mut self, run: &mut RunContext<'_>, open: &Question) -> Result<PlanStep> {
        if self.shown_question != Some(open.id) {
            self.shown_question = Some(open.id);
            run.observer().show_question(open);
        }
        if let Some(reply) = run.observer().question_answer()
            && reply.question == open.id
        {
            match reply.answer {
                Some(answer) => {
                    let answered = EventKind::QuestionAnswered(QuestionAnswered {
                        question: open.id,
                        answer,
                    });
                    let event = NewEvent::new(EventActor::Person, answered);
                    if !run.record_answer(event)? {
                        run.say("your answer came too late: the question was answered elsewhere");
                    }
                }
                None => leave_to_leader(run, open.id, PhraseCode::LeftToLeader)?,
            }
            return Ok(PlanStep::again());
        }
        run.set_waiting(true);
        Ok(PlanStep::wait())
    }
}

/// Returns the questions that the leader has asked since an event, the oldest first.
fn questions_since(run: &RunContext<'_>, seq: u64) -> Vec<Question> {
    let questions = run.state().questions.all();
    let since =
        questions.filter(|question| question.kind == QuestionKind::Plan && question.id.seq() > seq);
    since.cloned().collect()
}

/// Returns the brief for a leader that revises its last plan: everything that a person has said about its questions and
/// plans so far, since each turn begins without memory. `words` is the comment on the last plan.
fn brief_to_revise(run: &RunContext<'_>, last: &PlanProposal, words: Option<String>) -> PlanBrief {
    let proposals = &run.state().planning.proposals;
    let first = proposals.first().map_or(0, |first| first.seq);
    let asked = questions_since(run, first);
    let settled = asked.iter().filter(|question| !question.is_open());
    let before = proposals.iter().filter(|proposal| proposal.seq < last.seq);
    let earlier = before.filter_map(|proposal| match &proposal.reply.as_ref()?.answer {
        PlanAnswer::Revise { words } => Some(words.clone()),
        _ => None,
    });
    PlanBrief {
        may_ask: false,
        answers: settled.map(answer_to).collect(),
        revision: Some(PlanRevision {
            before: last.proposed.plan.clone(),
            words,
            earlier: earlier.collect(),
        }),
    }
}

fn leave_to_leader(
    run: &mut RunContext<'_>,
    question: QuestionId,
    reason: PhraseCode,
) -> Result<()> {
    let (reason, reason_codes) = Wording::from(reason).into_parts();
    run.journal(EventKind::QuestionExpired(QuestionExpired {
        question,
        reason,
        reason_codes,
    }))
}

/// Returns a settled question with its answer, for the leader.
fn answer_to(question: &Question) -> AnswerFacts {
    let (from, text) = match &question.state {
        teamster_journal::QuestionStatus::Answered { answer, .. } => {
            ("the person", answer.as_str())
        }
        _ => ("nobody", NOT_ANSWERED),
    };
    AnswerFacts {
        question: question.text.clone(),
        from: from.to_owned(),
        text: text.to_owned(),
    }
}

/// Makes the first plan of the run. A plan that needs approval, or comes from a leader, is journalled as a proposal;
/// any other is carried out directly.
fn first_plan(run: &mut RunContext<'_>, guard: &IntegrationGuard) -> Result<PlanStep> {
    let spec = run.spec();
    let (author, made) = match spec.plan_source() {
        PlanSource::Leader(_) => {
            let brief = PlanBrief {
                may_ask: !spec.assume && run.can_ask_person(),
                ..PlanBrief::default()
            };
            return match leader_turn::plan(run, guard, &brief) {
                Ok(led) => propose(run, PlanAuthor::Leader, &led.plan, led.left_out),
                Err(error) => end_without_plan(run, error),
            };
        }
        PlanSource::File(file) => (PlanAuthor::File, read_plan(Path::new(file))),
        PlanSource::Given(by) => {
            let author = match by {
                PlanOrigin::Preset => PlanAuthor::Preset,
                PlanOrigin::Session => PlanAuthor::Session,
            };
            (author, given_plan(spec))
        }
        PlanSource::Sentence => (PlanAuthor::Sentence, Plan::unplanned(spec)),
    };
    match made {
        Err(why) => Ok(PlanStep::finish(RunEnd::Failed, Phrase::verbatim(&why))),
        // The questions in a plan file are for its readers.
        Ok(plan) if spec.approve_plan => {
            propose(run, author, &plan.without_questions(), Vec::new())
        }
        Ok(plan) => Ok(PlanStep::CarryOut(Box::new(plan))),
    }
}

/// Journals a plan as the next proposal.
fn propose(
    run: &mut RunContext<'_>,
    by: PlanAuthor,
    plan: &Plan,
    left_out: Vec<String>,
) -> Result<PlanStep> {
    let last = run.state().planning.last();
    let proposed = PlanProposed {
        revision: last.map_or(0, |last| last.proposed.revision) + 1,
        by,
        ask: run.spec().approve_plan,
        plan: plan.draft(),
        left_out,
        ..PlanProposed::default()
    };
    let actor = match by {
        PlanAuthor::Leader => EventActor::Leader,
        PlanAuthor::Person => EventActor::Person,
        PlanAuthor::File | PlanAuthor::Preset | PlanAuthor::Session | PlanAuthor::Sentence => {
            EventActor::Lead
        }
    };
    run.record(NewEvent::new(actor, EventKind::PlanProposed(proposed)))?;
    Ok(PlanStep::again())
}

/// Proposes the last plan once more, because the wanted change failed.
fn propose_again(
    run: &mut RunContext<'_>,
    last: &PlanProposal,
    problem: impl Into<Wording>,
) -> Result<PlanStep> {
    let (problem, problem_codes) = problem.into().into_parts();
    run.record(NewEvent::new(
        EventActor::Lead,
        EventKind::PlanProposed(PlanProposed {
            revision: last.proposed.revision + 1,
            problem: Some(problem),
            problem_codes,
            ..last.proposed.clone()
        }),
    ))?;
    Ok(PlanStep::again())
}

/// Lets the leader change its plan. If it cannot, the plan stays the same, and is proposed again.
fn revise(
    run: &mut RunContext<'_>,
    guard: &IntegrationGuard,
    last: &PlanProposal,
    words: String,
) -> Result<PlanStep> {
    if run.spec().leading_agent().is_none() {
        return propose_again(run, last, PhraseCode::NobodyChangesPlan);
    }
    let brief = brief_to_revise(run, last, Some(words));
    match leader_turn::plan(run, guard, &brief) {
        Ok(led) => propose(run, PlanAuthor::Leader, &led.plan, led.left_out),
        Err(TurnError::Host(error)) => Err(error),
        Err(_) if run.must_stop() => Ok(PlanStep::wait()),
        Err(error) => {
            let problem = Wording::from(PhraseCode::LeaderMadeNoOtherPlan).and(": ", cause(&error));
            record_failure(run, &error)?;
            propose_again(run, last, problem)
        }
    }
}

/// Proposes the plan that a person edited, who decides about it in turn. It was checked when it was submitted, but the
/// team may have changed since.
fn edit(run: &mut RunContext<'_>, last: &PlanProposal, draft: &PlanDraft) -> Result<PlanStep> {
    let checked = Plan::from_draft(draft).and_then(|plan| check_for_run(plan, run.spec()));
    match checked {
        Ok(plan) => propose(
            run,
            PlanAuthor::Person,
            &plan.without_questions(),
            Vec::new(),
        ),
        Err(faults) => {
            let problem = Phrase::new(PhraseCode::EditedPlanUnusable, [("faults", &faults)]);
            propose_again(run, last, problem)
        }
    }
}

/// Carries out a plan that was journalled.
fn carry_out(spec: &RunSpec, proposed: &PlanProposed) -> PlanStep {
    let plan = match proposed.by {
        // A stored plan does not say that one of several results is chosen.
        PlanAuthor::Sentence => Plan::unplanned(spec),
        _ => Plan::from_draft(&proposed.plan).map_err(|faults| faults.to_string()),
    };
    match plan {
        Ok(plan) => PlanStep::CarryOut(Box::new(plan)),
        Err(why) => PlanStep::finish(RunEnd::Failed, Phrase::verbatim(&why)),
    }
}

/// Ends a run whose leader made no plan, and keeps its answers.
fn end_without_plan(run: &mut RunContext<'_>, error: TurnError) -> Result<PlanStep> {
    if let TurnError::Host(error) = error {
        return Err(error);
    }
    if run.must_stop() {
        return Ok(PlanStep::wait());
    }
    record_failure(run, &error)?;
    let is_unusable = matches!(
        &error,
        TurnError::Leader(LeaderError {
            problem: LeaderProblem::Unusable { .. },
            ..
        })
    );
    let end = if is_unusable {
        RunEnd::Unplanned
    } else {
        RunEnd::Failed
    };
    let why = Wording::new(error.to_string(), vec![cause(&error).key().clone()]);
    Ok(PlanStep::finish(end, why))
}

fn record_failure(run: &mut RunContext<'_>, error: &TurnError) -> Result<()> {
    let answers = match error {
        TurnError::Leader(error) => error.answers.clone(),
        _ => Vec::new(),
    };
    run.journal(EventKind::PlanFailed(PlanFailed {
        leader: run.spec().leader.clone(),
        reason: cause(error).to_string(),
        answers,
    }))
}

fn cause(error: &TurnError) -> Phrase {
    match error {
        TurnError::Leader(error) => error.cause(),
        other => Phrase::verbatim(&other.to_string()),
    }
}

/// Returns the plan that is part of the specification.
fn given_plan(spec: &RunSpec) -> std::result::Result<Plan, String> {
    let given = spec.given.as_ref().map(|given| &given.plan);
    let draft = given.ok_or_else(|| "the run has no plan".to_owned())?;
    Plan::from_draft(draft).map_err(|faults| faults.to_string())
}

/// Returns a note that a sentence is one task although there are several workers, and how to get more tasks.
fn unsplit_note(spec: &RunSpec) -> Option<String> {
    let workers = spec.working_members().len();
    let is_sentence = spec.plan_source() == PlanSource::Sentence;
    let is_one = is_sentence && spec.distribution.is_one() && workers > 1;
    is_one.then(|| {
        format!(
            "one task for {workers} workers, because there is no leader and no plan: `--leader AGENT` has it split, `--plan FILE` takes \
             your plan, `--each` gives it to every worker, `--best-of` takes the best of their results"
        )
    })
}

/// Returns the checks of the plan itself and of its tasks: they are run on the base and at the end. Those in
/// `must_pass` are targets.
fn checks_of(plan: &Plan) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for command in &plan.verify {
        checks.push(Check::new(command, "the plan"));
    }
    for (label, planned) in plan.labels.iter().zip(&plan.tasks) {
        for command in &planned.task.verify {
            checks.push(Check::new(command, format!("task {label} of the plan")));
        }
    }
    for command in &plan.must_pass {
        checks.push(Check::new(command, "the plan").as_target());
    }
    checks
}

/// Returns the tasks with the note that their work has to be merged, where there is an integration branch.
pub(super) fn with_merge_note(
    guard: &IntegrationGuard,
    mut tasks: Vec<PlannedTask>,
) -> Vec<PlannedTask> {
    if guard.is_active() {
        for planned in &mut tasks {
            planned.task.notes.is_to_be_merged = !planned.task.notes.is_candidate;
        }
    }
    tasks
}

fn record_plan(run: &mut RunContext<'_>, tasks: &[Task]) -> Result<()> {
    let tasks = tasks.iter().map(|task| payload::PlannedTaskEntry {
        id: Some(task.id().clone()),
        label: task.label().unwrap_or_default().to_owned(),
        subject: task.subject().to_owned(),
        owner: task.owner().map(str::to_owned),
        blocked_by: task.blocked_by().iter().map(ToString::to_string).collect(),
    });
    run.journal(EventKind::RunPlan(PlanMade {
        source: run.spec().plan_source().word().to_owned(),
        path: run.spec().plan.clone(),
        tasks: tasks.collect(),
    }))
}

/// Returns the tasks that were made from the plan. Tasks that a person adds meanwhile do not replace the plan.
fn planned_tasks(run: &RunContext<'_>) -> Result<Vec<Task>> {
    let added = &run.state().added;
    let tasks = run.tasks()?;
    let made = tasks.iter().filter(|task| !added.contains(task.id()));
    Ok(made.cloned().collect())
}

/// Reads the plan file. Links are followed, because the user named the file.
fn read_plan(file: &Path) -> std::result::Result<Plan, String> {
    let missing = || format!("the plan {} no longer exists", file.display());
    let real = file.canonicalize().map_err(|_| missing())?;
    let (Some(folder), Some(name)) = (
        real.parent(),
        real.file_name().and_then(|name| name.to_str()),
    ) else {
        return Err(missing());
    };
    let found = Dir::open_root(folder)
        .and_then(|dir| match dir {
            Some(dir) => dir.read(name),
            None => Ok(None),
        })
        .map_err(|error| error.to_string())?;
    let (bytes, _) = found.ok_or_else(missing)?;
    Plan::parse(file, &bytes).map_err(|faults| faults.to_string())
}

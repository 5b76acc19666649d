//! Renders what a person reads: the gate, and the report.

use teamster_isolate::git::{self, CommitId, Count, WorktreeKind, WorktreeState};
use teamster_journal::Event;
use teamster_journal::Gate;
use teamster_journal::payload::{FileChange, MOST_FILES, Outside, Shown, WorkerWords};
use teamster_party::Party;
use teamster_store::Filed;
use teamster_types::task::Task;
use teamster_types::text::{clip, one_line};

use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::repository_audit;
use super::task_progress::needs_review;
use crate::report::{LeftBehind, ReportInput, gate_text, input_from, keep, page};

/// Events that are read at once.
const PAGE: usize = 1_000;
/// The most messages that nobody took which are named.
const MOST_UNTAKEN: usize = 20;
/// The longest words of a message, in characters.
const LONGEST_WORDS: usize = 200;

/// Returns what a person reads at the gate.
pub(super) fn gate_page(run: &RunContext<'_>, gate: &Gate) -> String {
    let mut input = report_input(run);
    input.diff_stat = diff_stat(run, &gate.commit);
    gate_text(&input)
}

/// Returns what the workers say about their tasks.
pub(super) fn said(run: &RunContext<'_>) -> Vec<WorkerWords> {
    report_input(run).said()
}

/// Returns everything that a decision about a commit rests on, as it stands now.
pub(super) fn to_show(run: &RunContext<'_>, commit: &str) -> Shown {
    let mut input = report_input(run);
    input.asked_about = Some(commit.to_owned());
    let mut shown = input.to_show();
    shown.outside = run
        .tasks()
        .unwrap_or_default()
        .iter()
        .filter(|task| needs_review(task))
        .map(|task| Outside {
            task_id: task.id().clone(),
            files: files_outside(task),
        })
        .collect();
    let base = run.spec().base.as_ref();
    if let (Some(repo), Some(base), Ok(commit)) = (run.repo(), base, commit.parse::<CommitId>()) {
        if let Ok(from) = base.commit.parse() {
            let files = repo.counted(&from, &commit).unwrap_or_default();
            shown.file_count = files.len() as u64;
            shown.files = files.into_iter().take(MOST_FILES).map(change).collect();
        }
        if let Some(branch) = &base.branch {
            let in_the_way = repo.in_the_way(branch, &commit);
            shown.in_the_way = in_the_way.unwrap_or_default();
            shown.in_the_way.truncate(MOST_FILES);
        }
    }
    shown.references = repository_audit::changed_refs(run, None);
    shown
}

/// Writes the report, and keeps the journal beside it. The run has ended, whether that works or not.
pub(super) fn write_report(run: &mut RunContext<'_>, guard: &IntegrationGuard) {
    let commit = match &run.state().gate {
        Some(gate) => gate.commit.clone(),
        None => guard.present_head().unwrap_or_default(),
    };
    let mut input = report_input(run);
    input.diff_stat = diff_stat(run, &commit);
    input.references = repository_audit::changed_refs(run, Some(&commit));
    input.left.extend(left_behind(run));
    if let Err(error) = keep(run.env().project, run.team(), &page(&input)) {
        run.say(&format!("the report was not written: {error}"));
    }
    if let Err(error) = run.store().keep_journal(run.team()) {
        run.say(&format!("the journal was not kept beside it: {error}"));
    }
}

fn report_input(run: &RunContext<'_>) -> ReportInput {
    let events = all_events(run);
    let tasks = run.tasks().unwrap_or_default();
    let mut input = input_from(run.team(), &events, &tasks);
    input.untaken = untaken(run);
    // The session of the project may be another team's, and so are its findings then.
    if let Ok(Some(party)) = Party::find(run.env().project)
        && let Ok(Some(session)) = party.session()
        && session.team == run.team().as_str()
        && let Ok(findings) = party.finding_texts()
    {
        input.findings = findings;
    }
    input
        .findings
        .extend(repository_audit::replacement_finding(run));
    input
        .findings
        .extend(repository_audit::changed_rules_finding(run));
    input
}

/// Returns the messages to workers that no client took, each as a sentence.
fn untaken(run: &RunContext<'_>) -> Vec<String> {
    let messages = run.store().messages(run.team()).unwrap_or_default();
    let is_untaken = |filed: &&Filed| {
        let to_worker = filed.mailbox.starts_with("inbox/") && filed.message.to() != "lead";
        to_worker && filed.delivered_at.is_none() && filed.message.kind() == "message"
    };
    let untaken = messages.iter().filter(is_untaken).take(MOST_UNTAKEN);
    untaken
        .map(|filed| {
            let (message, words) = (&filed.message, one_line(filed.message.content()));
            let words = clip(&words, LONGEST_WORDS);
            format!("{} to {}: {words}", message.from(), message.to())
        })
        .collect()
}

fn all_events(run: &RunContext<'_>) -> Vec<Event> {
    let mut all: Vec<Event> = Vec::new();
    loop {
        let from = all.last().map_or(1, |event| event.seq + 1);
        let Ok(page) = run.store().events(run.team(), from, PAGE) else {
            return all;
        };
        let count = page.events.len();
        all.extend(page.events);
        if count < PAGE {
            return all;
        }
    }
}

fn diff_stat(run: &RunContext<'_>, commit: &str) -> String {
    let base = run.spec().base.as_ref().map(|base| base.commit.parse());
    let (Some(repo), Some(Ok(base)), Ok(commit)) = (run.repo(), base, commit.parse::<CommitId>())
    else {
        return String::new();
    };
    repo.diff_stat(&base, &commit).unwrap_or_default()
}

/// Returns the worktrees and branches that are still there, and why.
fn left_behind(run: &RunContext<'_>) -> Vec<LeftBehind> {
    let Some(repo) = run.repo() else {
        return Vec::new();
    };
    let base = run.spec().base.as_ref().map(|base| base.commit.as_str());
    let mut left = Vec::new();
    for listed in git::list(repo, run.team()).unwrap_or_default() {
        let why = listed
            .holds()
            .unwrap_or_else(|| "nothing was removed".to_owned());
        let is_there = !matches!(listed.state, WorktreeState::Gone);
        if is_there && listed.kind != WorktreeKind::Foreign {
            let path = listed.path.display().to_string();
            left.push(LeftBehind::worktree(
                run.team().as_str(),
                &listed.name,
                &path,
                &why,
            ));
        }
        if let Some(branch) = &listed.branch {
            left.push(LeftBehind::branch(branch, base, &why));
        }
    }
    if let Ok(Some((name, _))) = repo.rejected(run.team()) {
        left.push(LeftBehind::reference(&name, "a person did not want it"));
    }
    left
}

fn change(count: Count) -> FileChange {
    FileChange {
        path: count.path,
        added: count.added,
        removed: count.removed,
    }
}

/// Returns the files of a task that it had not reserved.
fn files_outside(task: &Task) -> Vec<String> {
    let mut files = task.result().unwrap_or_default().outside_reservation;
    files.truncate(MOST_FILES);
    files
}

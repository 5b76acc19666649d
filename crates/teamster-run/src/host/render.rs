//! Renders the texts for a person: the gate, and the report.

use teamster_isolate::OrTrace as _;
use teamster_isolate::git::{self, CommitId, FileLineCounts, Repo, WorktreeKind, WorktreeState};
use teamster_journal::Event;
use teamster_journal::Gate;
use teamster_journal::payload::{FileChange, MOST_FILES, Outside, Shown, WorkerWords};
use teamster_party::{Party, PartyError};
use teamster_store::StoredMessage;
use teamster_types::message::UNDELIVERED;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::task::Task;
use teamster_types::text::{clip, one_line};
use tracing::debug;

use super::Result;
use super::context::RunContext;
use super::integration_guard::IntegrationGuard;
use super::repository_audit;
use super::task_progress::{needs_review, open, waits_for_merge};
use crate::report::{LeftBehind, ReportInput, gate_text, input_from, keep, page};

/// The number of events that are read at once.
const PAGE: usize = 1_000;
/// The number of undelivered messages that are listed.
const MOST_UNTAKEN: usize = 20;
/// The longest quotation of a message, in characters.
const LONGEST_WORDS: usize = 200;

/// Returns the text of the gate. What cannot be read is an error: nobody may decide about less than what would land.
pub(super) fn gate_page(run: &RunContext<'_>, gate: &Gate) -> Result<String> {
    let mut input = report_input(run)?;
    input.untaken = undelivered_messages(run)?;
    add_changes(run, &gate.commit, &mut input)?;
    Ok(gate_text(&input))
}

/// Returns the workers' own words about their tasks.
pub(super) fn worker_summaries(run: &RunContext<'_>) -> Result<Vec<WorkerWords>> {
    Ok(report_input(run)?.said())
}

/// Returns the content of the gate for a commit, as of now. What cannot be read is an error, as for the text.
pub(super) fn gate_content(run: &RunContext<'_>, commit: &str) -> Result<Shown> {
    let mut input = report_input(run)?;
    input.untaken = undelivered_messages(run)?;
    input.asked_about = Some(commit.to_owned());
    let mut shown = input.gate_content();
    shown.outside = run
        .tasks()?
        .iter()
        .filter(|task| needs_review(task))
        .map(|task| Outside {
            task_id: task.id().clone(),
            files: files_outside(task),
        })
        .collect();
    if let Some(ChangedRange { repo, from, to }) = changed_range(run, commit)? {
        let files = repo.line_counts(&from, &to)?;
        shown.file_count = files.len() as u64;
        shown.files = files.into_iter().take(MOST_FILES).map(change).collect();
    }
    let base = run.spec().base.as_ref();
    if let (Some(repo), Some(base), Ok(commit)) = (run.repo(), base, commit.parse::<CommitId>())
        && let Some(branch) = &base.branch
    {
        // This is a warning in advance about the user's own work tree. Landing checks it anyway.
        let in_the_way = repo.in_the_way(branch, &commit);
        let in_the_way = in_the_way.ok_or_trace("list uncommitted files in the way");
        shown.in_the_way = in_the_way.unwrap_or_default();
        shown.in_the_way.truncate(MOST_FILES);
    }
    let references = repository_audit::changed_refs(run, None);
    shown.references = Phrase::texts(&references);
    shown.reference_codes = Phrase::keys(&references).into();
    Ok(shown)
}

/// Returns the commit with the merged work of the run so far, or `None` when nothing is merged.
pub(super) fn commit_with_work(run: &RunContext<'_>, guard: &IntegrationGuard) -> Option<String> {
    if let Some(gate) = &run.state().gate {
        return Some(gate.commit.clone());
    }
    // A process that ends a run without hosting it uses the commit that the last host recorded.
    let noted = || run.state().head.clone().filter(|_| run.repo().is_some());
    guard.present_head().or_else(noted)
}

/// Writes the report, and keeps the journal beside it. The run has ended, whether that succeeds or not.
pub(super) fn write_report(run: &mut RunContext<'_>, guard: &IntegrationGuard) {
    let text = report_text(run, guard);
    // This comes first, because it sets aside the files of an earlier team of the same name.
    if let Err(error) = run.store().keep_journal(run.team()) {
        run.say(&format!(
            "the journal was not kept beside the report: {error}"
        ));
    }
    let kept = text.and_then(|text| Ok(keep(run.env().project, run.team(), &text)?));
    if let Err(error) = kept {
        run.say(&format!("the report was not written: {error}"));
    }
}

fn report_text(run: &RunContext<'_>, guard: &IntegrationGuard) -> Result<String> {
    let commit = commit_with_work(run, guard).unwrap_or_default();
    let mut input = report_input(run)?;
    // The end of the run is reported even if its messages or its repository cannot be read any more.
    let untaken = undelivered_messages(run).ok_or_trace("read the messages of the team");
    input.untaken = untaken.unwrap_or_default();
    add_changes(run, &commit, &mut input).unwrap_or_else(|error| {
        debug!("cannot read the changes of the run: {error}");
        input.is_diff_unknown = true;
    });
    input.references = Phrase::texts(&repository_audit::changed_refs(run, Some(&commit)));
    input.left.extend(left_behind(run));
    Ok(page(&input))
}

fn report_input(run: &RunContext<'_>) -> Result<ReportInput> {
    let events = all_events(run)?;
    let mut input = input_from(run.team(), &events, &run.tasks()?);
    input.findings = session_findings(run).unwrap_or_else(|error| {
        let what = "findings that cannot be read".to_owned();
        vec![(what, error.to_string())]
    });
    input
        .findings
        .extend(repository_audit::replacement_finding(run));
    input
        .findings
        .extend(repository_audit::changed_rules_finding(run));
    Ok(input)
}

/// Returns the findings of the session in the project; none if the session belongs to another team.
fn session_findings(run: &RunContext<'_>) -> Result<Vec<(String, String)>, PartyError> {
    let Some(party) = Party::find_for(run.env().project, run.team())? else {
        return Ok(Vec::new());
    };
    match party.session()? {
        Some(session) if session.team == run.team().as_str() => party.finding_texts(),
        _ => Ok(Vec::new()),
    }
}

/// Returns the messages to workers that were never delivered, each as a sentence.
fn undelivered_messages(run: &RunContext<'_>) -> Result<Vec<Phrase>> {
    let messages = run.store().messages(run.team())?;
    let is_untaken = |filed: &&StoredMessage| {
        let message = &filed.message;
        let to_worker = filed.mailbox.starts_with("inbox/") && message.to() != "lead";
        // A notification that another message was not delivered is not a message of a member.
        let is_own = message.kind() == "message" && !message.as_object().contains_key(UNDELIVERED);
        to_worker && filed.delivered_at.is_none() && is_own
    };
    let untaken: Vec<&StoredMessage> = messages.iter().filter(is_untaken).collect();
    let mut sentences: Vec<Phrase> = untaken
        .iter()
        .take(MOST_UNTAKEN)
        .map(|filed| {
            let (message, words) = (&filed.message, one_line(filed.message.content()));
            let words = clip(&words, LONGEST_WORDS);
            let (from, to) = (message.from(), message.to());
            let told: [(&str, &dyn std::fmt::Display); 3] =
                [("from", &from), ("to", &to), ("words", &words)];
            Phrase::new(PhraseCode::MessageUntaken, told)
        })
        .collect();
    if untaken.len() > MOST_UNTAKEN {
        let more = untaken.len() - MOST_UNTAKEN;
        sentences.push(Phrase::new(
            PhraseCode::MoreMessagesUntaken,
            [("count", &more)],
        ));
    }
    Ok(sentences)
}

fn all_events(run: &RunContext<'_>) -> Result<Vec<Event>> {
    let mut all: Vec<Event> = Vec::new();
    loop {
        let from = all.last().map_or(1, |event| event.seq + 1);
        let page = run.store().events(run.team(), from, PAGE)?;
        let count = page.events.len();
        all.extend(page.events);
        if count < PAGE {
            return Ok(all);
        }
    }
}

/// Two states of the files to compare, and the repository that has both.
struct ChangedRange<'a> {
    repo: &'a Repo,
    from: CommitId,
    to: CommitId,
}

/// Returns the range of the changes: from the base to a commit, or, where all workers share the project's folder, from
/// the recorded files to the present ones. `None` when it was not recorded, or there is no repository.
fn changed_range<'a>(run: &RunContext<'a>, commit: &str) -> Result<Option<ChangedRange<'a>>> {
    let parsed = |commit: &str| commit.parse::<CommitId>().ok();
    if let Some(repo) = run.env().project_repo {
        let Some(from) = run.state().files.as_deref().and_then(parsed) else {
            return Ok(None);
        };
        let to = repo.files_now(run.team())?;
        return Ok(Some(ChangedRange { repo, from, to }));
    }
    let base = run.spec().base.as_ref();
    let from = base.and_then(|base| parsed(&base.commit));
    Ok(match (run.repo(), from, parsed(commit)) {
        (Some(repo), Some(from), Some(to)) => Some(ChangedRange { repo, from, to }),
        _ => None,
    })
}

/// Adds the changes to the input of a report.
fn add_changes(run: &RunContext<'_>, commit: &str, input: &mut ReportInput) -> Result<()> {
    match changed_range(run, commit)? {
        Some(ChangedRange { repo, from, to }) => input.diff_stat = repo.diff_stat(&from, &to)?,
        None => input.is_diff_unknown = run.spec().in_place,
    }
    Ok(())
}

/// Returns what is left of a run that cannot continue, one sentence each: open tasks, and where unmerged work is kept.
pub(super) fn unfinished_work(run: &RunContext<'_>) -> Vec<String> {
    // A host that cannot continue may not be able to read everything.
    let tasks = run
        .tasks()
        .ok_or_trace("read the tasks")
        .unwrap_or_default();
    let (to_merge, to_do): (Vec<&Task>, Vec<&Task>) = open(&tasks)
        .into_iter()
        .partition(|task| waits_for_merge(task));
    let to_merge = outside_of_integration(run, to_merge);
    let mut left = Vec::new();
    for (what, open) in [("to do", to_do), ("to merge", to_merge)] {
        if !open.is_empty() {
            let names: Vec<&str> = open.iter().map(|task| task.id().as_str()).collect();
            left.push(format!(
                "left {what}: task {} ({} of {})",
                names.join(", "),
                open.len(),
                tasks.len()
            ));
        }
    }
    let kept = left_behind(run).into_iter();
    left.extend(kept.map(|kept| format!("left: {} {}: {}", kept.what, kept.name, kept.why)));
    left
}

/// Returns those of the tasks whose commits are not in the integration branch: a host that was killed between a merge
/// and its record has left nothing to merge.
fn outside_of_integration<'t>(run: &RunContext<'_>, tasks: Vec<&'t Task>) -> Vec<&'t Task> {
    let Some(repo) = run.repo() else {
        return tasks;
    };
    let branch = format!("refs/heads/{}", git::integration_branch(run.team()));
    let head = repo
        .resolve(&branch)
        .ok_or_trace("find the integration branch");
    let Some(head) = head.flatten() else {
        return tasks;
    };
    let is_outside = |task: &&Task| {
        let commit: Option<CommitId> = task.commit().and_then(|id| id.parse().ok());
        !commit.is_some_and(|id| repo.is_ancestor(&id, &head).unwrap_or(false))
    };
    tasks.into_iter().filter(is_outside).collect()
}

/// Returns the remaining worktrees and branches, and why they remain.
fn left_behind(run: &RunContext<'_>) -> Vec<LeftBehind> {
    let Some(repo) = run.repo() else {
        return Vec::new();
    };
    let base = run.spec().base.as_ref().map(|base| base.commit.as_str());
    let mut left = Vec::new();
    let listed = git::list(repo, run.team()).ok_or_trace("list the worktrees");
    for listed in listed.unwrap_or_default() {
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
        left.push(LeftBehind::reference(&name, "a person rejected it"));
    }
    left
}

fn change(count: FileLineCounts) -> FileChange {
    FileChange {
        path: count.path,
        added: count.added,
        removed: count.removed,
    }
}

/// Returns the files that a task changed without a reservation.
fn files_outside(task: &Task) -> Vec<String> {
    let mut files = task.result().unwrap_or_default().outside_reservation;
    files.truncate(MOST_FILES);
    files
}

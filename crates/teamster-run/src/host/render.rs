//! What a person reads: the gate, and the report.

use serde_json::Value;
use teamster_isolate::git::{self, CommitId, Count, WorktreeKind, WorktreeState};
use teamster_journal::Event;
use teamster_journal::Gate;
use teamster_journal::payload::{FileChange, MOST_FILES, Outside, Shown};
use teamster_party::Party;
use teamster_types::task::Task;

use super::Host;
use super::task_progress::needs_review;
use crate::report::{Left, ReportInput, gate_text, input_from, keep, page};

/// Events that are read at once.
const PAGE: usize = 1_000;

impl Host<'_> {
    pub(super) fn gate_text(&self, gate: &Gate) -> String {
        let mut input = self.report_input();
        input.diff_stat = self.diff_stat(&gate.commit);
        gate_text(&input)
    }

    /// Everything that a decision about a commit rests on, as it stands now.
    pub(super) fn to_show(&self, commit: &str) -> Shown {
        let mut input = self.report_input();
        input.asked_about = Some(commit.to_owned());
        let mut shown = input.to_show();
        shown.outside = self
            .run
            .tasks()
            .unwrap_or_default()
            .iter()
            .filter(|task| needs_review(task))
            .map(|task| Outside {
                task_id: task.id().clone(),
                files: files_outside(task),
            })
            .collect();
        let base = self.run.spec().base.as_ref();
        if let (Some(repo), Some(base), Ok(commit)) =
            (self.run.repo(), base, commit.parse::<CommitId>())
        {
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
        shown.references = self.changed_refs(None);
        shown
    }

    /// Writes the report, and keeps the journal beside it. The run has ended, whether that works or not.
    pub(super) fn write_down(&mut self) {
        let commit = match (&self.run.state().gate, &self.integration) {
            (Some(gate), _) => gate.commit.clone(),
            (None, Some(integration)) => match integration.head() {
                Ok(head) => head.to_string(),
                Err(_) => String::new(),
            },
            (None, None) => String::new(),
        };
        let mut input = self.report_input();
        input.diff_stat = self.diff_stat(&commit);
        input.references = self.changed_refs(Some(&commit));
        input.left.extend(self.left_behind());
        if let Err(error) = keep(self.run.env().project, self.run.team(), &page(&input)) {
            self.run
                .say(&format!("the report was not written: {error}"));
        }
        if let Err(error) = self.run.store().keep_journal(self.run.team()) {
            self.run
                .say(&format!("the journal was not kept beside it: {error}"));
        }
    }

    fn report_input(&self) -> ReportInput {
        let events = self.all_events();
        let tasks = self.run.tasks().unwrap_or_default();
        let mut input = input_from(self.run.team(), &events, &tasks);
        // The session of the project may be another team's, and so are its findings then.
        if let Ok(Some(party)) = Party::find(self.run.env().project)
            && let Ok(Some(session)) = party.session()
            && session.team == self.run.team().as_str()
            && let Ok(findings) = party.finding_texts()
        {
            input.findings = findings;
        }
        input.findings.extend(self.replacement_finding());
        input.findings.extend(self.changed_rules_finding());
        input
    }

    fn all_events(&self) -> Vec<Event> {
        let mut all: Vec<Event> = Vec::new();
        loop {
            let from = all.last().map_or(1, |event| event.seq + 1);
            let Ok(page) = self.run.store().events(self.run.team(), from, PAGE) else {
                return all;
            };
            let count = page.events.len();
            all.extend(page.events);
            if count < PAGE {
                return all;
            }
        }
    }

    fn diff_stat(&self, commit: &str) -> String {
        let base = self
            .run
            .spec()
            .base
            .as_ref()
            .map(|base| base.commit.parse());
        let (Some(repo), Some(Ok(base)), Ok(commit)) =
            (self.run.repo(), base, commit.parse::<CommitId>())
        else {
            return String::new();
        };
        repo.diff_stat(&base, &commit).unwrap_or_default()
    }

    /// Worktrees and branches that are still there, and why.
    fn left_behind(&self) -> Vec<Left> {
        let Some(repo) = self.run.repo() else {
            return Vec::new();
        };
        let base = self
            .run
            .spec()
            .base
            .as_ref()
            .map(|base| base.commit.as_str());
        let mut left = Vec::new();
        for listed in git::list(repo, self.run.team()).unwrap_or_default() {
            let why = listed
                .holds()
                .unwrap_or_else(|| "nothing was removed".to_owned());
            let is_there = !matches!(listed.state, WorktreeState::Gone);
            if is_there && listed.kind != WorktreeKind::Foreign {
                let path = listed.path.display().to_string();
                left.push(Left::worktree(
                    self.run.team().as_str(),
                    &listed.name,
                    &path,
                    &why,
                ));
            }
            if let Some(branch) = &listed.branch {
                left.push(Left::branch(branch, base, &why));
            }
        }
        if let Ok(Some((name, _))) = repo.rejected(self.run.team()) {
            left.push(Left::reference(&name, "a person did not want it"));
        }
        left
    }
}

fn change(count: Count) -> FileChange {
    FileChange {
        path: count.path,
        added: count.added,
        removed: count.removed,
    }
}

/// The files of a task that it had not reserved.
fn files_outside(task: &Task) -> Vec<String> {
    let result = task.ours("result");
    let files = result.and_then(|result| result.get("outsideReservation")?.as_array());
    let files = files.into_iter().flatten().filter_map(Value::as_str);
    files.take(MOST_FILES).map(str::to_owned).collect()
}

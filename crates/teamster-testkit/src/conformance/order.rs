//! The invariants that hold after every step of every test.

use std::collections::HashSet;

use serde_json::Value;
use teamster_journal::Event;
use teamster_store::{Result, Store, rebuild};
use teamster_types::progress::Progress;
use teamster_types::task::Task;
use teamster_types::{TaskId, TeamName};

/// What the journal has contained so far.
#[derive(Default)]
pub(super) struct JournalChecker {
    last: u64,
    ids: HashSet<String>,
    tasks: rebuild::Tasks,
    tokens: Vec<String>,
}

impl JournalChecker {
    /// Records a token that was given out; it must never appear in the journal.
    pub(super) fn token(&mut self, token: String) {
        assert!(!self.tokens.contains(&token), "a token was given out twice");
        self.tokens.push(token);
    }

    /// Starts again from the beginning of the journal; only the tokens are kept.
    pub(super) fn forget(&mut self) {
        *self = Self {
            tokens: std::mem::take(&mut self.tokens),
            ..Self::default()
        };
    }

    /// Reads new events of the journal and compares them with the state of the store.
    pub(super) fn look_around(
        &mut self,
        step: &str,
        store: &dyn Store,
        team: &TeamName,
    ) -> Result<()> {
        let page = store.events(team, self.last + 1, usize::MAX)?;
        assert!(page.damaged.is_empty(), "after {step}: {:?}", page.damaged);
        for event in &page.events {
            self.follow(step, event, team);
        }
        let more = page.events.last().is_some_and(|event| event.more);
        assert!(!more, "after {step}: the journal ends within a commit");
        let list = store.tasks(team)?;
        assert!(
            list.problems.is_empty(),
            "after {step}: {:?}",
            list.problems
        );
        self.compare(step, &list.tasks);
        check_mirrors(step, &list.tasks);
        assert_eq!(
            store.progress(team)?.0,
            Progress::of(&list.tasks),
            "after {step}: progress is counted from the tasks"
        );
        Ok(())
    }

    fn follow(&mut self, step: &str, event: &Event, team: &TeamName) {
        assert_eq!(
            event.seq,
            self.last + 1,
            "after {step}: positions grow by one"
        );
        assert_eq!(event.team, team.as_str(), "after {step}");
        assert!(
            self.ids.insert(event.id.clone()),
            "after {step}: two events have one id"
        );
        let text = serde_json::to_string(event).unwrap_or_default();
        for token in &self.tokens {
            assert!(
                !text.contains(token.as_str()),
                "after {step}: a token stands in the journal: {text}"
            );
        }
        self.last = event.seq;
        self.tasks.apply(event);
    }

    fn compare(&self, step: &str, tasks: &[Task]) {
        let told: Vec<&Task> = self.tasks.iter().collect();
        let names = |tasks: &[&Task]| -> Vec<String> {
            tasks.iter().map(|task| task.id().to_string()).collect()
        };
        let there: Vec<&Task> = tasks.iter().collect();
        assert_eq!(
            names(&told),
            names(&there),
            "after {step}: the journal (left) tells of other tasks than there are (right)"
        );
        for (told, there) in told.into_iter().zip(there) {
            assert!(
                rebuild::is_same_task(told, there),
                "after {step}: the journal rebuilds task {} as\n{}\nbut it is\n{}",
                told.id(),
                Value::Object(told.public()),
                Value::Object(there.public()),
            );
        }
    }
}

/// Checks that `blocks` mirrors `blockedBy`.
fn check_mirrors(step: &str, tasks: &[Task]) {
    let find = |id: &TaskId| tasks.iter().find(|task| task.id() == id);
    for task in tasks {
        for blocker in task.blocked_by() {
            if let Some(blocker) = find(blocker) {
                assert!(
                    blocker.blocks().contains(task.id()),
                    "after {step}: {} waits for {}, which does not know it",
                    task.id(),
                    blocker.id()
                );
            }
        }
        for dependent in task.blocks() {
            let knows = find(dependent).is_some_and(|other| other.blocked_by().contains(task.id()));
            assert!(
                knows,
                "after {step}: {} says it blocks {dependent}, which does not wait for it",
                task.id()
            );
        }
    }
}

//! Import: several files and their mirrors change together, or none does.

use anyhow::{Result, bail};
use teamster_store::Store;

use super::super::disk::Disk;
use super::{Case, Scenario, ask, expect, words};
use crate::kit;
use crate::product::{Answer, Place, Product};

/// Two tasks that wait for the first, and one that waits for both.
const PLAN: &str = r#"{"tasks": [
    {"id": "a", "subject": "root"},
    {"id": "b", "subject": "left", "blockedBy": ["a"]},
    {"id": "c", "subject": "right", "blockedBy": ["a"]},
    {"id": "d", "subject": "top", "blockedBy": ["b", "c"]}
]}"#;
const SUBJECTS: [&str; 4] = ["root", "left", "right", "top"];

/// `task import`
pub(super) struct Import;

impl Scenario for Import {
    fn name(&self) -> &'static str {
        "task import"
    }

    fn prepare(&self) -> Result<Case> {
        let place = Place::temporary()?;
        let store = kit::team_of(&place, 2)?;
        store.import_tasks(&kit::team()?, "user", &[kit::planned("first", &[])])?;
        let plan = place.project().join("plan.json");
        std::fs::write(&plan, PLAN)?;
        Ok(Case {
            words: words(&format!("task import {} --json", plan.display())),
            place,
            token: String::new(),
            input: None,
        })
    }

    fn state(&self, _: &Case, disk: &Disk) -> Result<bool> {
        let is_there = |subject: &&&str| {
            let same = |task: &&serde_json::Value| task["subject"] == **subject;
            disk.tasks.values().filter(same).count() == 1
        };
        match SUBJECTS.iter().filter(is_there).count() {
            4 => Ok(true),
            0 => Ok(false),
            // Between two renames. The next writer makes the others.
            _ if !disk.leftovers.is_empty() => Ok(false),
            some => bail!("{some} of 4 tasks were made"),
        }
    }

    fn told(&self, disk: &Disk) -> usize {
        let made = SUBJECTS.iter().map(|subject| {
            let tells = |event: &&serde_json::Value| {
                event["type"] == "task.created" && event.to_string().contains(subject)
            };
            disk.events.iter().filter(tells).count()
        });
        // All of them or none: anything else is told as a number that is neither.
        let counts: Vec<usize> = made.collect();
        if counts.iter().all(|count| *count == counts[0]) {
            counts[0]
        } else {
            usize::MAX
        }
    }

    fn seen(&self, product: &Product, case: &Case) -> Result<bool> {
        let tasks = ask(product, case, "task list --json")?["tasks"].take();
        Ok(tasks.as_array().is_some_and(|all| all.len() == 5))
    }

    fn next(&self) -> Vec<String> {
        words("task claim --worker w2 --json")
    }

    fn end(
        &self,
        product: &Product,
        case: &Case,
        happened: bool,
        next: &Answer,
    ) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        let got = next
            .json()
            .map(|mut answer| answer["task"]["subject"].take());
        if got.as_ref().is_none_or(|subject| subject != "first") {
            complaints.push(format!("the next claimer got {got:?}, not the first task"));
        }
        // Of the four only the root is free, and only when they were made.
        let codes: &[i32] = if happened { &[0] } else { &[5] };
        complaints.extend(expect(product, case, "task claim --worker w1 --json", codes)?.1);
        complaints.extend(expect(product, case, "task claim --worker w1 --json", &[5])?.1);
        Ok(complaints)
    }
}

//! Claim, complete and fail.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use teamster_store::Store;

use super::super::disk::Disk;
use super::{Case, Scenario, ask, expect, words};
use crate::kit;
use crate::product::{Answer, Place, Product};

/// A claim lock that names nobody is stale at this age. It is made older here instead of being waited for.
const STALE: std::time::Duration = std::time::Duration::from_secs(30);

/// Task 1 blocks task 2; tasks 3 and 4 are free. With `claimed`, worker 1 holds task 1.
fn prepare(line: &str, claimed: bool) -> Result<Case> {
    let place = Place::temporary()?;
    let store = kit::team_of(&place, 3)?;
    let plan = [
        kit::planned("first", &[]),
        kit::planned("second", &[0]),
        kit::planned("third", &[]),
        kit::planned("fourth", &[]),
    ];
    store.import_tasks(&kit::team()?, "user", &plan)?;
    let token = if claimed {
        kit::claim(&store, 1)?.token.reveal().to_owned()
    } else {
        String::new()
    };
    Ok(Case {
        place,
        words: words(&line.replace("TOKEN", &token)),
        input: None,
        token,
    })
}

fn first(disk: &Disk) -> Result<&Value> {
    disk.tasks.get("1").context("task 1 is gone")
}

fn shown(product: &Product, case: &Case) -> Result<Value> {
    Ok(ask(product, case, "task show 1 --json")?["task"].take())
}

fn next_claim() -> Vec<String> {
    words("task claim --worker w2 --json")
}

fn claimed_id(next: &Answer) -> String {
    let id = next.json().and_then(|mut json| {
        let id = json["task"]["id"].take();
        id.as_str().map(str::to_owned)
    });
    id.unwrap_or_default()
}

/// `task claim`
pub(super) struct Claim;

impl Scenario for Claim {
    fn name(&self) -> &'static str {
        "task claim"
    }

    fn is_central(&self) -> bool {
        true
    }

    fn prepare(&self) -> Result<Case> {
        prepare("task claim --worker w1 --json", false)
    }

    fn state(&self, _: &Case, disk: &Disk) -> Result<bool> {
        let task = first(disk)?;
        let claim = &task["metadata"]["teamster"]["claim"]["worker"];
        match (task["status"].as_str(), task["owner"].as_str()) {
            (Some("in_progress"), Some("w1")) if claim == "w1" => Ok(true),
            (Some("in_progress"), Some("w2")) if claim == "w2" => Ok(false),
            (Some("pending"), None) if claim.is_null() => Ok(false),
            _ => bail!("task 1 is neither free nor claimed: {task}"),
        }
    }

    fn told(&self, disk: &Disk) -> usize {
        // A claim whose answer could not be written is given back at once: then it did not happen, and both are told.
        let by_first = |kind: &str| {
            let told = disk.events.iter();
            told.filter(|event| event["type"] == kind && event["actor"] == "w1")
                .count()
        };
        by_first("task.claimed").saturating_sub(by_first("task.released"))
    }

    fn seen(&self, product: &Product, case: &Case) -> Result<bool> {
        Ok(shown(product, case)?["owner"] == "w1")
    }

    fn next(&self) -> Vec<String> {
        next_claim()
    }

    fn end(
        &self,
        product: &Product,
        case: &Case,
        happened: bool,
        next: &Answer,
    ) -> Result<Vec<String>> {
        match (happened, claimed_id(next).as_str()) {
            (true, "3") => Ok(expect(product, case, "task claim --worker w3 1 --json", &[4])?.1),
            (false, "1") => Ok(Vec::new()),
            (false, "3") => free_again(product, case),
            (_, other) => Ok(vec![format!("the next claimer got {other:?}")]),
        }
    }
}

/// The next claimer met a lock that names nobody and went on. Once it is 30 s old the task is free again.
fn free_again(product: &Product, case: &Case) -> Result<Vec<String>> {
    let file = case.place.tasks().join("1.lock");
    let Ok(lock) = std::fs::metadata(&file) else {
        return Ok(vec!["task 1 was passed over without a lock".to_owned()]);
    };
    if lock.len() > 0 {
        return Ok(vec!["a lock with a name in it was left".to_owned()]);
    }
    let (_, mut complaints) = expect(product, case, "task claim --worker w3 1 --json", &[4])?;
    let then = std::time::SystemTime::now() - STALE;
    std::fs::File::options()
        .write(true)
        .open(&file)?
        .set_modified(then)?;
    complaints.extend(expect(product, case, "task claim --worker w3 1 --json", &[0])?.1);
    if file.exists() {
        complaints.push("the claim that took the lock over left it".to_owned());
    }
    Ok(complaints)
}

/// `task complete`
pub(super) struct Complete;

impl Scenario for Complete {
    fn name(&self) -> &'static str {
        "task complete"
    }

    fn is_central(&self) -> bool {
        true
    }

    fn prepare(&self) -> Result<Case> {
        prepare("task complete 1 --token TOKEN --json", true)
    }

    fn state(&self, _: &Case, disk: &Disk) -> Result<bool> {
        let task = first(disk)?;
        match task["status"].as_str() {
            Some("completed") if task["metadata"]["permanentlyFailed"] != true => Ok(true),
            Some("in_progress") if task["owner"] == "w1" => Ok(false),
            _ => bail!("task 1 is neither claimed nor completed: {task}"),
        }
    }

    fn told(&self, disk: &Disk) -> usize {
        disk.count("task.completed", Some("1"))
    }

    fn seen(&self, product: &Product, case: &Case) -> Result<bool> {
        Ok(shown(product, case)?["status"] == "completed")
    }

    fn next(&self) -> Vec<String> {
        next_claim()
    }

    fn end(
        &self,
        product: &Product,
        case: &Case,
        happened: bool,
        next: &Answer,
    ) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        // Task 2 waits for task 1, and has the lower number.
        let wanted = if happened { "2" } else { "3" };
        let got = claimed_id(next);
        if got != wanted {
            complaints.push(format!("the next claimer got {got:?}, not task {wanted}"));
        }
        let again = format!("task complete 1 --token {} --json", case.token);
        complaints.extend(expect(product, case, &again, &[0])?.1);
        let disk = Disk::read(&case.place)?;
        if !self.state(case, &disk)? || self.told(&disk) != 1 {
            complaints.push("completing it again did not end with one completion".to_owned());
        }
        Ok(complaints)
    }
}

/// `task fail`
pub(super) struct Fail;

impl Scenario for Fail {
    fn name(&self) -> &'static str {
        "task fail"
    }

    fn prepare(&self) -> Result<Case> {
        prepare("task fail 1 --token TOKEN --error boom --json", true)
    }

    fn state(&self, _: &Case, disk: &Disk) -> Result<bool> {
        let task = first(disk)?;
        let failures = disk.failures.get("1").map(|file| &file["retryCount"]);
        match (task["status"].as_str(), failures) {
            (Some("pending"), Some(count)) if count == 1 => Ok(true),
            (Some("in_progress"), None) if task["owner"] == "w1" => Ok(false),
            // Between the two renames. The next writer makes the other one.
            (Some("pending"), None) | (Some("in_progress"), Some(_))
                if !disk.leftovers.is_empty() =>
            {
                Ok(false)
            }
            _ => bail!("task 1 is neither claimed nor failed once: {task}, {failures:?}"),
        }
    }

    fn told(&self, disk: &Disk) -> usize {
        disk.count("task.failed", Some("1"))
    }

    fn seen(&self, product: &Product, case: &Case) -> Result<bool> {
        Ok(shown(product, case)?["status"] == "pending")
    }

    fn next(&self) -> Vec<String> {
        next_claim()
    }

    fn end(
        &self,
        product: &Product,
        case: &Case,
        happened: bool,
        next: &Answer,
    ) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        let got = claimed_id(next);
        if got != "3" {
            complaints.push(format!("the next claimer got {got:?}, not task 3"));
        }
        let again = format!("task fail 1 --token {} --error boom --json", case.token);
        let codes: &[i32] = if happened { &[4] } else { &[0] };
        complaints.extend(expect(product, case, &again, codes)?.1);
        let disk = Disk::read(&case.place)?;
        if !self.state(case, &disk)? || self.told(&disk) != 1 {
            complaints.push("failing it again did not end with one failure".to_owned());
        }
        Ok(complaints)
    }
}

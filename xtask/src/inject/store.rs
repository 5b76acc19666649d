//! The operations on the store that get faults, and the rules that hold after them.
//!
//! After any fault every file is complete, the operation happened or did not, the journal agrees and rebuilds the
//! same tasks, the next operation of another worker succeeds at once, and nothing temporary is left after it.

mod files;

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{Case, Fault, Run, Struck, Target};
use crate::fixture;
use crate::product::{Finished, Product, TempProject, check, list, text};
use files::{Files, inbox_contents, short};

/// The next operation must succeed within this time.
const NEXT_WITHIN: Duration = Duration::from_secs(1);
/// The age at which a claim lock without a process is stale. The lock is made older here to avoid the wait.
const STALE: Duration = Duration::from_secs(30);
/// The content of the message that the operation sends, and of the one that is sent next.
const STRUCK: &str = "struck";
const NEXT: &str = "next";
const NEXT_SEND: &str = "message send --to w2 --from w3 next --json";
const NEXT_CLAIM: &str = "task claim --worker w2 --json";
/// Messages that fill an inbox, and how many of them are acknowledged and read.
const FILL: usize = 17;
const ACKED: usize = 5;
const READ: usize = 3;
/// Two tasks that are blocked by the first, and one that is blocked by both.
const PLAN: &str = r#"{"tasks": [
    {"id": "a", "subject": "root"},
    {"id": "b", "subject": "left", "blockedBy": ["a"]},
    {"id": "c", "subject": "right", "blockedBy": ["a"]},
    {"id": "d", "subject": "top", "blockedBy": ["b", "c"]}
]}"#;
/// The violation when messages are acknowledged and lost.
const UNSEEN: &str = "messages were acknowledged that the reader never got";
const SUBJECTS: [&str; 4] = ["root", "left", "right", "top"];

/// One operation that gets faults.
pub(super) struct Operation {
    name: &'static str,
    is_central: bool,
    /// Whether its output is the result: nothing may count as delivered that the caller never got.
    hands_out: bool,
    /// Makes a team on which the operation can be performed once.
    prepare: fn(&Product) -> Result<Case<'_>>,
    /// Returns whether the operation happened, by the files; an error for any intermediate state.
    happened: fn(&Case<'_>, &Files) -> Result<bool>,
    /// Counts how often the journal records it.
    journalled: fn(&Files) -> usize,
    /// Returns whether a reader sees it before the next write.
    is_seen: fn(&Case<'_>) -> Result<bool>,
    /// The next operation of another worker, which must succeed.
    next: &'static str,
    /// Makes the final checks, which may change the team.
    finish: fn(&Case<'_>, bool, &Finished, &mut Run) -> Result<()>,
}

/// All operations.
pub(super) const OPERATIONS: [Operation; 7] = [
    Operation {
        name: "task claim",
        is_central: true,
        hands_out: false,
        prepare: |product| with_tasks(product, "task claim --worker w1 --json", false),
        happened: claim_happened,
        // A claim whose output could not be written is released at once: then it did not happen, and the journal has
        // both events.
        journalled: |files| {
            let by_first = |kind: &str| files.count(kind, |event| event["actor"] == "w1");
            by_first("task.claimed").saturating_sub(by_first("task.released"))
        },
        is_seen: |case| Ok(case.task()?["owner"] == "w1"),
        next: NEXT_CLAIM,
        finish: finish_claim,
    },
    Operation {
        name: "task complete",
        is_central: true,
        hands_out: false,
        prepare: |product| with_tasks(product, "task complete 1 --token TOKEN --json", true),
        happened: complete_happened,
        journalled: |files| files.count("task.completed", |event| event["taskId"] == "1"),
        is_seen: |case| Ok(case.task()?["status"] == "completed"),
        next: NEXT_CLAIM,
        finish: |case, happened, next, run| {
            // Task 2 is blocked by task 1, and has the lower number.
            expect_claimed(next, if happened { "2" } else { "3" }, run);
            case.expect("task complete 1 --token TOKEN --json", 0, run)?;
            case.must_be_once(complete_happened, "task.completed", run)
        },
    },
    Operation {
        name: "task fail",
        is_central: false,
        hands_out: false,
        prepare: |product| {
            with_tasks(
                product,
                "task fail 1 --token TOKEN --error boom --json",
                true,
            )
        },
        happened: fail_happened,
        journalled: |files| files.count("task.failed", |event| event["taskId"] == "1"),
        is_seen: |case| Ok(case.task()?["status"] == "pending"),
        next: NEXT_CLAIM,
        finish: |case, happened, next, run| {
            expect_claimed(next, "3", run);
            let line = "task fail 1 --token TOKEN --error boom --json";
            case.expect(line, if happened { 4 } else { 0 }, run)?;
            case.must_be_once(fail_happened, "task.failed", run)
        },
    },
    Operation {
        name: "task import",
        is_central: false,
        hands_out: false,
        prepare: |product| {
            let project = TempProject::new()?;
            let store = fixture::create_team(&project, 2)?;
            fixture::import(&store, &[fixture::planned("first", &[])])?;
            let plan = project.folder().join("plan.json");
            std::fs::write(&plan, PLAN)?;
            let line = format!("task import {} --json", plan.display());
            Ok(Case::new(product, project, &line))
        },
        happened: import_happened,
        journalled: |files| {
            let counts = SUBJECTS.map(|subject| {
                files.count("task.created", |event| event.to_string().contains(subject))
            });
            // All of them or none: anything else returns a count that is neither.
            let is_same = counts.iter().all(|count| *count == counts[0]);
            if is_same { counts[0] } else { usize::MAX }
        },
        is_seen: |case| {
            let printed = case.ask("task list --json")?;
            Ok(list(&printed["tasks"]).count() == 5)
        },
        next: NEXT_CLAIM,
        finish: |case, happened, next, run| {
            let got = next.json().unwrap_or_default()["task"]["subject"].take();
            check!(run.violations, got == "first" => "the next claimer got {got}");
            // Of the four only the root is free, and only if they were created.
            let code = if happened { 0 } else { 5 };
            case.expect("task claim --worker w1 --json", code, run)?;
            case.expect("task claim --worker w1 --json", 5, run)
        },
    },
    Operation {
        name: "message send",
        is_central: true,
        hands_out: false,
        prepare: |product| {
            with_messages(product, 2, "message send --to w2 --from w1 struck --json")
        },
        happened: |case, _| is_sent(case),
        journalled: sends_journalled,
        is_seen: is_listed,
        next: NEXT_SEND,
        finish: |case, happened, _, run| case.expect_inbox(1..=2, happened, run),
    },
    Operation {
        name: "message read --ack",
        is_central: false,
        hands_out: true,
        prepare: |product| with_messages(product, 3, "message read --as w2 --ack --limit 2 --json"),
        happened: ack_happened,
        journalled: |files| files.count("message.acked", |_| true),
        is_seen: |case| {
            let listed = case.ask("message list --json")?;
            Ok(!listed["messages"][0]["ackedAt"].is_null())
        },
        next: NEXT_SEND,
        finish: |case, happened, _, run| {
            case.expect_inbox(if happened { 3..=3 } else { 1..=3 }, false, run)
        },
    },
    Operation {
        name: "message send (rotating)",
        is_central: false,
        hands_out: false,
        prepare: with_full_inbox,
        happened: |case, _| is_sent(case),
        journalled: sends_journalled,
        is_seen: is_listed,
        next: NEXT_SEND,
        finish: |case, happened, _, run| {
            case.expect_inbox(ACKED + 1..=FILL, happened, run)?;
            let rotated = case.project.team().join("inbox/w2.1.jsonl");
            check!(run.violations, rotated.exists() => "the inbox did not rotate");
            Ok(())
        },
    },
];

impl Target for Operation {
    fn name(&self) -> (&'static str, bool) {
        (self.name, self.is_central)
    }

    fn prepare<'a>(&self, product: &'a Product) -> Result<Case<'a>> {
        (self.prepare)(product)
    }

    fn judge(&self, struck: &Struck<'_>, run: &mut Run) -> Result<()> {
        let case = struck.case;
        let before = Files::read(&case.project)?;
        run.violations.extend(before.problems.iter().cloned());
        (self.happened)(case, &before)?;
        let is_seen = match struck.fault {
            Fault::Kill => false,
            Fault::Error(_) => (self.is_seen)(case)?,
        };
        let happened = self.go_on(case, run)?;
        run.happened = Some(happened);
        match struck.fault {
            Fault::Kill => self.judge_killed(&struck.finished, happened, run),
            Fault::Error(_) => {
                run.late = happened && !is_seen && struck.finished.success();
                let complaint = self.complaint_about_error(struck, happened);
                run.violations.extend(complaint);
            }
        }
        Ok(())
    }
}

impl Operation {
    /// Performs the next operation of another worker, checks that the team is intact, and returns whether the
    /// operation happened.
    fn go_on(&self, case: &Case<'_>, run: &mut Run) -> Result<bool> {
        let project = &case.project;
        let next = case.product.call(project, self.next)?;
        run.next = next.took;
        let (took, end, found) = (next.took, next.describe(), &mut run.violations);
        check!(found, next.success() => "the next operation failed: {end}");
        check!(found, took <= NEXT_WITHIN => "the next one took {took:?}");
        let mut after = Files::read(project)?;
        after.check_whole();
        found.append(&mut after.problems);
        let happened = (self.happened)(case, &after)?;
        let told = (self.journalled)(&after);
        let is_told = told == usize::from(happened);
        check!(found, is_told => "happened: {happened}, and told {told} times");
        (self.finish)(case, happened, &next, run)?;
        Ok(happened)
    }

    /// Checks that the output of a killed call is true.
    fn judge_killed(&self, finished: &Finished, happened: bool, run: &mut Run) {
        let (is_answered, found) = (finished.json().is_some(), &mut run.violations);
        // A message that was delivered but not acknowledged is delivered again.
        let is_true = !is_answered || happened || self.hands_out;
        check!(found, is_true => "it printed its result, but did not happen");
        check!(found, !self.hands_out || !happened || is_answered => "{UNSEEN}");
    }

    /// Returns what is wrong with the end of a call after an injected error.
    fn complaint_about_error(&self, struck: &Struck<'_>, happened: bool) -> Option<String> {
        let finished = &struck.finished;
        let hit = struck.hit.as_ref();
        let is_printing = hit.is_some_and(|line| line.starts_with("write(1,"));
        match finished.code() {
            Some(0) if happened => None,
            Some(0) => Some("exit 0, but it did not happen".to_owned()),
            _ if struck.point.is_runtime() => None,
            None => Some(format!("it died: {}", finished.describe())),
            Some(_) if finished.stderr.contains("panicked") => Some(finished.describe()),
            // The operation is done, and the error says that only its output is lost.
            Some(_) if happened && is_printing => self.hands_out.then(|| UNSEEN.to_owned()),
            Some(_) if happened => Some(format!("it happened, but {}", finished.describe())),
            Some(_) => {
                let stderr = finished.stderr.trim();
                let is_clear = serde_json::from_str::<Value>(stderr)
                    .is_ok_and(|error| error["error"]["message"].is_string());
                (!is_clear).then(|| format!("the error is not one clear object: {stderr:?}"))
            }
        }
    }
}

/// Calls of the binary in the project of a case.
impl Case<'_> {
    /// Returns the JSON output of a call.
    fn ask(&self, line: &str) -> Result<Value> {
        let finished = self.product.call(&self.project, line)?;
        match finished.json() {
            Some(value) if finished.success() => Ok(value),
            _ => bail!("`{line}` failed: {}", finished.describe()),
        }
    }

    /// Makes a call that must end with this exit code.
    fn expect(&self, line: &str, code: i32, run: &mut Run) -> Result<()> {
        let line = line.replace("TOKEN", &self.token);
        let finished = self.product.call(&self.project, &line)?;
        let (is_it, end) = (finished.code() == Some(code), finished.describe());
        check!(run.violations, is_it => "`{line}` should exit {code}: {end}");
        Ok(())
    }

    fn task(&self) -> Result<Value> {
        Ok(self.ask("task show 1 --json")?["task"].take())
    }

    /// Checks that a repeated operation has happened once.
    fn must_be_once(
        &self,
        happened: fn(&Case<'_>, &Files) -> Result<bool>,
        kind: &str,
        run: &mut Run,
    ) -> Result<()> {
        let files = Files::read(&self.project)?;
        let count = files.count(kind, |event| event["taskId"] == "1");
        let is_once = happened(self, &files)? && count == 1;
        check!(run.violations, is_once => "done again, it is not one {kind}");
        Ok(())
    }

    /// Checks that a reader gets these messages, the struck one if it was sent, and the next one, in this order.
    fn expect_inbox(
        &self,
        numbers: std::ops::RangeInclusive<usize>,
        with_struck: bool,
        run: &mut Run,
    ) -> Result<()> {
        let mut expected: Vec<String> = numbers.map(|number| format!("m{number}")).collect();
        expected.extend(with_struck.then(|| STRUCK.to_owned()));
        expected.push(NEXT.to_owned());
        let got = self.contents("message read --as w2 --json")?;
        check!(run.violations, got == expected => "a reader got {got:?}, not {expected:?}");
        Ok(())
    }

    fn contents(&self, line: &str) -> Result<Vec<String>> {
        let printed = self.ask(line)?;
        Ok(list(&printed["messages"]).map(short).collect())
    }
}

/// Makes a team whose task 1 blocks task 2, with tasks 3 and 4 free. With `claimed`, worker 1 holds task 1.
fn with_tasks<'a>(product: &'a Product, line: &str, claimed: bool) -> Result<Case<'a>> {
    let project = TempProject::new()?;
    let store = fixture::create_team(&project, 3)?;
    let plan = [
        fixture::planned("first", &[]),
        fixture::planned("second", &[0]),
        fixture::planned("third", &[]),
        fixture::planned("fourth", &[]),
    ];
    fixture::import(&store, &plan)?;
    let token = if claimed {
        fixture::claim(&store, 1)?.token.reveal().to_owned()
    } else {
        String::new()
    };
    let case = Case::new(product, project, &line.replace("TOKEN", &token));
    Ok(Case { token, ..case })
}

/// Makes a team whose worker 2 has this many messages.
fn with_messages<'a>(product: &'a Product, count: usize, line: &str) -> Result<Case<'a>> {
    let project = TempProject::new()?;
    let store = fixture::create_team(&project, 3)?;
    for number in 1..=count {
        fixture::send(&store, 1, 2, &format!("m{number}"))?;
    }
    Ok(Case::new(product, project, line))
}

/// Makes a team whose worker 2 has an inbox that the next message rotates.
fn with_full_inbox(product: &Product) -> Result<Case<'_>> {
    let case = with_messages(product, 0, "message send --to w2 --from w1 struck --json")?;
    let store = case.project.store(teamster_fs::Durability::Fast)?;
    let padding = "x".repeat(63 * 1024);
    for number in 1..=FILL {
        fixture::send(&store, 1, 2, &format!("m{number} {padding}"))?;
    }
    fixture::receive(&store, 2, ACKED, true)?;
    fixture::receive(&store, 2, READ, false)?;
    let size = std::fs::metadata(case.project.team().join("inbox/w2.jsonl"))?.len();
    ensure!(size >= 1024 * 1024, "the inbox has only {size} bytes");
    Ok(case)
}

fn claim_happened(_: &Case<'_>, files: &Files) -> Result<bool> {
    let task = files.first_task()?;
    let claim = &task["metadata"]["teamster"]["claim"]["worker"];
    match (task["status"].as_str(), task["owner"].as_str()) {
        (Some("in_progress"), Some("w1")) if claim == "w1" => Ok(true),
        (Some("in_progress"), Some("w2")) if claim == "w2" => Ok(false),
        (Some("pending"), None) if claim.is_null() => Ok(false),
        _ => bail!("task 1 is neither free nor claimed: {task}"),
    }
}

fn finish_claim(case: &Case<'_>, happened: bool, next: &Finished, run: &mut Run) -> Result<()> {
    match (happened, claimed_id(next).as_str()) {
        (true, "3") => case.expect("task claim --worker w3 1 --json", 4, run),
        (false, "1") => Ok(()),
        (false, "3") => finish_passed_over(case, run),
        (_, other) => bail!("the next claimer got {other:?}"),
    }
}

/// Checks the end of a claim whose lock names no process: the next claimant skipped it, and once it is 30 s old the
/// task is free again.
fn finish_passed_over(case: &Case<'_>, run: &mut Run) -> Result<()> {
    let file = case.project.tasks().join("1.lock");
    let lock = std::fs::metadata(&file).context("task 1 was passed over without a lock")?;
    ensure!(lock.len() == 0, "a lock with a name in it was left");
    case.expect("task claim --worker w3 1 --json", 4, run)?;
    let lock = std::fs::File::options().write(true).open(&file)?;
    lock.set_modified(SystemTime::now() - STALE)?;
    case.expect("task claim --worker w3 1 --json", 0, run)?;
    check!(run.violations, !file.exists() => "the claim that took it over left it");
    Ok(())
}

fn claimed_id(next: &Finished) -> String {
    let printed = next.json().unwrap_or_default();
    text(&printed["task"]["id"]).to_owned()
}

fn expect_claimed(next: &Finished, wanted: &str, run: &mut Run) {
    let got = claimed_id(next);
    check!(run.violations, got == wanted => "the next claimer got {got:?}, not {wanted}");
}

fn complete_happened(_: &Case<'_>, files: &Files) -> Result<bool> {
    let task = files.first_task()?;
    match task["status"].as_str() {
        Some("completed") if task["metadata"]["permanentlyFailed"] != true => Ok(true),
        Some("in_progress") if task["owner"] == "w1" => Ok(false),
        _ => bail!("task 1 is neither claimed nor completed: {task}"),
    }
}

fn fail_happened(_: &Case<'_>, files: &Files) -> Result<bool> {
    let task = files.first_task()?;
    let failures = files.failures.get("1").map(|file| &file["retryCount"]);
    let is_unfinished = !files.leftovers.is_empty();
    match (task["status"].as_str(), failures) {
        (Some("pending"), Some(count)) if count == 1 => Ok(true),
        (Some("in_progress"), None) if task["owner"] == "w1" => Ok(false),
        // Between the two renames. The next writer does the other one.
        (Some("pending"), None) | (Some("in_progress"), Some(_)) if is_unfinished => Ok(false),
        _ => bail!("task 1 is neither claimed nor failed once: {task}, {failures:?}"),
    }
}

fn import_happened(_: &Case<'_>, files: &Files) -> Result<bool> {
    let is_there = |subject: &&&str| {
        let same = |task: &&Value| task["subject"] == **subject;
        files.tasks.values().filter(same).count() == 1
    };
    match SUBJECTS.iter().filter(is_there).count() {
        4 => Ok(true),
        0 => Ok(false),
        // Between two renames. The next writer does the others.
        _ if !files.leftovers.is_empty() => Ok(false),
        some => bail!("{some} of 4 tasks were made"),
    }
}

/// Returns whether the struck message is in the inbox; more than once is an error.
fn is_sent(case: &Case<'_>) -> Result<bool> {
    let contents = inbox_contents(&case.project, "w2")?;
    match contents.iter().filter(|content| *content == STRUCK).count() {
        0 => Ok(false),
        1 => Ok(true),
        more => bail!("the message lies in the inbox {more} times"),
    }
}

fn sends_journalled(files: &Files) -> usize {
    files.count("message.sent", |event| short(&event["data"]) == STRUCK)
}

fn is_listed(case: &Case<'_>) -> Result<bool> {
    let listed = case.contents("message list --json")?;
    Ok(listed.iter().any(|content| content == STRUCK))
}

fn ack_happened(case: &Case<'_>, _: &Files) -> Result<bool> {
    let inbox = case.project.team().join("inbox");
    let Ok(bytes) = std::fs::read(inbox.join("w2.offset")) else {
        return Ok(false);
    };
    let cursor: Value = serde_json::from_slice(&bytes)?;
    let live = std::fs::read_to_string(inbox.join("w2.jsonl"))?;
    let two: usize = live.split_inclusive('\n').take(2).map(str::len).sum();
    match cursor["bytesRead"].as_u64() {
        Some(0) | None => Ok(false),
        Some(read) if read == two as u64 => Ok(true),
        Some(read) => bail!("the cursor stands at byte {read}, not behind two messages"),
    }
}

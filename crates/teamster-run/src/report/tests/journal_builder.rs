//! Example runs for the tests of the report.

use std::sync::Arc;

use serde_json::{Value, json};
use teamster_journal::{Event, EventKind, NewEvent};
use teamster_store::{ClaimRequest, ReadStore as _, Store as _};
use teamster_testkit::{ManualClock, MemStore};
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::task::{NewTask, Task};
use teamster_types::team::{NewMember, NewTeam};
use teamster_types::{TaskId, TeamName, Time};

use crate::report::{ReportInput, input_from};

pub(super) const BASE: &str = "b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0";
pub(super) const WORK: &str = "c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1";

/// A run whose journal is kept in a real store.
pub(super) struct JournalBuilder {
    store: MemStore,
    clock: Arc<ManualClock>,
    pub(super) team: TeamName,
}

impl JournalBuilder {
    pub(super) fn new(workers: &[&str]) -> Self {
        let clock = Arc::new(ManualClock::new(Time::from_millis(1_770_465_600_000)));
        let me = ProcessId {
            pid: 1,
            process_start_time: 1,
            boot_id: String::new(),
            pid_ns: String::new(),
            host: String::new(),
        };
        let store = MemStore::new(clock.clone(), me, |_| ProcessState::Alive);
        let team: TeamName = "fix-auth".parse().unwrap();
        let member = |name: &&str| NewMember {
            name: name.parse().unwrap(),
            provider: "codex".to_owned(),
            capabilities: None,
        };
        let new = NewTeam {
            name: team.clone(),
            description: String::new(),
            project: "/p".to_owned(),
            members: workers.iter().map(member).collect(),
            run: None,
        };
        store.create_team(&new, Some(BASE)).unwrap();
        Self { store, clock, team }
    }

    pub(super) fn wait(&self, seconds: i64) {
        self.clock.advance(seconds * 1_000);
    }

    /// Writes an event of the host, `seconds` after the one before.
    pub(super) fn tell(&self, seconds: i64, kind: &'static str, task: Option<&str>, data: Value) {
        self.wait(seconds);
        let Value::Object(data) = data else {
            panic!("data is an object");
        };
        let mut event = NewEvent::new("host", EventKind::parse(kind, &data));
        if let Some(task) = task {
            event = event.task(&task.parse().unwrap());
        }
        self.store.record(&self.team, event).unwrap();
    }

    pub(super) fn record(&self, event: NewEvent) {
        self.store.record(&self.team, event).unwrap();
    }

    pub(super) fn stage(&self, seconds: i64, stage: &str, round: u64, reason: &str) {
        let data = json!({"stage": stage, "round": round, "reason": reason});
        self.tell(seconds, "run.stage", None, data);
    }

    pub(super) fn task(&self, subject: &str, blocked_by: &[&str]) -> TaskId {
        let new = NewTask {
            subject: subject.to_owned(),
            blocked_by: blocked_by.iter().map(|id| id.parse().unwrap()).collect(),
            ..NewTask::default()
        };
        let task = self
            .store
            .create_task(&self.team, &"host".into(), &new)
            .unwrap();
        task.id().clone()
    }

    /// Lets a worker complete a task with a result.
    pub(super) fn reports(&self, worker: &str, task: &str, result: Value) {
        let request = ClaimRequest {
            worker: worker.parse().unwrap(),
            id: Some(task.parse().unwrap()),
            lease: None,
        };
        let claimed = self.store.claim(&self.team, &request).unwrap().unwrap();
        let (id, token) = (claimed.task.id(), &claimed.token);
        let done = self.store.complete(&self.team, id, token, Some(result));
        drop(done.unwrap());
    }

    /// Writes an event of any actor.
    pub(super) fn says(&self, who: &str, kind: &str, task: Option<&str>, data: Value) -> u64 {
        self.wait(1);
        let Value::Object(data) = data else {
            panic!("data is an object");
        };
        let mut event = NewEvent::new(who, EventKind::parse(kind, &data));
        if let Some(task) = task {
            event = event.task(&task.parse().unwrap());
        }
        self.store.record(&self.team, event).unwrap()
    }

    /// Lets a worker hold a task for this long; `Ok` is the resulting commit.
    pub(super) fn work(
        &self,
        worker: &str,
        task: &str,
        seconds: i64,
        spent: Value,
        end: Result<&str, &str>,
    ) {
        let request = ClaimRequest {
            worker: worker.parse().unwrap(),
            id: Some(task.parse().unwrap()),
            lease: None,
        };
        let claimed = self.store.claim(&self.team, &request).unwrap().unwrap();
        self.wait(seconds);
        if let Value::Object(data) = spent {
            let used = EventKind::parse("usage", &data);
            let event = NewEvent::new(worker, used).task(claimed.task.id());
            self.store.record(&self.team, event).unwrap();
        }
        let (id, token) = (claimed.task.id(), &claimed.token);
        match end {
            Ok(commit) => {
                let result = json!({"commit": commit});
                drop(
                    self.store
                        .complete(&self.team, id, token, Some(result))
                        .unwrap(),
                );
            }
            Err(why) => drop(self.store.fail(&self.team, id, token, why).unwrap()),
        }
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.store.events(&self.team, 0, usize::MAX).unwrap().events
    }

    pub(super) fn tasks(&self) -> Vec<Task> {
        self.store.tasks(&self.team).unwrap().tasks
    }

    pub(super) fn input(&self) -> ReportInput {
        input_from(&self.team, &self.events(), &self.tasks())
    }
}

pub(super) fn usage(input: u64, output: u64, usd: Option<f64>) -> Value {
    json!({"provider": "codex", "model": null, "atLeast": false, "usd": usd,
        "tokensIn": input, "cachedIn": 40, "tokensOut": output})
}

pub(super) fn check(on: &str, command: &str, round: u64, more: &Value) -> Value {
    let mut data = json!({"on": on, "command": command, "round": round, "seconds": 4.25,
        "commit": if on == "base" { BASE } else { WORK }, "exitCode": 0, "timedOut": false,
        "log": format!(".omc/logs/fix-auth/verify/{on}-{round}-1.log")});
    for (key, value) in more.as_object().unwrap() {
        data[key] = value.clone();
    }
    data
}

/// A run in which everything happens that can happen.
pub(super) fn rich() -> JournalBuilder {
    let story = JournalBuilder::new(&["worker-1", "worker-2"]);
    story.tell(
        0,
        "run.started",
        None,
        json!({"task": "Fix all type errors.\nAnd keep the tests green.", "agents": "2:executor",
            "members": [{"name": "worker-1", "provider": "codex", "role": "executor", "model": null},
                {"name": "worker-2", "provider": "claude", "role": "executor", "model": null}],
            "base": {"commit": BASE, "branch": "main"}, "uncommitted": 2, "approve": "ask",
            "verify": [{"command": "cargo test", "source": "Cargo.toml"},
                {"command": "cargo clippy", "source": "--verify"}],
            "budget": {"tokens": 100_000, "usd": null, "minutes": 60}}),
    );
    story.stage(1, "plan", 0, "the run begins");
    story.tell(
        1,
        "verify.passed",
        None,
        check("base", "cargo test", 0, &json!({})),
    );
    let failed = json!({"exitCode": 101, "last": "error: unused\n", "charged": false});
    story.tell(
        1,
        "verify.failed",
        None,
        check("base", "cargo clippy", 0, &failed),
    );
    let tasks = [
        ("Fix the parser", vec![]),
        ("Fix the printer", vec!["1"]),
        ("Port to a platform that is not there", vec![]),
        ("Document the port", vec!["3"]),
    ];
    for (subject, blockers) in &tasks {
        story.task(subject, blockers);
    }
    let plan = json!({"source": "leader", "tasks": [], "path": ".omc/plans/fix-auth.json"});
    story.tell(1, "run.plan", None, plan);
    story.stage(2, "execute", 0, "4 tasks");
    let spent = usage(1_000, 200, Some(0.25));
    story.work("worker-1", "1", 95, spent.clone(), Ok(WORK));
    let merged = json!({"commit": WORK, "merge": WORK, "worker": "worker-1"});
    story.tell(1, "merge.merged", Some("1"), merged.clone());
    story.work(
        "worker-2",
        "2",
        30,
        usage(500, 50, None),
        Err("the agent gave up"),
    );
    story.wait(10);
    story.work("worker-1", "2", 40, spent, Ok(WORK));
    let conflict = json!({"commit": WORK, "files": ["src/print.rs"], "times": 1, "final": false, "fixTask": "5"});
    story.tell(1, "merge.conflict", Some("2"), conflict);
    for _ in 0..5 {
        story.work(
            "worker-2",
            "3",
            5,
            Value::Null,
            Err("there is no such platform"),
        );
        story.wait(61);
    }
    story.task("Resolve the conflict of task 2", &[]);
    story.work("worker-1", "5", 20, usage(10, 5, Some(0.001)), Ok(WORK));
    story.tell(1, "merge.merged", Some("5"), merged);
    story.stage(1, "verify", 0, "nothing is left to do");
    let failed = json!({"exitCode": 101, "charged": true,
        "last": "test parses ... FAILED\nthread 'parses' panicked\n```\nerror: test failed"});
    story.tell(
        9,
        "verify.failed",
        None,
        check("integration", "cargo test", 0, &failed),
    );
    story.stage(1, "fix", 1, "cargo test fails");
    story.stage(60, "verify", 1, "the fix is merged");
    let flaky = json!({"exitCode": 1, "last": "Connection reset"});
    story.tell(
        9,
        "verify.flaky",
        None,
        check("integration", "cargo test", 1, &flaky),
    );
    let failed = json!({"exitCode": 101, "last": "error: unused\n", "charged": false});
    story.tell(
        9,
        "verify.failed",
        None,
        check("integration", "cargo clippy", 1, &failed),
    );
    story.stage(1, "approval", 1, "verified as far as it goes");
    let asked =
        json!({"gate": "0a1b", "commit": WORK, "base": BASE, "branch": "main", "verified": false});
    story.tell(0, "approval.requested", None, asked);
    story.tell(0, "run.resumed", None, json!({"host": {}}));
    story
}

/// The same run, decided and over.
pub(super) fn rich_and_over() -> JournalBuilder {
    let story = rich();
    let given = json!({"gate": "0a1b", "commit": WORK, "by": "user", "rollback": false, "text": "Good enough."});
    story.tell(300, "approval.given", None, given);
    story.stage(1, "end", 1, "approved");
    let finished = json!({"outcome": "tasks_failed", "exitCode": 14, "commit": WORK,
        "reason": "task 3 failed permanently, and task 4 waits for it"});
    story.tell(2, "run.finished", None, finished);
    story
}

/// A team that asks, answers, finds, reviews and chooses results.
pub(super) fn talkative() -> JournalBuilder {
    let story = JournalBuilder::new(&["ann", "ben"]);
    let members = json!([{"name": "ann", "provider": "claude"}, {"name": "ben", "provider": "codex", "role": "reviewer"}]);
    story.tell(
        0,
        "run.started",
        None,
        json!({"task": "Serve the page", "agents": "2:claude", "leader": "claude", "members": members,
            "base": {"commit": BASE, "branch": "main"}, "review": "prefer"}),
    );
    story.task("Serve the page", &[]);
    story.task("Test the page", &["1"]);
    story.reports(
        "ann",
        "1",
        json!({"commit": WORK, "summary": "The page is served on port 8080. I could not run it in Firefox.",
            "handover": "The port is in `src/port.rs`.\nStart it with `make serve`.",
            "problems": ["There is no icon.", "| a table? |"]}),
    );
    let asked = json!({"kind": "ask", "text": "Which port?", "to": "leader"});
    let first = story.says("ann", "question.asked", Some("1"), asked);
    let woken = json!({"wake": 1, "reasons": [{"kind": "question", "about": format!("q{first}")}], "launch": "a"});
    story.says("lead", "leader.woken", None, woken);
    let answered = json!({"question": format!("q{first}"), "answer": "8080"});
    story.says("leader", "question.answered", None, answered);
    let acted = json!({"wake": 1, "actions": 2, "notes": ["The port is 8080."]});
    story.says("leader", "leader.acted", None, acted);
    let asked = json!({"kind": "ask", "text": "May it be slow?", "to": "person"});
    let second = story.says("ben", "question.asked", Some("2"), asked);
    let expired = json!({"question": format!("q{second}"), "reason": "nobody answered in 10 min"});
    story.says("ben", "question.expired", Some("2"), expired);
    let proposal = json!({"kind": "proposal", "text": "", "to": "person",
        "proposal": {"subject": "Draw an icon", "description": "", "paths": [], "blockedBy": []}});
    story.says("ann", "question.asked", Some("1"), proposal);
    let woken =
        json!({"wake": 2, "reasons": [{"kind": "failure", "about": "2@17"}], "launch": "b"});
    story.says("lead", "leader.woken", None, woken);
    let failed = json!({"wake": 2, "reason": "its answer is no JSON"});
    story.says("lead", "leader.failed", None, failed);
    let found = json!({"severity": "minor", "path": "README.md", "line": 3, "claim": "It names the old port.",
        "evidence": "8000", "suggestion": "Say 8080."});
    story.says("ben", "finding.added", Some("2"), found);
    let others =
        json!([{"task": "2", "ref": "refs/teamster/fix-auth/2", "why": "`make test` failed"}]);
    let chosen = json!({"commit": WORK, "reason": "the fewest changed lines", "others": others});
    story.says("lead", "candidate.chosen", Some("1"), chosen);
    let begun = |commit: &str, since: Option<&str>| json!({"commit": commit, "since": since, "reviewer": "ben", "provider": "codex"});
    let findings = json!([
        {"severity": "blocker", "path": "src/port.rs", "line": 12, "claim": "The port is taken from the user.",
            "evidence": "argv is read", "suggestion": "Check it."},
        {"severity": "nit", "claim": "A long name."}]);
    let criteria = json!([
        {"criterion": "The page is shown", "met": true},
        {"criterion": "It is fast", "met": false, "evidence": "It takes 3 s."}]);
    story.says("lead", "review.started", None, begun(BASE, None));
    story.says(
        "lead",
        "review.finished",
        None,
        json!({"commit": BASE, "reviewer": "ben", "verdict": "changes", "findings": findings, "criteria": [], "dropped": 1}),
    );
    story.says("lead", "review.started", None, begun(WORK, Some(BASE)));
    story.says(
        "lead",
        "review.finished",
        None,
        json!({"commit": WORK, "reviewer": "ben", "verdict": "accept", "findings": [{"severity": "minor", "path": "a.rs",
            "line": 1, "claim": "Slow."}], "criteria": criteria, "dropped": 0}),
    );
    story.stage(1, "approval", 0, "all is merged");
    story.tell(
        1,
        "approval.requested",
        None,
        json!({"gate": "g", "commit": WORK, "base": {"commit": BASE, "branch": "main"}, "verified": false, "words": "look"}),
    );
    story
}

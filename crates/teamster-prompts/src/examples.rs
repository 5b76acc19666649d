//! Example facts like those of a real run. An override is tested with them before a run begins, and the tests show the
//! resulting prompts.

use crate::facts::{
    AnswerFacts, CandidateFacts, ChannelFacts, CheckFacts, CheckState, CommonFacts, ConflictFacts,
    ConflictPrompt, DoneTask, EarlierAttempt, FindingFacts, FixFacts, FixPrompt, FolderFacts,
    JudgePrompt, MailFacts, MemberFacts, OtherWorker, PlanLimits, PlanPrompt, QuotedText,
    RecipientFacts, RepositoryFacts, ReviewPrompt, ReviewedTask, TaskFacts, TaskStateFacts,
    WakeLimits, WakePrompt, WorkerPrompt, WorkplaceFacts,
};
use crate::templates::{Prompt, PromptKind};

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn goal() -> String {
    "Users must be able to reset their password by mail.".to_owned()
}

/// Returns the minimal facts: a worker of a plain team, without a run.
fn alone() -> CommonFacts {
    CommonFacts {
        you: RecipientFacts {
            name: "ann".to_owned(),
            team: "crew".to_owned(),
            ..RecipientFacts::default()
        },
        reach: ChannelFacts {
            tools: None,
            command: Some("/usr/local/bin/teamster".to_owned()),
        },
        place: WorkplaceFacts { is_shared: true },
        ..CommonFacts::default()
    }
}

fn in_run() -> CommonFacts {
    CommonFacts {
        you: RecipientFacts {
            name: "worker-2".to_owned(),
            team: "reset-1116-090000".to_owned(),
            role: Some("executor".to_owned()),
            meaning: "Change what the task needs, and nothing else.".to_owned(),
        },
        goal: Some(goal()),
        others: vec![OtherWorker {
            worker: "worker-1".to_owned(),
            task: "4".to_owned(),
            subject: "Describe the new page in the manual".to_owned(),
            paths: texts(&["docs/**"]),
        }],
        more_others: 0,
        earlier: None,
        answers: Vec::new(),
        messages: Vec::new(),
        checks: CheckFacts {
            proofs: Vec::new(),
            passing: texts(&["cargo test", "cargo clippy -- -D warnings"]),
            targets: Vec::new(),
            failing: texts(&["make lint-docs"]),
            has_gate: true,
        },
        reach: ChannelFacts {
            tools: Some("mcp__teamster__".to_owned()),
            command: Some("/usr/local/bin/teamster".to_owned()),
        },
        place: WorkplaceFacts { is_shared: false },
    }
}

fn tokens_done() -> DoneTask {
    DoneTask {
        id: "1".to_owned(),
        worker: Some("worker-1".to_owned()),
        subject: "Make and check reset tokens".to_owned(),
        summary: "Tokens are made, stored as hashes and checked; 6 tests cover expiry and reuse."
            .to_owned(),
        handover:
            "`tokens::issue(user)` returns the token, `tokens::redeem(text)` the user or why not.\n\
                   A token is good for 30 minutes (`tokens::LIFETIME`)."
                .to_owned(),
        problems: texts(&["Old tokens are removed only when the next one is made."]),
        files: texts(&["src/tokens.rs", "tests/tokens.rs"]),
        more_files: 0,
        no_change: false,
    }
}

fn form_task() -> TaskFacts {
    TaskFacts {
        id: "3".to_owned(),
        subject: "Add the page that sets a new password".to_owned(),
        description:
            "The page is opened by the link in the mail. It asks for the new password twice.\n\n\
                      Look at src/pages/login.rs for how pages are made here."
                .to_owned(),
        accept: texts(&[
            "A link that was used or has expired shows a page that says so.",
            "The old password no longer works after the change.",
        ]),
        paths: texts(&["src/pages/**", "tests/pages/**"]),
    }
}

impl Prompt for WorkerPrompt {
    const KIND: PromptKind = PromptKind::Worker;

    fn examples() -> Vec<Self> {
        let bare = Self {
            situation: alone(),
            task: TaskFacts {
                id: "1".to_owned(),
                subject: "Fix the parser".to_owned(),
                ..TaskFacts::default()
            },
            builds_on: Vec::new(),
        };
        let typical = Self {
            situation: in_run(),
            task: form_task(),
            builds_on: vec![tokens_done()],
        };
        let mut again = typical.clone();
        again.situation.earlier = Some(EarlierAttempt {
            how: "This task was tried once before. worker-3 worked on it for 12 min and failed."
                .to_owned(),
            reason: "exit code 1: the page shows the form for a link that has expired".to_owned(),
            kept: Some("refs/teamster/reset-1116-090000/task-3.attempt-1".to_owned()),
            patch: Some("/tmp/teamster-0a1b/earlier.patch".to_owned()),
            files: texts(&["src/pages/reset.rs"]),
            is_lost: true,
            remarks: vec![QuotedText {
                from: "The reviewer".to_owned(),
                text: "The token is read twice.".to_owned(),
            }],
        });
        again.situation.answers = vec![AnswerFacts {
            question: "May the page reuse the form of the settings?".to_owned(),
            from: "lead".to_owned(),
            text: "Yes, but move it to src/pages/forms.rs.".to_owned(),
        }];
        again.situation.messages = vec![MailFacts {
            from: "worker-1".to_owned(),
            text: "`tokens::redeem` now returns the time of expiry, too.".to_owned(),
        }];
        again.situation.checks.proofs = texts(&["cargo test --test pages"]);
        again.situation.checks.targets = texts(&["cargo test --test login"]);
        again.situation.reach.tools = None;
        vec![bare, typical, again]
    }
}

impl Prompt for FixPrompt {
    const KIND: PromptKind = PromptKind::Fix;

    fn examples() -> Vec<Self> {
        let task = TaskFacts {
            id: "7".to_owned(),
            subject: "Fix what `cargo test` finds".to_owned(),
            ..TaskFacts::default()
        };
        let bare = Self {
            situation: alone(),
            task: task.clone(),
            fix: FixFacts {
                command: "cargo test".to_owned(),
                how: "with exit code 101".to_owned(),
                was_failing: true,
                ..FixFacts::default()
            },
        };
        let typical = Self {
            situation: in_run(),
            task,
            fix: FixFacts {
                command: "cargo test".to_owned(),
                how: "with exit code 101".to_owned(),
                was_failing: false,
                output: "test pages::expired_link_is_refused ... FAILED\n\
                         assertion `left == right` failed\n  left: 200\n right: 410\n\
                         test result: FAILED. 41 passed; 1 failed"
                    .to_owned(),
                merged: vec![tokens_done()],
                other_checks: vec![CheckState {
                    command: "cargo clippy -- -D warnings".to_owned(),
                    state: "passes".to_owned(),
                    output: String::new(),
                }],
            },
        };
        vec![bare, typical]
    }
}

impl Prompt for ConflictPrompt {
    const KIND: PromptKind = PromptKind::Conflict;

    fn examples() -> Vec<Self> {
        let task = TaskFacts {
            id: "8".to_owned(),
            subject: "Resolve the conflict of task 3: Add the page that sets a new password"
                .to_owned(),
            ..TaskFacts::default()
        };
        let incoming = DoneTask {
            id: "3".to_owned(),
            worker: Some("worker-2".to_owned()),
            subject: "Add the page that sets a new password".to_owned(),
            summary: "The page is there, and every link works once.".to_owned(),
            files: texts(&["src/pages/mod.rs", "src/pages/reset.rs"]),
            ..DoneTask::default()
        };
        let bare = Self {
            situation: alone(),
            task: task.clone(),
            conflict: ConflictFacts {
                files: texts(&["src/pages/mod.rs"]),
                incoming: DoneTask {
                    id: "3".to_owned(),
                    ..DoneTask::default()
                },
                incoming_commit: Some("c0ffee".to_owned()),
                ..ConflictFacts::default()
            },
        };
        let typical = Self {
            situation: in_run(),
            task,
            conflict: ConflictFacts {
                files: texts(&["src/pages/mod.rs"]),
                incoming,
                incoming_description: form_task().description,
                incoming_commit: Some("c0ffee".to_owned()),
                incoming_patch: Some("/tmp/teamster-0a1b/task-3.patch".to_owned()),
                incoming_diff: "--- a/src/pages/mod.rs\n+++ b/src/pages/mod.rs\n@@ -1,2 +1,3 @@\n pub mod login;\n\
                                +pub mod reset;\n pub mod settings;"
                    .to_owned(),
                merged: vec![DoneTask {
                    id: "2".to_owned(),
                    worker: Some("worker-1".to_owned()),
                    subject: "Add a page for two-factor sign-in".to_owned(),
                    summary: "The page asks for the code after the password.".to_owned(),
                    files: texts(&["src/pages/mod.rs", "src/pages/code.rs"]),
                    ..DoneTask::default()
                }],
                merged_patch: Some("/tmp/teamster-0a1b/merged.patch".to_owned()),
                merged_diff: "--- a/src/pages/mod.rs\n+++ b/src/pages/mod.rs\n@@ -1,2 +1,3 @@\n+pub mod code;\n \
                              pub mod login;"
                    .to_owned(),
                failed_before: Some("it left src/pages/mod.rs as it was".to_owned()),
            },
        };
        vec![bare, typical]
    }
}

fn members() -> Vec<MemberFacts> {
    vec![
        MemberFacts {
            name: "worker-1".to_owned(),
            role: Some("executor".to_owned()),
            provider: "codex".to_owned(),
            can: texts(&["code-edit", "general"]),
        },
        MemberFacts {
            name: "worker-2".to_owned(),
            role: None,
            provider: "claude".to_owned(),
            can: texts(&["testing"]),
        },
    ]
}

fn check_states() -> Vec<CheckState> {
    vec![
        CheckState {
            command: "cargo test".to_owned(),
            state: "passes".to_owned(),
            output: String::new(),
        },
        CheckState {
            command: "make lint-docs".to_owned(),
            state: "fails".to_owned(),
            output: "docs/index.md:3: no such page".to_owned(),
        },
    ]
}

impl Prompt for PlanPrompt {
    const KIND: PromptKind = PromptKind::Plan;

    fn examples() -> Vec<Self> {
        let bare = Self {
            team: "crew".to_owned(),
            goal: "Mend it.".to_owned(),
            schema: "{}".to_owned(),
            ..Self::default()
        };
        let typical = Self {
            team: "reset-1116-090000".to_owned(),
            goal: goal(),
            meaning: "One task for each page.".to_owned(),
            members: members(),
            checks: check_states(),
            repository: RepositoryFacts {
                files: 214,
                folders: vec![
                    FolderFacts {
                        path: String::new(),
                        files: 6,
                    },
                    FolderFacts {
                        path: "src".to_owned(),
                        files: 208,
                    },
                ],
                paths: texts(&["Cargo.toml", "README.md", "src/pages/login.rs"]),
                readme: "# Shop\n\nA shop that sells one thing.".to_owned(),
                instructions: texts(&["AGENTS.md"]),
            },
            can_read: true,
            limits: PlanLimits {
                tasks: Some(50),
                budget: Some("2.00 US dollars".to_owned()),
            },
            may_ask: true,
            requirements: false,
            previous: Some("{\n  \"tasks\": []\n}".to_owned()),
            answers: vec![AnswerFacts {
                question: "Which provider sends the mail?".to_owned(),
                from: "user".to_owned(),
                text: "The one in src/mail.rs.".to_owned(),
            }],
            earlier: texts(&["No task for the tests alone."]),
            revise: Some("Leave the manual out.".to_owned()),
            schema: "{\n  \"type\": \"object\"\n}".to_owned(),
        };
        vec![bare, typical]
    }
}

impl Prompt for WakePrompt {
    const KIND: PromptKind = PromptKind::Wake;

    fn examples() -> Vec<Self> {
        let bare = Self {
            team: "crew".to_owned(),
            goal: "Mend it.".to_owned(),
            reason: "a task failed permanently".to_owned(),
            schema: "{}".to_owned(),
            ..Self::default()
        };
        let typical = Self {
            team: "reset-1116-090000".to_owned(),
            goal: goal(),
            analysis: "Sign-in is in `src/auth`. There are no tokens yet.".to_owned(),
            assumptions: texts(&["Mails are sent by the queue that is there."]),
            answers: vec![AnswerFacts {
                question: "How long is a link valid?".to_owned(),
                from: "user".to_owned(),
                text: "Thirty minutes.".to_owned(),
            }],
            notes: texts(&["The page waits for the tokens."]),
            reason: "worker-2 asks a question".to_owned(),
            subject: vec![QuotedText {
                from: "Question q17 of worker-2 about task 3".to_owned(),
                text: "May the page reuse the form of the settings?".to_owned(),
            }],
            has_findings: false,
            digest: texts(&["09:12 task 1 was merged", "09:14 worker-2 began task 3"]),
            tasks: vec![TaskStateFacts {
                id: "3".to_owned(),
                state: "is being worked on".to_owned(),
                worker: Some("worker-2".to_owned()),
                subject: form_task().subject,
                description: form_task().description,
                accept: form_task().accept,
            }],
            members: members(),
            limits: WakeLimits {
                wakes_left: Some(19),
            },
            schema: "{\n  \"type\": \"object\"\n}".to_owned(),
        };
        let findings = Self {
            reason: "worker-3 found something in the merged work that should be fixed, and you decide what becomes of each \
                     finding"
                .to_owned(),
            subject: vec![QuotedText {
                from: "Finding f1 of worker-3, major, in src/tokens.rs:12".to_owned(),
                text: "A token that was redeemed can be redeemed again within a second."
                    .to_owned(),
            }],
            has_findings: true,
            ..typical.clone()
        };
        vec![bare, typical, findings]
    }
}

impl Prompt for ReviewPrompt {
    const KIND: PromptKind = PromptKind::Review;

    fn examples() -> Vec<Self> {
        let bare = Self {
            team: "crew".to_owned(),
            goal: "Mend it.".to_owned(),
            base: "ba5e".to_owned(),
            commit: "c0ffee".to_owned(),
            schema: "{}".to_owned(),
            ..Self::default()
        };
        let typical = Self {
            team: "reset-1116-090000".to_owned(),
            goal: goal(),
            tasks: vec![ReviewedTask {
                done: tokens_done(),
                accept: texts(&["A token works once."]),
            }],
            checks: check_states(),
            base: "ba5e".to_owned(),
            commit: "c0ffee".to_owned(),
            since: Some("decade".to_owned()),
            stat: " src/tokens.rs | 84 ++++".to_owned(),
            diff:
                "--- /dev/null\n+++ b/src/tokens.rs\n@@ -0,0 +1 @@\n+pub const LIFETIME: u64 = 30;"
                    .to_owned(),
            patch: Some("teamster-change.patch".to_owned()),
            findings: vec![FindingFacts {
                severity: "major".to_owned(),
                path: Some("src/tokens.rs".to_owned()),
                line: Some(12),
                claim: "A token that was redeemed can be redeemed again within a second."
                    .to_owned(),
                left: None,
            }],
            schema: "{\n  \"type\": \"object\"\n}".to_owned(),
        };
        vec![bare, typical]
    }
}

impl Prompt for JudgePrompt {
    const KIND: PromptKind = PromptKind::Judge;

    fn examples() -> Vec<Self> {
        let bare = Self {
            team: "crew".to_owned(),
            goal: "Mend it.".to_owned(),
            base: "ba5e".to_owned(),
            candidates: Vec::new(),
        };
        let candidate = |id: &str, worker: &str, commit: &str| CandidateFacts {
            id: id.to_owned(),
            worker: Some(worker.to_owned()),
            commit: commit.to_owned(),
            summary: "Tokens are made and checked.".to_owned(),
            stat: " src/tokens.rs | 84 ++++".to_owned(),
            diff: "--- /dev/null\n+++ b/src/tokens.rs".to_owned(),
            patch: Some(format!("result-{id}.patch")),
        };
        let typical = Self {
            team: "reset-1116-090000".to_owned(),
            goal: goal(),
            base: "ba5e".to_owned(),
            candidates: vec![
                candidate("1", "worker-1", "c0ffee"),
                candidate("2", "worker-2", "decade"),
            ],
        };
        vec![bare, typical]
    }
}

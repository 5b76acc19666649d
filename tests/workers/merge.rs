//! Work that is finished without a run: it accumulates, is merged by `teamster merge`, and lands when a person approves.

use serde_json::Value;

use super::{Crew, kill_9};

/// Writes a file for the task, and another one that lists the files at its beginning.
const PART: &str = r#"ls > "list-$TEAMSTER_TASK_ID.txt"; echo done > "part-$TEAMSTER_TASK_ID.txt""#;
/// Changes the same line as all other tasks, and writes a file for the task.
const CLASH: &str = r#"echo "$TEAMSTER_TASK_ID" > a.txt; echo done > "part-$TEAMSTER_TASK_ID.txt""#;

impl Crew {
    fn task_after(&self, subject: &str, blockers: &[&str], more: &[&str]) -> String {
        let mut args: Vec<&str> = more.to_vec();
        for blocker in blockers {
            args.extend(["--blocked-by", blocker]);
        }
        self.project.task(subject, &args)
    }

    fn pinned(&self, task: &str) -> String {
        self.git(&["rev-parse", &format!("refs/teamster/crew/task-{task}")])
    }

    fn integration(&self) -> String {
        self.git(&["rev-parse", "omc-team/crew/integration"])
    }

    fn is_in(&self, commit: &str, branch: &str) -> bool {
        let missing = self.git(&["rev-list", "--count", commit, "--not", branch, "--"]);
        missing == "0"
    }

    fn stop_all(&self) {
        self.project
            .run(["shutdown", "--team", "crew", "--json"])
            .exits(0);
    }

    /// Returns the commit of the open gate.
    fn asked_about(&self) -> String {
        let opened = self.events("approval.requested");
        opened.last().unwrap()["data"]["commit"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn approve(&self) {
        let commit = self.asked_about();
        self.project
            .run(["approve", "--team", "crew", "--commit", &commit])
            .exits(0);
    }

    fn unmerged(&self, worker: &str) -> u64 {
        let ran = self.project.run(["worktree", "list", "--json"]).succeeds();
        let rows = ran.json()["worktrees"].as_array().unwrap().clone();
        let row = rows.into_iter().find(|row| row["name"] == worker);
        row.unwrap()["unmerged"].as_u64().unwrap()
    }
}

/// Makes a team with five dependent tasks, completed by three workers that have stopped.
fn five_done() -> Crew {
    let crew = Crew::new();
    let one = crew.task("one");
    let two = crew.task("two");
    let three = crew.task_after("three", &[&one, &two], &[]);
    let four = crew.task_after("four", &[&one], &[]);
    crew.task_after("five", &[&three, &four], &[]);
    for name in ["ann", "ben", "cyn"] {
        crew.start(name, PART);
    }
    for id in 1..=5 {
        crew.until_status(&id.to_string(), "completed");
    }
    crew.stop_all();
    crew
}

#[test]
fn five_dependent_tasks_of_three_workers_are_merged_and_land() {
    let crew = five_done();
    for (task, blockers) in [
        ("3", vec!["1", "2"]),
        ("4", vec!["1"]),
        ("5", vec!["3", "4"]),
    ] {
        let pinned = crew.pinned(task);
        for blocker in blockers {
            assert!(
                crew.is_in(&crew.pinned(blocker), &pinned),
                "{task} builds on {blocker}"
            );
        }
    }
    let seen = crew.git(&["show", &format!("{}:list-5.txt", crew.pinned("5"))]);
    for part in 1..=4 {
        assert!(seen.contains(&format!("part-{part}.txt")), "{seen}");
    }
    crew.project.run(["worktree", "gc"]).exits(0);
    for task in 1..=5 {
        let pinned = crew.pinned(&task.to_string());
        let on = crew.git(&["branch", "--list", "omc-team/*", "--contains", &pinned]);
        assert!(!on.is_empty(), "task {task} is on a branch after gc");
    }
    let main = crew.git(&["rev-parse", "main"]);
    crew.project
        .run(["merge", "crew", "--verify", "test -e part-5.txt"])
        .exits(0);
    assert_eq!(crew.git(&["rev-parse", "main"]), main, "nobody approved");
    let merged = crew.integration();
    assert_eq!(crew.asked_about(), merged);
    // Again: nothing is left to do, and nothing moves. The team may be named in either way.
    crew.project.run(["merge", "--team", "crew"]).exits(0);
    assert_eq!(crew.integration(), merged);
    crew.project.run(["approve", "--team", "crew"]).fails(2);
    crew.project.run(["approve", "crew"]).fails(2);
    crew.project
        .run(["approve", "nobody", "--commit", &merged])
        .fails(3);
    crew.approve();
    for task in 1..=5 {
        assert!(crew.is_in(&crew.pinned(&task.to_string()), "main"));
        let part = crew.project.folder().join(format!("part-{task}.txt"));
        assert!(part.exists(), "task {task} has landed");
    }
    let again = crew.project.run(["merge", "crew"]).succeeds();
    assert!(
        again.stdout.contains("no finished task"),
        "{}",
        again.stdout
    );
    assert_eq!(crew.git(&["status", "--porcelain"]), "");
}

#[test]
fn workers_branch_accumulates_its_tasks_through_restarts() {
    let crew = Crew::new();
    for subject in ["one", "two", "nothing", "three"] {
        crew.task(subject);
    }
    let command = format!(r#"[ "$TEAMSTER_TASK_SUBJECT" = nothing ] || {{ {PART}; }}"#);
    crew.start("ann", &command);
    crew.until_status("4", "completed");
    let holds_all = |crew: &Crew| {
        for task in ["1", "2", "4"] {
            let pinned = crew.pinned(task);
            assert!(crew.is_in(&pinned, "omc-team/crew/ann"), "task {task}");
        }
        assert_eq!(crew.unmerged("ann"), 3);
    };
    holds_all(&crew);
    kill_9(&crew.heartbeat("ann").unwrap()["pid"]);
    crew.kill_all_of("ann");
    crew.start("ann", &command);
    holds_all(&crew);
    crew.stop_all();
    crew.project.run(["worktree", "gc"]).exits(0);
    holds_all(&crew);
    let on = crew.task("after it landed");
    crew.project.run(["merge", "crew"]).exits(0);
    crew.approve();
    crew.start("ann", &command);
    crew.until_status(&on, "completed");
    assert!(
        crew.is_in("main", "omc-team/crew/ann"),
        "it begins where its work landed"
    );
    crew.project.run(["merge", "crew"]).exits(0);
    crew.approve();
    assert!(crew.is_in(&crew.pinned(&on), "main"));
}

#[test]
fn conflicting_task_is_named_and_the_others_are_merged() {
    let crew = Crew::new();
    crew.project.run(["team", "join", "crew", "ann"]).succeeds();
    crew.project.run(["team", "join", "crew", "ben"]).succeeds();
    crew.task_after("one", &[], &["--owner", "ann"]);
    crew.task_after("two", &[], &["--owner", "ben"]);
    crew.start("ann", CLASH);
    crew.start("ben", CLASH);
    crew.until_status("1", "completed");
    crew.until_status("2", "completed");
    crew.stop_all();
    let other = crew.task("other");
    crew.start("cyn", PART);
    crew.until_status(&other, "completed");
    for _ in 0..2 {
        let ran = crew.project.run(["merge", "crew"]).exits(14);
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(told.contains("task 2: its work is NOT merged"), "{told}");
        assert!(told.contains("refs/teamster/crew/task-2"), "{told}");
        assert!(told.contains("a.txt"), "{told}");
    }
    let merged = crew.integration();
    for (task, is_merged) in [("1", true), ("2", false), (other.as_str(), true)] {
        assert_eq!(crew.is_in(&crew.pinned(task), &merged), is_merged, "{task}");
    }
    // When the task is repeated, it begins on top of what is merged.
    crew.stop_all();
    crew.project.run(["task", "retry", "2"]).succeeds();
    crew.start("ben", CLASH);
    crew.until_status("2", "completed");
    crew.project.run(["merge", "crew"]).exits(0);
    crew.approve();
    assert!(crew.is_in(&crew.pinned("2"), "main"));
    assert_eq!(crew.git(&["show", "main:a.txt"]), "2");
}

#[test]
fn merge_that_is_killed_anywhere_goes_on_and_of_two_at_once_one_merges() {
    let crew = five_done();
    let last = |crew: &Crew| {
        let ran = crew.project.run(["journal", "--json"]).succeeds();
        let events = ran.json()["events"].as_array().unwrap().clone();
        events.last().unwrap()["seq"].as_u64().unwrap()
    };
    let mut kills: u64 = 0;
    loop {
        // Each kill comes a little later, so that the merge gets further.
        let at = last(&crew) + 1 + kills;
        let call = crew.project.call(["merge", "crew"]);
        let ran = call.env("TEAMSTER_TEST_DIE_AT_EVENT", at.to_string()).run();
        match ran.code {
            None => kills += 1,
            code => {
                assert_eq!(code, Some(0), "{}{}", ran.stdout, ran.stderr);
                break;
            }
        }
        assert!(kills < 200, "it never ends");
    }
    assert!(kills > 4, "it was killed {kills} times");
    let calls: Vec<_> = (0..2)
        .map(|_| crew.project.call(["merge", "crew"]).spawn())
        .collect();
    for mut call in calls {
        let code = call.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 4)), "{code:?}");
    }
    let merged = crew.integration();
    let commits = crew.git(&[
        "rev-list",
        "--merges",
        "--first-parent",
        "--count",
        "main..omc-team/crew/integration",
    ]);
    assert!(commits.parse::<u32>().unwrap() <= 5, "{commits}");
    assert_eq!(crew.asked_about(), merged);
    crew.approve();
    for task in 1..=5 {
        assert!(crew.is_in(&crew.pinned(&task.to_string()), "main"));
    }
}

#[test]
fn merged_work_is_rejected_or_revised_like_that_of_a_run() {
    let crew = Crew::new();
    crew.task("one");
    crew.start("ann", PART);
    crew.until_status("1", "completed");
    crew.project.run(["merge", "crew"]).exits(0);
    let commit = crew.asked_about();
    let args = [
        "revise",
        "more of it",
        "--team",
        "crew",
        "--commit",
        &commit,
    ];
    crew.project.run(args).exits(0);
    // Ann is still running, and takes the requested task.
    crew.until_status("2", "completed");
    crew.project.run(["merge", "crew"]).exits(0);
    let commit = crew.asked_about();
    assert!(crew.is_in(&crew.pinned("2"), &commit));
    let args = [
        "reject",
        "no",
        "--rollback",
        "--team",
        "crew",
        "--commit",
        &commit,
    ];
    crew.project.run(args).exits(10);
    assert!(!crew.is_in(&crew.pinned("1"), "main"));
    assert!(crew.is_in(&crew.pinned("1"), "refs/teamster/crew/rejected"));
}

#[test]
fn check_that_fails_on_merged_work_opens_no_gate() {
    let crew = Crew::new();
    crew.task("one");
    crew.start("ann", PART);
    crew.until_status("1", "completed");
    crew.project
        .run(["merge", "crew", "--verify", "false"])
        .exits(11);
    assert!(crew.events("approval.requested").is_empty());
    crew.project
        .run(["merge", "crew", "--verify", "true"])
        .exits(0);
    crew.approve();
    assert!(crew.is_in(&crew.pinned("1"), "main"));
}

#[test]
fn merge_is_refused_to_an_agent_and_while_a_run_of_the_team_is_not_over() {
    let crew = Crew::new();
    crew.task("one");
    crew.start(
        "ann",
        "teamster merge crew 2> refused.txt; echo $? >> refused.txt",
    );
    crew.until_status("1", "completed");
    let told = crew.git(&["show", &format!("{}:refused.txt", crew.pinned("1"))]);
    assert!(told.contains("for people") || told.ends_with('6'), "{told}");
    let run = [
        "run",
        "--team",
        "shop",
        "1:w",
        "--provider",
        "w=command:echo x > x.txt",
        "go",
        "--approve",
        "never",
    ];
    crew.project.run(run).exits(0);
    let refused = crew.project.run(["merge", "shop", "--json"]).fails(4);
    let error: Value = refused.error();
    assert!(error.to_string().contains("gate"), "{error}");
}

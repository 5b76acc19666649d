//! Completed tasks: where and by whom they are done, and what is left of them.

use super::Crew;

#[test]
fn tasks_are_done_once_in_worktrees_and_kept_as_commits() {
    let crew = Crew::new();
    let head = crew.git(&["rev-parse", "HEAD"]);
    let ids: Vec<String> = (1..=6).map(|n| crew.task(&format!("part {n}"))).collect();
    let command = r#"echo "$TEAMSTER_WORKER" > "part-$TEAMSTER_TASK_ID.txt"; echo did it"#;
    for name in ["ann", "ben", "cyn"] {
        crew.start(name, command);
    }
    for id in &ids {
        let task = crew.until_status(id, "completed");
        let result = &task["metadata"]["teamster"]["result"];
        assert_eq!(result["summary"], "did it");
        assert_eq!(
            result["files"],
            serde_json::json!([format!("part-{id}.txt")])
        );
        let pinned = crew.git(&["rev-parse", &format!("refs/teamster/crew/task-{id}")]);
        assert_eq!(result["commit"], pinned.as_str());
        let content = crew.git(&["show", &format!("{pinned}:part-{id}.txt")]);
        assert_eq!(
            task["owner"],
            content.as_str(),
            "whoever did it is its owner"
        );
        let message = crew.git(&["log", "-1", "--format=%B", &pinned]);
        assert!(
            message.contains(&format!("Teamster-Task: {id}")),
            "{message}"
        );
    }
    assert_eq!(
        crew.events("task.claimed").len(),
        6,
        "each was claimed once"
    );
    assert_eq!(crew.events("task.completed").len(), 6);
    // The user's own work tree is unchanged.
    assert_eq!(crew.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(crew.git(&["status", "--porcelain"]), "");
    assert_eq!(crew.git(&["branch", "--show-current"]), "main");
}

#[test]
fn an_attempt_that_fails_is_told_and_its_work_is_kept() {
    let crew = Crew::new();
    let id = crew.task("impossible");
    crew.start("ann", "echo half > half.txt; echo it broke >&2; exit 3");
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    let task = crew.shown(&id);
    assert_eq!(task["status"], "pending");
    assert_eq!(task["metadata"]["failedAttempts"], 1);
    let failed = &crew.events("task.failed")[0];
    let error = failed["data"]["failure"]["lastError"].as_str().unwrap();
    assert!(
        error.contains("exit code 3") && error.contains("it broke"),
        "{error}"
    );
    let kept = crew.git(&["show", "refs/teamster/crew/task-1.attempt-1:half.txt"]);
    assert_eq!(kept, "half");
    let mail = crew
        .project
        .run(["message", "read", "--as", "lead", "--json"]);
    let mail = mail.succeeds().json();
    let told = mail["messages"].as_array().unwrap().iter();
    let told = told.filter(|message| message["type"] == "task_failed");
    assert!(
        told.clone().any(|message| message["taskId"] == id.as_str()),
        "{mail}"
    );
}

#[test]
fn an_agent_gets_its_prompt_its_mail_and_no_foreign_secret() {
    let crew = Crew::new();
    crew.project.run(["team", "join", "crew", "ann"]).succeeds();
    let words = [
        "message",
        "send",
        "--to",
        "ann",
        "--from",
        "lead",
        "mind the gap",
    ];
    crew.project.run(words).succeeds();
    let id = crew.project.task(
        "Read; $(touch planted) `id`",
        &["--description", "It's \"quoted\"\nand long"],
    );
    let command = r#"cat > prompt.txt; env > env.txt; cp "$TEAMSTER_TASK_FILE" task.txt; echo ok"#;
    let secrets = [("ANTHROPIC_API_KEY", "sk-ant-secret"), ("MINE", "mine")];
    crew.start_with("ann", command, &[], &secrets);
    crew.until_status(&id, "completed");
    let read = |file: &str| crew.git(&["show", &format!("refs/teamster/crew/task-1:{file}")]);
    let prompt = read("prompt.txt");
    assert!(prompt.contains("> It's \"quoted\"\n> and long"), "{prompt}");
    assert!(prompt.contains("from lead:\n\n> mind the gap"), "{prompt}");
    let variables = read("env.txt");
    assert!(variables.contains("TEAMSTER_TASK_SUBJECT=Read; $(touch planted) `id`"));
    assert!(variables.contains("TEAMSTER_WORKER=ann") && variables.contains("MINE=mine"));
    assert!(
        !variables.contains("sk-ant-secret"),
        "a key of another client was passed on"
    );
    let task = read("task.txt");
    assert!(task.contains("\"subject\""), "{task}");
    assert!(
        !task.contains("token"),
        "the proof of the claim is not for the agent"
    );
    let files = crew.git(&["ls-tree", "--name-only", "refs/teamster/crew/task-1"]);
    assert!(!files.contains("planted"), "{files}");
    // The messages that the agent got are acknowledged.
    let list = crew
        .project
        .run(["message", "list", "--json"])
        .succeeds()
        .json();
    let sent = list["messages"].as_array().unwrap().iter();
    let sent = sent.filter(|message| message["content"] == "mind the gap");
    assert!(
        sent.clone().all(|message| !message["ackedAt"].is_null()),
        "{list}"
    );
    assert_eq!(sent.count(), 1);
}

#[test]
fn the_log_has_everything_redacted_and_can_be_read() {
    let crew = Crew::new();
    let id = crew.task("talk");
    crew.start(
        "ann",
        "echo hello; echo token=ghp_abcdefghijklmnopqrstuvwxyz0123456789 >&2",
    );
    crew.until_status(&id, "completed");
    let logs = crew
        .project
        .run(["worker", "logs", "ann", "--task", "1"])
        .succeeds();
    assert!(logs.stdout.contains("agent    hello"), "{}", logs.stdout);
    assert!(logs.stdout.contains("stderr"), "{}", logs.stdout);
    let kept = crew.project.folder().join(".omc/logs/crew/ann/1.jsonl");
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(
        kept.contains("[redacted]") && !kept.contains("ghp_"),
        "{kept}"
    );
    for line in kept.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn hooks_of_an_agents_own_session_touch_nothing_of_the_users() {
    let crew = Crew::new();
    let id = crew.task("hooks");
    let command = r#"echo '{"session_id":"s","agent_id":"a","agent_type":"t","hook_event_name":"SubagentStart"}' | teamster hook SubagentStart; echo done"#;
    crew.start("ann", command);
    crew.until_status(&id, "completed");
    assert!(!crew.project.folder().join(".bkit").exists());
    assert!(!crew.worktree("ann").join(".bkit").exists());
    assert_eq!(crew.events("hook.received").len(), 1);
}

#[test]
fn a_task_that_another_program_opened_again_in_place_is_found_by_who_has_nothing_to_do() {
    let crew = Crew::new();
    let id = crew.task("again");
    crew.start("ann", "echo did it");
    crew.until_status(&id, "completed");
    // Two heartbeats later it has processed all effects of its own work, and only waits.
    let mut beats = std::collections::BTreeSet::new();
    crew.until("ann waits", || {
        let beat = crew.heartbeat("ann");
        let beat = beat.filter(|beat| beat["status"] == "polling");
        beats.extend(beat.map(|beat| beat["lastPollAt"].to_string()));
        beats.len() == 3
    });
    let file = crew.project.home().join(".claude/tasks/crew/1.json");
    let mut task: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    task["status"] = "pending".into();
    task.as_object_mut().unwrap().remove("owner");
    // Written in place, so that the folder does not change.
    std::fs::write(&file, task.to_string()).unwrap();
    crew.until("it is done again", || {
        crew.events("task.completed").len() == 2
    });
}

#[test]
fn whoever_follows_the_log_sees_the_next_task_too() {
    let crew = Crew::new();
    crew.start("ann", "echo this is $TEAMSTER_TASK_SUBJECT");
    // Before there is any log.
    let call = crew.project.call(["worker", "logs", "ann", "--follow"]);
    let mut follower = call.follow();
    for subject in ["one", "two"] {
        crew.task(subject);
        while !follower.line().ends_with(&format!("this is {subject}")) {}
    }
    follower.interrupt();
}

#[test]
fn a_change_in_a_denied_path_fails_the_attempt_and_one_outside_is_sent_to_review() {
    let crew = Crew::new();
    let denied = crew.project.task("denied", &["--owner", "ann"]);
    let outside = crew
        .project
        .task("outside", &["--owner", "ben", "--path", "src/**"]);
    crew.project.run(["team", "join", "crew", "ben"]).exits(0);
    crew.start("ann", "mkdir -p conf; echo SECRET=1 > conf/.env; echo fine");
    crew.start(
        "ben",
        "mkdir src; echo 1 > src/in.txt; echo 2 > out.txt; echo fine",
    );
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    let failed = &crew.events("task.failed")[0];
    assert_eq!(failed["taskId"], denied.as_str());
    let error = failed["data"]["failure"]["lastError"].as_str().unwrap();
    assert!(error.contains("conf/.env"), "{error}");
    let task = crew.until_status(&outside, "completed");
    let result = &task["metadata"]["teamster"]["result"];
    assert_eq!(result["review"], true);
    assert_eq!(result["outsideReservation"], serde_json::json!(["out.txt"]));
}

#[test]
fn tasks_whose_paths_overlap_are_not_at_work_at_once() {
    let crew = Crew::new();
    let marks = crew.project.folder().join(".omc");
    let ids: Vec<String> = ["src/**", "src/a/*", "{src,lib}/a/b.rs", "docs/**"]
        .iter()
        .map(|path| crew.project.task("change", &["--path", path]))
        .collect();
    // A task that changes src leaves a mark meanwhile; two marks at once would mean two at the same time.
    let command = format!(
        r#"echo up; case "$TEAMSTER_TASK_ID" in 4) ;; *) mkdir {0}/busy || {{ echo clash > {0}/clash; exit 1; }}; sleep 1; rmdir {0}/busy ;; esac; echo ok"#,
        marks.display()
    );
    for name in ["ann", "ben", "cyn"] {
        crew.start(name, &command);
    }
    for id in &ids {
        crew.until_status(id, "completed");
    }
    assert!(!marks.join("clash").exists(), "two worked on src at once");
}

#[test]
fn pane_shows_the_agents_words_live_and_the_backend_is_told_alike() {
    let crew = Crew::new();
    crew.task("in a pane");
    let command = "echo words of the agent; echo and its worries >&2; sleep 600";
    crew.start_with("ann", command, &["--tmux"], &[]);
    let socket = crew.project.folder().join(".omc/state/tmux.sock");
    let pane = || {
        let shown = std::process::Command::new("tmux")
            .args(["-S", socket.to_str().unwrap()])
            .args(["capture-pane", "-p", "-J"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    crew.until("the agent's words in its pane", || {
        let shown = pane();
        shown.contains("words of the agent") && shown.contains("and its worries")
    });
    assert_eq!(crew.worker("ann")["backendType"], "tmux");
    let shown = crew.project.run(["worker", "show", "ann"]).succeeds();
    assert!(shown.stdout.contains("backend   tmux"), "{}", shown.stdout);
}

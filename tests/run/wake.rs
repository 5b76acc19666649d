//! A leader that is woken during the run: its prompt, the handling of its decisions, and what happens without them.

use std::fs;

use serde_json::{Value, json};
use teamster_testkit::RunCmd;
use teamster_testkit::wait::wait_for;

use super::Shop;

/// The task fails permanently at once, because four earlier failures are on record.
const BREAK: &str = r#"
Break)
  printf '{"taskId":"%s","lastError":"before","retryCount":4,"lastFailedAt":"2026-01-01T00:00:00.000Z"}' \
    $TEAMSTER_TASK_ID > HOME/.claude/tasks/shop/$TEAMSTER_TASK_ID.failure.json
  echo 'the form is gone' >&2; exit 3 ;;
Mend)
  until test -e ROOT/hold; do sleep 0.05; done
  echo went > went.txt; echo done ;;
Go\ on) echo on > on.txt; echo done ;;
"#;

/// The worker is blocked until it knows the port.
const ASK: &str = r#"
Serve*)
  if grep -q 8080 ROOT/prompt-$TEAMSTER_TASK_ID; then echo 8080 > port.txt; echo done
  else report '{"status": "blocked", "summary": "Which port?"}'; fi ;;
"#;

/// The worker asks for the port in the middle of its task, and waits.
const QUESTION: &str = "
Serve*) TEAMSTER ask 'Which port?' > port.txt && echo done ;;
";

/// A shop with a team that plays a script, and a leader that answers from files.
struct Led {
    shop: Shop,
}

impl Led {
    /// `plan` is the leader's plan, as subjects; each task waits for the one before.
    fn new(work: &str, plan: &[&str]) -> Self {
        let shop = Shop::new();
        let tasks: Vec<Value> = plan
            .iter()
            .enumerate()
            .map(|(place, subject)| {
                let before: Vec<String> = (place > 0)
                    .then(|| format!("t{}", place - 1))
                    .into_iter()
                    .collect();
                json!({ "id": format!("t{place}"), "subject": subject, "blockedBy": before })
            })
            .collect();
        let led = Self { shop };
        led.write("plan", &json!({ "tasks": tasks }).to_string());
        led.write("hold", "");
        led.write("go", "");
        led.write(
            "boss.sh",
            "cat > ROOT/asked\n\
             if grep -q 'You are asked because' ROOT/asked; then\n\
             echo x >> ROOT/wakes; n=$(wc -l < ROOT/wakes); cp ROOT/asked ROOT/wake-$n\n\
             test -e ROOT/go || { touch ROOT/waking; echo thinking; until test -e ROOT/go; do sleep 0.05; done; }\n\
             q=$(grep -o 'Question q[0-9]*' ROOT/asked | head -n 1 | cut -d ' ' -f 2)\n\
             file=ROOT/answer; test ! -e ROOT/answer-$n || file=ROOT/answer-$n\n\
             sed \"s/QUESTION/$q/\" $file\n\
             else cat ROOT/plan; fi\n",
        );
        led.write(
            "agent.sh",
            &format!(
                "cat > ROOT/prompt-$TEAMSTER_TASK_ID\n\
                 report() {{ printf '%s\\n' '```teamster' \"$1\" '```'; }}\n\
                 case \"$TEAMSTER_TASK_SUBJECT\" in\n{work}\nesac\n"
            ),
        );
        led
    }

    fn write(&self, name: &str, text: &str) {
        let aside = self.shop.aside();
        let text = text.replace("ROOT", aside.to_str().unwrap());
        let text = text.replace(
            "TEAMSTER ask",
            concat!(env!("CARGO_BIN_EXE_teamster"), " ask"),
        );
        let text = text.replace("HOME", self.shop.project.home().to_str().unwrap());
        fs::write(aside.join(name), text).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.shop.aside().join(name)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.shop.aside().join(name)).unwrap_or_default()
    }

    fn answers(&self, name: &str, actions: &Value) {
        self.write(
            name,
            &format!("I think so.\n{}\n", json!({ "actions": actions })),
        );
    }

    fn command(&self, leader: &str, approve: &str) -> RunCmd {
        self.command_of("1:w", leader, approve)
    }

    fn command_of(&self, crew: &str, leader: &str, approve: &str) -> RunCmd {
        let aside = self.shop.aside();
        let root = aside.to_str().unwrap();
        RunCmd::new("shop", crew, "mend it")
            .provider(&format!("w=command:sh {root}/agent.sh"))
            .provider(&format!("boss=command:sh {root}/boss.sh"))
            .leader(leader)
            .verify("true")
            .approve(approve)
    }

    fn subjects(&self) -> Vec<String> {
        let tasks = self.shop.tasks();
        let subjects = tasks
            .iter()
            .map(|task| task["subject"].as_str().unwrap().to_owned());
        subjects.collect()
    }
}

/// One task asks the leader; the other ends only once the leader has been woken.
const BESIDE: &str = "
Serve*) TEAMSTER ask 'Which port?' > port.txt && echo done ;;
Other) until test -e ROOT/waking; do sleep 0.05; done; echo other > other.txt; echo done ;;
";

fn replacement() -> Value {
    json!([
        { "action": "cancel_task", "task": "1", "reason": "it cannot be done like that" },
        { "action": "create_task", "subject": "Mend", "description": "Do it another way." },
        { "action": "note", "text": "The form is gone." },
    ])
}

#[test]
fn task_that_failed_permanently_is_replaced_by_the_leader() {
    let led = Led::new(BREAK, &["Break", "Go on"]);
    led.answers("answer", &replacement());
    led.shop.run(led.command("boss", "auto")).exits(0);
    for (file, text) in [("went.txt", "went"), ("on.txt", "on")] {
        assert_eq!(led.shop.git(&["show", &format!("main:{file}")]), text);
    }
    let woken = led.shop.events_of("leader.woken");
    assert_eq!(woken.len(), 1);
    assert_eq!(woken[0]["data"]["reasons"][0]["kind"], "failure");
    let acted = led.shop.events_of("leader.acted");
    assert_eq!(acted[0]["data"]["actions"], 3);
    assert_eq!(acted[0]["data"]["cancelled"][0]["task"], "1");
    let asked = led.read("wake-1");
    for part in [
        "You are asked because task 1 failed permanently",
        "> mend it",
        "the form is gone",
        "Task 2 waits for one that will not be done",
        "worker-1 began task 1",
        "at most 19 more times",
    ] {
        assert!(asked.contains(part), "{part} is not in\n{asked}");
    }
    led.shop.is_quiet();
}

#[test]
fn task_that_failed_and_that_the_leader_only_cancels_is_missing_work() {
    let work = format!("{BREAK}\nFirst) echo 1 > first.txt; echo done ;;\n");
    let led = Led::new(&work, &["First", "Break"]);
    let cancel = json!([{ "action": "cancel_task", "task": "2", "reason": "It is not needed." }]);
    led.answers("answer", &cancel);
    let ran = led.shop.run(led.command("boss", "auto")).exits(14);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let why = "the leader cancelled what had failed and made no other task of it: 2";
    assert!(said.contains(why), "{said}");
    assert_eq!(led.subjects(), ["First"]);
    // A person who sees that may still accept the result, and the end reports that it is incomplete.
    let approve = ["approve", "--team", "shop", "--commit"];
    let commit = led.shop.events_of("approval.requested")[0]["data"]["commit"].clone();
    let approve = [&approve[..], &[commit.as_str().unwrap()]].concat();
    led.shop.call(approve).run().exits(14);
    assert_eq!(led.shop.git(&["show", "main:first.txt"]), "1");
    led.shop.is_quiet();
}

#[test]
fn woken_leader_is_told_its_plan_and_what_it_wrote_down() {
    let led = Led::new(QUESTION, &["Serve it", "Serve more"]);
    led.write(
        "plan",
        &json!({
            "analysis": "There is one server.",
            "assumptions": ["Nobody needs port 80."],
            "tasks": [
                { "id": "a", "subject": "Serve it", "description": "In serve.sh.", "accept": ["It answers."] },
                { "id": "b", "subject": "Serve more", "blockedBy": ["a"] },
            ],
        })
        .to_string(),
    );
    let answer = |text: &str| {
        json!([
            { "action": "answer", "question": "QUESTION", "text": text },
            { "action": "note", "text": format!("I said {text}.") },
        ])
    };
    led.answers("answer-1", &answer("8080"));
    led.answers("answer-2", &answer("8081"));
    led.shop.run(led.command("boss", "auto")).exits(0);
    let (first, second) = (led.read("wake-1"), led.read("wake-2"));
    for part in [
        "There is one server.",
        "Nobody needs port 80.",
        "In serve.sh.",
        "It answers.",
    ] {
        assert!(first.contains(part), "{part} is not in\n{first}");
    }
    assert!(!first.contains("Your notes"), "{first}");
    assert!(second.contains("> - I said 8080."), "{second}");
    // A completed task needs no description any more.
    assert!(!second.contains("In serve.sh."), "{second}");
    led.shop.is_quiet();
}

#[test]
fn blocked_worker_is_answered_by_the_leader() {
    let led = Led::new(ASK, &["Serve it"]);
    let answer = json!([{ "action": "answer", "question": "task-1", "text": "Use port 8080." }]);
    led.answers("answer", &answer);
    led.shop.run(led.command("boss", "auto")).exits(0);
    assert_eq!(led.shop.git(&["show", "main:port.txt"]), "8080");
    let asked = led.read("wake-1");
    assert!(
        asked.contains("Question task-1 of worker-1 about task 1"),
        "{asked}"
    );
    assert!(asked.contains("> Which port?"), "{asked}");
    assert_eq!(led.shop.events_of("leader.woken").len(), 1);
    assert_eq!(led.shop.events_of("task.unblocked")[0]["actor"], "leader");
}

#[test]
fn leader_that_answers_nonsense_leaves_it_to_the_engine() {
    let led = Led::new(ASK, &["Serve it"]);
    led.write("answer", "Let me think about it.");
    led.shop.run(led.command("boss", "auto")).exits(14);
    let failed = led.shop.events_of("leader.failed");
    // Once for the question, and once for the task that was given up because of it.
    assert_eq!(failed.len(), 2, "{failed:?}");
    let tasks = led.shop.tasks();
    assert_eq!(tasks[0]["state"], "failed", "{tasks:?}");
    let given_up = led.shop.events_of("task.failed");
    let error = given_up.last().unwrap()["data"]["error"].as_str().unwrap();
    assert!(error.contains("blocked: Which port?"), "{error}");
    assert_eq!(
        led.read("wakes").lines().count(),
        4,
        "each time it is asked twice"
    );
    led.shop.is_quiet();
}

#[test]
fn impossible_actions_are_refused_in_words_and_none_is_taken() {
    let led = Led::new(BREAK, &["Break", "Go on"]);
    let new = |id: &str, after: &str| json!({ "action": "create_task", "id": id, "subject": "Mend", "blockedBy": [after] });
    let wrong = json!([
        new("a", "b"),
        new("b", "a"),
        new("c", "c"),
        { "action": "create_task", "subject": "Mend", "owner": "ann" },
        { "action": "cancel_task", "task": "1", "reason": "why not" },
    ]);
    led.answers("answer-1", &wrong);
    led.answers("answer", &replacement());
    led.shop.run(led.command("boss", "auto")).exits(0);
    let again = led.read("wake-2");
    for part in [
        "\"ann\" is not in the team; there are worker-1",
        "the new tasks have a cycle",
    ] {
        assert!(again.contains(part), "{part} is not in\n{again}");
    }
    assert_eq!(led.subjects(), ["Go on", "Mend"]);

    let led = Led::new(BREAK, &["Break", "Go on"]);
    let many: Vec<Value> = (0..10_000)
        .map(|_| json!({ "action": "create_task", "subject": "Mend" }))
        .collect();
    led.answers("answer", &json!(many));
    led.shop.run(led.command("boss", "auto")).exits(14);
    assert_eq!(led.subjects(), ["Break", "Go on"]);
    let failed = led.shop.events_of("leader.failed");
    let reason = failed[0]["data"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("there are 10000 actions; the limit is 50"),
        "{reason}"
    );
}

#[test]
fn leader_is_woken_a_bounded_number_of_times() {
    for (setting, value, wakes) in [
        ("TEAMSTER_LEADER_MAX_WAKES", "", 20),
        ("TEAMSTER_LEADER_MAX_WAKES", "2", 2),
        ("TEAMSTER_LEADER_MAX_WAKES", "0", 0),
    ] {
        let led = Led::new(ASK, &["Serve it"]);
        let answer = json!([{ "action": "answer", "question": "task-1", "text": "Look again." }]);
        led.answers("answer", &answer);
        let call = led.shop.call(led.command("boss", "auto"));
        call.env(setting, value).run().exits(14);
        let woken = led.shop.events_of("leader.woken");
        assert_eq!(woken.len(), wakes, "{value:?}");
        led.shop.is_quiet();
    }
}

#[test]
fn leader_that_has_used_its_part_of_the_time_is_ended_and_the_engine_acts() {
    let led = Led::new(ASK, &["Serve it"]);
    led.remove("go");
    let words = led.command("boss", "auto").more(&["--budget-minutes", "1"]);
    let call = led.shop.call(words);
    let ran = call
        .env("TEAMSTER_LEADER_BUDGET_SHARE", "2%")
        .run()
        .exits(14);
    let failed = led.shop.events_of("leader.failed");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(
        failed[0]["data"]["reason"],
        "it has used its share of the run's time"
    );
    assert!(
        ran.stdout.contains("blocked: Which port?"),
        "{}",
        ran.stdout
    );
    led.shop.is_quiet();
}

#[test]
fn team_works_on_and_its_work_is_merged_while_the_leader_thinks() {
    let led = Led::new(BESIDE, &[]);
    let plan = json!({ "tasks": [{ "id": "a", "subject": "Serve it" }, { "id": "b", "subject": "Other" }] });
    led.write("plan", &plan.to_string());
    led.answers(
        "answer",
        &json!([{ "action": "answer", "question": "QUESTION", "text": "Take 8080." }]),
    );
    led.remove("go");
    let mut host = led.shop.call(led.command_of("2:w", "boss", "auto")).spawn();
    led.shop.until("the other task is merged", || {
        led.shop.events_of("merge.merged").len() == 1
    });
    assert!(led.shop.aside().join("waking").exists());
    assert_eq!(led.shop.events_of("leader.acted"), Vec::<Value>::new());
    led.write("go", "");
    assert_eq!(host.wait().unwrap().code(), Some(0));
    let port = led.shop.git(&["show", "main:port.txt"]);
    assert!(port.contains("Take 8080."), "{port}");
    assert_eq!(led.shop.git(&["show", "main:other.txt"]), "other");
    assert_eq!(led.shop.events_of("leader.woken").len(), 1);
    led.shop.is_quiet();
}

#[test]
fn question_to_a_leader_that_dies_goes_to_the_person_and_nothing_is_lost() {
    let led = Led::new(BESIDE, &[]);
    let plan = json!({ "tasks": [{ "id": "a", "subject": "Serve it" }, { "id": "b", "subject": "Other" }] });
    led.write(
        "boss.sh",
        &format!(
            "cat > ROOT/asked\n\
             if grep -q 'You are asked because' ROOT/asked; then touch ROOT/waking; kill -9 $$\n\
             else echo '{plan}'; fi\n"
        ),
    );
    let call = led.shop.call(led.command_of("2:w", "boss", "auto"));
    let mut host = call.spawn();
    let forwarded = wait_for("the question is for the person", || {
        led.shop.events_of("question.forwarded").pop()
    });
    assert_eq!(forwarded["data"]["reason"], "the leader did not answer it");
    let id = forwarded["data"]["question"].as_str().unwrap().to_owned();
    led.shop
        .run(["answer", &id, "Take 9090.", "--team", "shop"])
        .exits(0);
    assert_eq!(host.wait().unwrap().code(), Some(0));
    let port = led.shop.git(&["show", "main:port.txt"]);
    assert!(port.contains("Take 9090."), "{port}");
    assert_eq!(led.shop.git(&["show", "main:other.txt"]), "other");
    let failed = led.shop.events_of("leader.failed");
    let why = failed[0]["data"]["reason"].as_str().unwrap();
    assert!(why.contains("boss failed: exit code 137"), "{why}");
    led.shop.is_quiet();
}

#[test]
fn leader_that_hangs_is_ended_and_the_run_goes_on_without_it() {
    let work = r#"
Serve*) report '{"status": "blocked", "summary": "Which port?"}' ;;
Other) until test -e ROOT/waking; do echo .; sleep 0.2; done; echo other > other.txt; echo done ;;
"#;
    let led = Led::new(work, &[]);
    let plan = json!({ "tasks": [{ "id": "a", "subject": "Serve it" }, { "id": "b", "subject": "Other" }] });
    led.write("plan", &plan.to_string());
    led.remove("go");
    let call = led.shop.call(led.command_of("2:w", "boss", "auto"));
    call.env("TEAMSTER_WORKER_IDLE_LIMIT", "5s").run().exits(14);
    let failed = led.shop.events_of("leader.failed");
    let why = failed[0]["data"]["reason"].as_str().unwrap();
    assert!(why.contains("too long"), "{why}");
    let merged = led
        .shop
        .git(&["show", "omc-team/shop/integration:other.txt"]);
    assert_eq!(merged, "other", "the others went on");
    led.shop.is_quiet();
}

#[test]
fn leader_that_is_rate_limited_leaves_it_to_the_engine() {
    let led = Led::new(ASK, &[]);
    led.write(
        "boss.toml",
        "[[step]]\ndo = 'pause'\nreason = 'rate-limit'\n",
    );
    let aside = led.shop.aside();
    let root = aside.to_str().unwrap();
    let plan = led
        .shop
        .plan("[[tasks]]\nid = \"a\"\nsubject = \"Serve it\"\n");
    let words = RunCmd::new("shop", "1:w", "mend it")
        .provider(&format!("w=command:sh {root}/agent.sh"))
        .provider(&format!("boss=scripted:{root}/boss.toml"))
        .plan(&plan)
        .leader("boss")
        .verify("true")
        .approve("auto");
    led.shop.run(words).exits(14);
    let failed = led.shop.events_of("leader.failed");
    let why = failed[0]["data"]["reason"].as_str().unwrap();
    assert!(why.contains("boss cannot work now: rate limit"), "{why}");
    led.shop.is_quiet();
}

#[test]
fn task_that_fails_twice_for_the_same_reason_wakes_the_leader_before_it_fails_for_good() {
    let work = "
Flaky) echo 'the form is gone' >&2; exit 3 ;;
Mend) echo went > went.txt; echo done ;;
";
    let led = Led::new(work, &["Flaky"]);
    led.answers("answer", &replacement());
    led.shop.run(led.command("boss", "auto")).exits(0);
    assert_eq!(led.shop.events_of("task.failed").len(), 2);
    let woken = led.shop.events_of("leader.woken");
    assert_eq!(woken.len(), 1);
    assert_eq!(woken[0]["data"]["reasons"][0]["kind"], "failure");
    let asked = led.read("wake-1");
    for part in [
        "task 1 failed 2 times in a row for the same reason, and will be tried again",
        "the form is gone",
    ] {
        assert!(asked.contains(part), "{part} is not in\n{asked}");
    }
    assert_eq!(led.subjects(), ["Mend"]);
}

#[test]
fn actions_that_only_together_make_a_cycle_are_refused_by_the_store_and_told_to_the_leader() {
    let work = "
Serve*) TEAMSTER ask 'Which port?' > port.txt && echo done ;;
*) echo x > $TEAMSTER_TASK_ID.txt; echo done ;;
";
    let led = Led::new(work, &[]);
    let after = |id: &str| json!({ "id": id, "subject": id, "blockedBy": ["a"] });
    let plan = json!({ "tasks": [{ "id": "a", "subject": "Serve it" }, after("b"), after("c")] });
    led.write("plan", &plan.to_string());
    let wait = |task: &str, others: [&str; 2]| json!({ "action": "update_task", "task": task, "blockedBy": others });
    let answer = json!({ "action": "answer", "question": "QUESTION", "text": "Take 8080." });
    led.answers(
        "answer-1",
        &json!([answer, wait("2", ["1", "3"]), wait("3", ["1", "2"])]),
    );
    led.answers("answer", &json!([answer]));
    led.shop.run(led.command("boss", "auto")).exits(0);
    let again = led.read("wake-2");
    assert!(
        again.contains("Your last answer was refused when it was to be carried out"),
        "{again}"
    );
    let woken = led.shop.events_of("leader.woken");
    assert_eq!(woken.len(), 2);
    assert!(
        woken[1]["data"]["refused"]
            .as_str()
            .unwrap()
            .contains("cycle")
    );
    assert_eq!(led.shop.events_of("leader.acted").len(), 1, "all or none");
    assert_eq!(led.shop.events_of("question.answered").len(), 1);
}

#[test]
fn message_of_the_person_is_read_before_the_gate_opens() {
    let work = "
Work) echo work > work.txt; echo done ;;
Also) echo also > also.txt; echo done ;;
";
    let led = Led::new(work, &["Work"]);
    led.answers(
        "answer",
        &json!([{ "action": "create_task", "subject": "Also" }]),
    );
    let root = led.shop.aside().display().to_string();
    let check = format!(
        "test ! -e work.txt || {{ touch {root}/checking; until test -e {root}/checked; do sleep 0.05; done; }}"
    );
    let words = led.command("boss", "auto").verify(&check);
    let mut host = led.shop.call(words).spawn();
    let checking = led.shop.aside().join("checking");
    led.shop.until("the check", || checking.exists());
    led.shop
        .run([
            "message",
            "send",
            "--to",
            "lead",
            "Do also that.",
            "--team",
            "shop",
        ])
        .exits(0);
    led.write("checked", "");
    assert_eq!(host.wait().unwrap().code(), Some(0));
    assert_eq!(led.shop.git(&["show", "main:also.txt"]), "also");
    assert!(led.read("wake-1").contains("> Do also that."));
    assert_eq!(led.shop.events_of("approval.requested").len(), 1);
}

#[test]
fn finding_of_the_leader_is_a_finding_of_the_team() {
    let led = Led::new(ASK, &["Serve it"]);
    let finding = json!({
        "action": "finding", "severity": "minor", "path": "readme.txt", "line": 1, "claim": "It names no port."
    });
    let answer = json!({ "action": "answer", "question": "task-1", "text": "Use port 8080." });
    led.answers("answer", &json!([finding, answer]));
    led.shop.run(led.command("boss", "auto")).exits(0);
    let found = led.shop.events_of("finding.added");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["actor"], "leader");
    assert_eq!(found[0]["data"]["claim"], "It names no port.");
}

#[test]
fn member_that_is_kept_for_the_review_does_what_the_leader_gives_it_by_name() {
    let work = "
Serve*) TEAMSTER ask 'Which port?' > port.txt && echo done ;;
Look) echo looked > $TEAMSTER_WORKER.txt; echo done ;;
";
    let led = Led::new(work, &["Serve it"]);
    led.answers(
        "answer",
        &json!([
            { "action": "answer", "question": "QUESTION", "text": "Take 8080." },
            { "action": "create_task", "subject": "Look", "owner": "worker-2" },
        ]),
    );
    let words = led.command_of("1:w,1:w:reviewer", "boss", "auto");
    led.shop.run(words.more(&["--review", "off"])).exits(0);
    assert_eq!(led.shop.git(&["show", "main:worker-2.txt"]), "looked");
}

#[test]
fn person_answers_a_blocked_worker_where_nobody_leads() {
    let led = Led::new(ASK, &[]);
    let words = RunCmd::new("shop", "1:w", "Serve it")
        .provider(&format!(
            "w=command:sh {}/agent.sh",
            led.shop.aside().display()
        ))
        .verify("true")
        .approve("ask");
    let mut host = led.shop.call(words).spawn();
    led.shop.until("the question", || {
        !led.shop.events_of("task.blocked").is_empty()
    });
    let answer = ["task", "answer", "1", "Use port 8080.", "--team", "shop"];
    led.shop.run(answer).succeeds();
    led.shop.run(answer).exits(4);
    led.shop.until("the gate", || {
        !led.shop.events_of("approval.requested").is_empty()
    });
    let commit = led.shop.asked();
    let approve = ["approve", "--team", "shop", "--commit", &commit];
    led.shop.run(approve).succeeds();
    assert!(host.wait().unwrap().success());
    assert_eq!(led.shop.git(&["show", "main:port.txt"]), "8080");
}

#[test]
fn host_killed_while_the_leader_decides_and_after_it_did_so_acts_once() {
    let led = Led::new(BREAK, &["Break", "Go on"]);
    led.answers("answer", &replacement());
    led.remove("go");
    led.remove("hold");
    let mut host = led.shop.call(led.command("boss", "auto")).spawn();
    let aside = led.shop.aside();
    led.shop.until("the wake", || aside.join("waking").exists());
    host.kill().unwrap();
    host.wait().unwrap();
    led.write("go", "");
    let mut host = led.shop.call(["run", "--resume", "shop"]).spawn();
    led.shop.until("the decision", || {
        !led.shop.events_of("leader.acted").is_empty()
    });
    host.kill().unwrap();
    host.wait().unwrap();
    led.write("hold", "");
    led.shop.run(["run", "--resume", "shop"]).exits(0);
    assert_eq!(led.shop.events_of("leader.woken").len(), 2);
    assert_eq!(led.shop.events_of("leader.acted").len(), 1);
    assert_eq!(led.subjects(), ["Go on", "Mend"]);
    assert_eq!(led.shop.git(&["show", "main:went.txt"]), "went");
    led.shop.is_quiet();
}

#[test]
fn leader_answers_a_question_in_the_middle_of_a_task() {
    let led = Led::new(QUESTION, &["Serve it"]);
    led.answers(
        "answer",
        &json!([{ "action": "answer", "question": "QUESTION", "text": "Take 8080." }]),
    );
    let ran = led.shop.call(led.command("boss", "auto")).run().exits(0);
    let port = led.shop.git(&["show", "main:port.txt"]);
    assert!(port.contains("Take 8080."), "{port}");
    let wake = led.read("wake-1");
    assert!(
        wake.contains("asks a question and waits for the answer"),
        "{wake}"
    );
    assert!(wake.contains("> Which port?"), "{wake}");
    assert!(ran.stdout.contains("asks: Which port?"), "{}", ran.stdout);
    assert_eq!(led.shop.events_of("question.answered").len(), 1);
    assert_eq!(
        led.shop.events_of("task.claimed").len(),
        1,
        "in the same attempt"
    );
}

#[test]
fn question_that_the_leader_cannot_answer_is_passed_on_to_the_person() {
    let led = Led::new(QUESTION, &["Serve it"]);
    led.answers(
        "answer",
        &json!([{ "action": "answer", "question": "QUESTION", "askPerson": true, "text": "I cannot know." }]),
    );
    let mut running = led.shop.call(led.command("boss", "auto")).spawn();
    wait_for("the question is for the person", || {
        led.shop.events_of("question.forwarded").pop()
    });
    let asked = led.shop.events_of("question.asked");
    let id = format!("q{}", asked[0]["seq"]);
    let args = ["answer", id.as_str(), "Take 9090.", "--team", "shop"];
    led.shop.run(&args).exits(0);
    assert_eq!(running.wait().unwrap().code(), Some(0));
    let port = led.shop.git(&["show", "main:port.txt"]);
    assert!(port.contains("Take 9090."), "{port}");
}

#[test]
fn leader_that_writes_and_commits_changes_nothing_that_lands() {
    let led = Led::new("Work) echo work > work.txt; echo done ;;", &["Work"]);
    let plan = led.read("plan");
    led.write(
        "boss.sh",
        &format!(
            "cat > /dev/null\n\
             echo planted > planted.txt; rm -rf readme.txt\n\
             git add --all && git -c user.name=x -c user.email=x@x commit --quiet --message planted\n\
             cat <<'END'\n{plan}\nEND\n"
        ),
    );
    led.shop.call(led.command("boss", "auto")).run().exits(0);
    let files = led.shop.git(&["ls-tree", "--name-only", "main"]);
    assert!(
        files.contains("work.txt") && files.contains("readme.txt"),
        "{files}"
    );
    assert!(!files.contains("planted.txt"), "{files}");
}

#[test]
fn question_that_is_open_when_a_run_is_stopped_goes_to_the_person_and_the_leader_is_ended() {
    let led = Led::new(QUESTION, &["Serve it"]);
    led.remove("go");
    let mut host = led.shop.call(led.command("boss", "auto")).spawn();
    let waking = led.shop.aside().join("waking");
    led.shop.until("the wake", || waking.exists());
    let pid = host.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(sent.unwrap().success());
    let forwarded = wait_for("the question is for the person", || {
        led.shop.events_of("question.forwarded").pop()
    });
    assert_eq!(forwarded["data"]["reason"], "the run is being stopped");
    let id = forwarded["data"]["question"].as_str().unwrap().to_owned();
    led.shop
        .run(["answer", &id, "Take 9090.", "--team", "shop"])
        .exits(0);
    assert_eq!(host.wait().unwrap().code(), Some(13));
    led.shop.is_quiet();
    led.shop.run(["run", "--resume", "shop"]).exits(0);
    let port = led.shop.git(&["show", "main:port.txt"]);
    assert!(
        port.contains("Take 9090."),
        "in the task that was finished: {port}"
    );
}

//! Planning: the leader's questions, a person's answers to its plan, and that a killed host asks nothing twice.

use std::process::Child;

use serde_json::Value;
use teamster_journal::payload::{PlanAnswer, PlanAnswered};
use teamster_journal::{EventActor, EventKind, NewEvent};
use teamster_store::Store as _;
use teamster_testkit::RunCmd;
use teamster_testkit::wait::{LONG, poll};
use teamster_types::flow::DecisionChannel;

use super::Shop;
use super::stops::signal;
use crate::kit::Call;
use crate::studio::terminal::Terminal;

const PROMPT: &str = "plan> ";

/// A plan of one task.
const GO: &str = r#"{"tasks": [{"id": "go", "subject": "Go", "accept": ["It went."]}]}"#;

/// The same plan, after a question of the leader.
const ASKS: &str = r#"{"analysis": "There are two ways.", "questions": ["Which of the two ways?"],
  "tasks": [{"id": "go", "subject": "Go any way"}]}"#;
const ANSWERED: &str = r#"{"analysis": "There are two ways.", "assumptions": ["Nobody uses the other way."],
  "risks": ["It could rain."], "tasks": [{"id": "go", "subject": "Go the second way"}]}"#;

/// Prepares a run with a leader that gives these answers, one for each call, and saves its prompts.
fn led(shop: &Shop, agents: &str, answers: &[&str], more: &[&str]) -> Call {
    let root = shop.aside();
    for (number, answer) in (1..).zip(answers) {
        std::fs::write(root.join(format!("answer-{number}")), answer).unwrap();
    }
    let root = root.display();
    let boss = format!(
        "boss=command:echo x >> {root}/asked; n=$(grep -c x {root}/asked); cat > {root}/prompt-$n; cat {root}/answer-$n"
    );
    let script = shop.script(
        "[[step]]\ntask = \"Go\"\ndo = \"run\"\ncommand = \"echo \\\"$TEAMSTER_TASK_SUBJECT\\\" > went.txt\"\n",
    );
    let args = RunCmd::new("shop", agents, "mend it")
        .provider(&script)
        .provider(&boss)
        .leader("boss")
        .verify("true")
        .more(&["--review", "off"]);
    shop.call(args.more(more))
}

fn prompt(shop: &Shop, number: u32) -> String {
    std::fs::read_to_string(shop.aside().join(format!("prompt-{number}"))).unwrap_or_default()
}

/// Returns how often the leader was called.
fn asked(shop: &Shop) -> usize {
    let text = std::fs::read_to_string(shop.aside().join("asked")).unwrap_or_default();
    text.lines().count()
}

/// Returns the id of the first question, which is the position of its event.
fn question(shop: &Shop) -> String {
    shop.until("a question", || {
        !shop.events_of("question.asked").is_empty()
    });
    format!("q{}", shop.events_of("question.asked")[0]["seq"])
}

/// Waits until this revision of the plan is proposed.
#[track_caller]
fn proposed(shop: &Shop, revision: u64) -> Value {
    shop.until("a proposal", || {
        let proposed = shop.events_of("plan.proposed");
        proposed
            .iter()
            .any(|event| event["data"]["revision"] == revision)
    });
    let events = shop.events_of("plan.proposed");
    events.last().unwrap()["data"].clone()
}

/// Waits until an answer can be typed: earlier input does not count.
#[track_caller]
fn at_prompt(terminal: &Terminal, prompt: &str) {
    let is_there = || terminal.line().trim_end() == prompt.trim_end();
    let found = poll(LONG, || is_there().then_some(()));
    assert!(found.is_some(), "no {prompt} on\n{}", terminal.text());
}

fn plan(shop: &Shop, words: &[&str]) -> crate::kit::Ran {
    shop.run(["plan"].iter().chain(words).chain(&["--team", "shop"]))
}

fn ends(mut run: Child, code: i32) {
    let status = poll(LONG, || run.try_wait().unwrap());
    assert_eq!(status.and_then(|status| status.code()), Some(code));
}

#[test]
fn requirements_that_are_asked_for_are_asked_by_the_leader_before_it_plans() {
    const SETTLE: &str = "The person wants to settle what is wanted before anything is planned.";
    let shop = Shop::new();
    let run = led(&shop, "1:w", &[ASKS, ANSWERED], &["--requirements"]).spawn();
    let id = question(&shop);
    assert_eq!(shop.stage(), "requirements");
    let shown = shop.state_file(".omc/state/team-state.json");
    assert_eq!(shown["stage"], "team-prd");
    assert!(prompt(&shop, 1).contains(SETTLE), "{}", prompt(&shop, 1));
    let stages = shop.events_of("run.stage");
    let entered = stages
        .iter()
        .find(|event| event["data"]["to"] == "requirements");
    assert_eq!(entered.unwrap()["data"]["reason"], "they were asked for");
    assert!(
        entered.unwrap()["seq"].as_u64() < shop.events_of("plan.proposed")[0]["seq"].as_u64(),
        "before the leader has said anything"
    );
    let answer = ["answer", &id, "the second", "--team", "shop"];
    shop.run(&answer).succeeds();
    shop.gate();
    let findings = shop.folder().join(".party/findings/analyzing-002.md");
    let analysis = std::fs::read_to_string(findings).unwrap();
    for part in ["There are two ways.", "Nobody uses the other way."] {
        assert!(analysis.contains(part), "{part} is not in\n{analysis}");
    }
    assert_eq!(
        shop.git(&["show", "omc-team/shop/integration:went.txt"]),
        "Go the second way"
    );
    let commit = shop.asked();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .succeeds();
    ends(run, 0);
    // Without it the leader asks only what it must.
    let other = Shop::new();
    let run = led(&other, "1:w", &[GO], &["--approve", "auto"]).spawn();
    ends(run, 0);
    assert!(!prompt(&other, 1).contains(SETTLE));
}

#[test]
fn question_of_the_leader_is_answered_by_a_command_and_leads_to_a_plan() {
    let shop = Shop::new();
    let run = led(&shop, "1:w", &[ASKS, ANSWERED], &[]).spawn();
    let id = question(&shop);
    assert_eq!(shop.stage(), "requirements");
    assert_eq!(
        shop.state_file(".omc/state/team-state.json")["stage"],
        "team-prd"
    );
    let asked_event = shop.events_of("question.asked").remove(0);
    assert_eq!(asked_event["data"]["kind"], "plan");
    assert_eq!(asked_event["actor"], "leader");
    let none = plan(&shop, &["accept", "--revision", "1"]).fails(4);
    assert!(
        none.stderr.contains("waits for answers to its questions"),
        "{}",
        none.stderr
    );
    let answer = ["answer", &id, "the second", "--team", "shop"];
    shop.run(&answer).succeeds();
    let commit = shop.gate();
    assert_eq!(
        shop.events_of("question.asked").len(),
        1,
        "it is asked once"
    );
    let findings = shop.folder().join(".party/findings/analyzing-002.md");
    let analysis = std::fs::read_to_string(findings).unwrap();
    for part in ["author: leader", "There are two ways.", "It could rain."] {
        assert!(analysis.contains(part), "{part} is not in\n{analysis}");
    }
    assert!(prompt(&shop, 1).contains("- Ask in `questions` only what changes the plan"));
    let told = prompt(&shop, 2);
    for words in [
        "> Which of the two ways?",
        "The answer of the person:\n\n> the second",
        "> \"subject\": \"Go any way\"",
        "Nobody can be asked now.",
    ] {
        assert!(
            told.replace("      ", "").contains(words),
            "{words} is missing in\n{told}"
        );
    }
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .succeeds();
    ends(run, 0);
    assert_eq!(shop.git(&["show", "main:went.txt"]), "Go the second way");
    assert_eq!(asked(&shop), 2);
}

#[test]
fn leader_goes_by_assumptions_when_nobody_is_to_be_asked() {
    for more in [&["--yes", "--approve", "never"][..], &["--approve", "auto"]] {
        let shop = Shop::new();
        let answer = ASKS.replace("}]}", "}], \"assumptions\": [\"It is dry.\"]}");
        let ran = led(&shop, "1:w", &[&answer], more).run().exits(0);
        assert_eq!(asked(&shop), 1, "{more:?}");
        assert!(prompt(&shop, 1).contains("Nobody can be asked now. Leave `questions` out"));
        assert!(shop.events_of("question.asked").is_empty());
        let proposal = proposed(&shop, 1);
        let assumed = ["It is dry.", "Nobody was asked: Which of the two ways?"];
        assert_eq!(proposal["plan"]["assumptions"], serde_json::json!(assumed));
        assert_eq!(proposal["ask"], false);
        // The text for a person: the gate, or the report of a run that has ended.
        let read = if more.contains(&"auto") {
            shop.report()
        } else {
            ran.stdout
        };
        for words in assumed {
            assert!(
                read.contains(words),
                "{more:?}: {words} is missing in\n{read}"
            );
        }
    }
}

#[test]
fn person_at_the_terminal_answers_changes_and_accepts() {
    let shop = Shop::new();
    let fewer = GO.replace("\"Go\"", "\"Go once\"");
    let call = led(
        &shop,
        "1:w",
        &[ASKS, ANSWERED, &fewer],
        &["--approve", "never"],
    );
    let mut terminal = Terminal::of_call(call);
    terminal.wait_for("Which of the two ways?");
    at_prompt(&terminal, "answer> ");
    terminal.press("the second\r");
    at_prompt(&terminal, PROMPT);
    for words in [
        "Go the second way",
        "It could rain.",
        "Nobody uses the other way.",
    ] {
        terminal.wait_for(words);
    }
    terminal.press("maybe\r");
    terminal.wait_for("Not understood: maybe");
    at_prompt(&terminal, PROMPT);
    terminal.press("revise go only once\r");
    terminal.wait_for("revision 3: 1 task");
    terminal.wait_for("Go once");
    let told = prompt(&shop, 3);
    for words in [
        "Go the second way",
        "> go only once",
        "The person wants that plan changed:",
    ] {
        assert!(told.contains(words), "{words} is missing in\n{told}");
    }
    assert_eq!(shop.events_of("task.created").len(), 0);
    at_prompt(&terminal, PROMPT);
    terminal.press("accept\r");
    terminal.ends();
    assert_eq!(shop.tasks()[0]["subject"], "Go once");
    let answers = shop.events_of("plan.answered");
    let said: Vec<&str> = answers
        .iter()
        .map(|event| event["data"]["decision"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["revise", "accept"]);
    assert_eq!(answers[0]["data"]["words"], "go only once");
    assert_eq!(answers[0]["actor"], "user");
}

#[test]
fn plan_is_edited_in_the_persons_editor_until_it_has_no_faults() {
    let shop = Shop::new();
    let root = shop.aside();
    let editor = root.join("my editor.sh");
    let text = format!(
        "#!/bin/sh\ncp \"$2\" {root}/seen\nif test -e {root}/edited; then sed -i 's/ann/worker-1/' \"$2\"\n\
         else touch {root}/edited; sed -i 's/subject = \"Go\"/subject = \"Go there\"\\nowner = \"ann\"/' \"$2\"; fi\n",
        root = root.display()
    );
    std::fs::write(&editor, text).unwrap();
    let call = led(&shop, "1:w", &[GO], &["--approve", "never"]);
    let call = call.env("EDITOR", format!("sh '{}' --wait", editor.display()));
    let mut terminal = Terminal::of_call(call.env("VISUAL", ""));
    at_prompt(&terminal, PROMPT);
    terminal.press("edit\r");
    terminal.wait_for("task \"go\" has the owner ann, who is not in the team; there are worker-1");
    at_prompt(&terminal, "edited plan> ");
    let seen = std::fs::read_to_string(root.join("seen")).unwrap();
    assert!(
        seen.contains("subject = \"Go\"") && seen.contains("accept = [\"It went.\"]"),
        "{seen}"
    );
    terminal.press("accept\r");
    terminal.wait_for("Not understood: accept");
    at_prompt(&terminal, "edited plan> ");
    assert!(shop.events_of("plan.answered").is_empty());
    terminal.press("edit\r");
    terminal.wait_for("The plan, edited by you, revision 2: 1 task");
    let seen = std::fs::read_to_string(root.join("seen")).unwrap();
    assert!(
        seen.contains("owner = \"ann\""),
        "what was edited is edited again: {seen}"
    );
    at_prompt(&terminal, PROMPT);
    terminal.press("accept\r");
    terminal.ends();
    let task = &shop.tasks()[0];
    assert_eq!(task["subject"], "Go there");
    assert_eq!(task["owner"], "worker-1");
    assert_eq!(task["metadata"]["teamster"]["accept"][0], "It went.");
    assert_eq!(shop.events_of("plan.proposed")[1]["data"]["by"], "person");
    assert_eq!(asked(&shop), 1);
}

#[test]
fn plan_is_decided_about_from_another_terminal_and_an_old_revision_is_refused() {
    let shop = Shop::new();
    let second = GO.replace("\"Go\"", "\"Go twice\"");
    let more = ["--approve-plan", "--approve", "never"];
    let run = led(&shop, "1:w", &[GO, &second], &more).spawn();
    proposed(&shop, 1);
    let shown = plan(&shop, &["show"]).succeeds().stdout;
    assert!(
        shown.contains("revision 1: 1 task") && shown.contains("Go"),
        "{shown}"
    );
    let json = plan(&shop, &["show", "--json"]).succeeds().json();
    assert_eq!(json["plan"]["tasks"][0]["accept"][0], "It went.");
    let unnamed = plan(&shop, &["accept"]).fails(2);
    assert!(
        unnamed.stderr.contains("--revision 1"),
        "{}",
        unnamed.stderr
    );
    plan(&shop, &["revise", "go twice", "--revision", "1"]).succeeds();
    proposed(&shop, 2);
    let old = plan(&shop, &["accept", "--revision", "1"]).fails(4);
    assert!(old.stderr.contains("which is 2"), "{}", old.stderr);
    let file = shop.aside().join("mine.toml");
    std::fs::write(
        &file,
        "[[tasks]]\nid = 'a'\nsubject = 'Go'\nrole = 'cook'\n",
    )
    .unwrap();
    let edit = ["edit", file.to_str().unwrap(), "--revision", "2"];
    let faulty = plan(&shop, &edit).fails(6);
    assert!(
        faulty
            .stderr
            .contains("plan:1: task \"a\" is for the role cook"),
        "{}",
        faulty.stderr
    );
    assert_eq!(shop.events_of("plan.answered").len(), 1);
    std::fs::write(
        &file,
        "{\"tasks\": [{\"id\": \"a\", \"subject\": \"Go mine\"}]}",
    )
    .unwrap();
    plan(&shop, &edit).succeeds();
    proposed(&shop, 3);
    let worker = shop.call(["plan", "accept", "--revision", "3", "--team", "shop"]);
    worker.env("TEAMSTER_WORKER", "worker-1").run().fails(6);
    plan(&shop, &["accept", "--revision", "3"]).succeeds();
    ends(run, 0);
    assert_eq!(shop.tasks()[0]["subject"], "Go mine");
    plan(&shop, &["accept", "--revision", "3"]).fails(4);
}

/// Writes an editor that records that it is open, and waits until it is released before it changes the plan.
fn waiting_editor(shop: &Shop, call: Call) -> Call {
    let root = shop.aside();
    let editor = root.join("editor.sh");
    let text = format!(
        "sed -i 's/subject = \"Go\"/subject = \"Go mine\"/' \"$1\"\ntouch {root}/editing\n\
         until test -e {root}/go; do sleep 0.02; done\n",
        root = root.display()
    );
    std::fs::write(&editor, text).unwrap();
    let kept = root.join("kept");
    std::fs::create_dir_all(&kept).unwrap();
    call.env("EDITOR", format!("sh {}", editor.display()))
        .env("VISUAL", "")
        .env("TMPDIR", kept)
}

/// Returns the texts that were edited with [`waiting_editor`] and still exist.
fn kept_texts(shop: &Shop) -> Vec<String> {
    let folders = std::fs::read_dir(shop.aside().join("kept")).unwrap();
    let files = folders.map(|folder| folder.unwrap().path().join("plan.toml"));
    files
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .collect()
}

#[test]
fn plan_edit_answers_only_the_revision_that_was_in_the_editor_and_keeps_what_is_refused() {
    let shop = Shop::new();
    let second = GO.replace("\"Go\"", "\"Go twice\"");
    let more = ["--approve-plan", "--approve", "never"];
    let run = led(&shop, "1:w", &[GO, &second], &more).spawn();
    proposed(&shop, 1);
    let edit = shop.call(["plan", "edit", "--team", "shop"]);
    let terminal = Terminal::of_call(waiting_editor(&shop, edit));
    shop.until("the editor", || shop.aside().join("editing").exists());
    plan(&shop, &["revise", "go twice", "--revision", "1"]).succeeds();
    proposed(&shop, 2);
    std::fs::write(shop.aside().join("go"), "").unwrap();
    terminal.wait_for("revision 1 of the plan is not the current one");
    terminal.exits(4);
    let answered = shop.events_of("plan.answered");
    assert_eq!(answered.len(), 1, "{answered:?}");
    let kept = kept_texts(&shop);
    assert!(
        kept.len() == 1 && kept[0].contains("Go mine"),
        "what was edited is kept: {kept:?}"
    );
    // A missing revision is refused before anything is written.
    std::fs::remove_file(shop.aside().join("editing")).unwrap();
    let old = ["plan", "edit", "--team", "shop", "--revision", "1"];
    Terminal::of_call(waiting_editor(&shop, shop.call(old))).exits(4);
    assert!(!shop.aside().join("editing").exists(), "no editor");
    plan(&shop, &["accept", "--revision", "2"]).succeeds();
    ends(run, 0);
    assert_eq!(shop.tasks()[0]["subject"], "Go twice");
}

#[test]
fn plan_that_is_decided_elsewhere_while_it_is_edited_is_carried_out() {
    let shop = Shop::new();
    let call = led(&shop, "1:w", &[GO], &["--approve", "never"]);
    let mut terminal = Terminal::of_call(waiting_editor(&shop, call));
    at_prompt(&terminal, PROMPT);
    terminal.press("edit\r");
    shop.until("the editor", || shop.aside().join("editing").exists());
    plan(&shop, &["accept", "--revision", "1"]).succeeds();
    terminal.wait_for("This was decided elsewhere. What you edited is kept in");
    let text = || terminal.text();
    // Lines above it may have scrolled off the screen by then.
    terminal.wait_for("awaiting approval: waiting for your decision");
    assert!(!text().contains("is edited"), "{}", text());
    terminal.ends();
    assert_eq!(shop.tasks()[0]["subject"], "Go");
    assert_eq!(shop.events_of("plan.proposed").len(), 1);
    let kept = kept_texts(&shop);
    assert!(
        kept.len() == 1 && kept[0].contains("Go mine"),
        "what was edited is kept: {kept:?}"
    );
    shop.is_quiet();
}

#[test]
fn run_that_is_stopped_while_its_plan_is_edited_ends_and_leaves_no_editor() {
    let shop = Shop::new();
    let call = led(&shop, "1:w", &[GO], &["--approve", "never"]);
    let mut terminal = Terminal::of_call(waiting_editor(&shop, call));
    at_prompt(&terminal, PROMPT);
    terminal.press("edit\r");
    shop.until("the editor", || shop.aside().join("editing").exists());
    signal(terminal.id(), "-TERM");
    terminal.exits(13);
    assert!(shop.events_of("plan.answered").is_empty());
    assert_eq!(kept_texts(&shop).len(), 1);
    shop.is_quiet();
}

#[test]
fn answer_to_another_revision_leaves_the_prompt_for_the_present_one() {
    let shop = Shop::new();
    let call = led(&shop, "1:w", &[GO], &["--approve", "never"]);
    let mut terminal = Terminal::of_call(call);
    at_prompt(&terminal, PROMPT);
    // An answer to an earlier revision came too late, and is in the journal.
    let late = PlanAnswered::new(7, DecisionChannel::Studio, PlanAnswer::Accept);
    let late = NewEvent::new(EventActor::Person, EventKind::PlanAnswered(late));
    let store = shop.project.store(std::time::Duration::ZERO);
    let seq = store.record(&"shop".parse().unwrap(), late).unwrap();
    terminal.press("maybe\r");
    terminal.wait_for("Not understood: maybe");
    at_prompt(&terminal, PROMPT);
    terminal.press("accept\r");
    terminal.wait_for("revision 1 of the plan is accepted");
    assert!(
        !terminal.text().contains("revision 7 of the plan"),
        "an answer that does not count is not told: {}",
        terminal.text()
    );
    terminal.ends();
    assert!(seq > 0 && shop.tasks()[0]["subject"] == "Go");
}

#[test]
fn leader_is_told_every_answer_and_every_wish_whenever_it_plans_again() {
    let shop = Shop::new();
    let more = ["--approve-plan", "--approve", "never"];
    let answers = [ASKS, ANSWERED, ANSWERED, ANSWERED];
    let run = led(&shop, "1:w", &answers, &more).spawn();
    let id = question(&shop);
    shop.run(&["answer", &id, "the second", "--team", "shop"])
        .succeeds();
    proposed(&shop, 2);
    plan(&shop, &["revise", "go only once", "--revision", "2"]).succeeds();
    proposed(&shop, 3);
    plan(&shop, &["revise", "and in the morning", "--revision", "3"]).succeeds();
    proposed(&shop, 4);
    plan(&shop, &["accept", "--revision", "4"]).succeeds();
    ends(run, 0);
    let answer = "> Which of the two ways?\n\nThe answer of the person:\n\n> the second";
    for (number, wishes) in [
        (3, &["> go only once"][..]),
        (4, &["> go only once", "> and in the morning"]),
    ] {
        let told = prompt(&shop, number).replace("      ", "");
        for words in wishes.iter().chain([&answer]) {
            assert!(
                told.contains(words),
                "{words} is missing in prompt {number}:\n{told}"
            );
        }
    }
}

#[test]
fn plan_answer_says_that_nobody_hosts_the_run_while_another_one_works_in_the_project() {
    let shop = Shop::new();
    let more = ["--approve-plan", "--approve", "never"];
    let mut run = led(&shop, "1:w", &[GO], &more).spawn();
    proposed(&shop, 1);
    run.kill().unwrap();
    run.wait().unwrap();
    let waits = shop.aside().join("waits");
    let script = shop.aside().join("waits.sh");
    let text = format!(
        "touch {}\nuntil test -e {}/go; do sleep 0.02; done\n",
        waits.display(),
        shop.aside().display()
    );
    std::fs::write(&script, text).unwrap();
    let other = RunCmd::new("other", "1:o", "something else")
        .provider(&format!("o=command:sh {}", script.display()))
        .leader("engine")
        .verify("true")
        .more(&["--review", "off", "--approve", "never"]);
    let other = shop.call(&other).spawn();
    shop.until("another run", || waits.exists());
    let answered = plan(&shop, &["accept", "--revision", "1"])
        .succeeds()
        .stdout;
    assert!(
        answered.contains("no process hosts the run; resume: `teamster run --resume shop`"),
        "{answered}"
    );
    std::fs::write(shop.aside().join("go"), "").unwrap();
    ends(other, 0);
    shop.run(["run", "--resume", "shop"]).exits(0);
    assert_eq!(shop.tasks()[0]["subject"], "Go");
}

#[test]
fn check_of_a_plan_that_was_stopped_on_the_base_is_run_there_when_the_run_goes_on() {
    let shop = Shop::new();
    let root = shop.aside();
    let check = format!(
        "touch {root}/checking; until test -e {root}/go; do sleep 0.02; done",
        root = root.display()
    );
    let text = format!("verify = ['{check}']\n[[tasks]]\nid = 'a'\nsubject = 'Part'\n");
    let script = "[[step]]\ndo = \"run\"\ncommand = \"echo x >> news.txt\"\n";
    let args = RunCmd::new("shop", "1:w", "mend it")
        .provider(&shop.script(script))
        .plan(&shop.plan(&text))
        .more(&["--approve", "never", "--review", "off"]);
    let run = shop.call(&args).spawn();
    shop.until("the check", || root.join("checking").exists());
    signal(run.id(), "-TERM");
    ends(run, 13);
    assert!(
        shop.events_of("run.plan").is_empty(),
        "the plan is not made"
    );
    std::fs::write(root.join("go"), "").unwrap();
    shop.run(["run", "--resume", "shop"]).exits(0);
    let passed = shop.events_of("verify.passed");
    let on_base = |event: &&Value| event["data"]["on"] == "base";
    let checked = passed.iter().find(on_base).unwrap();
    assert_eq!(checked["data"]["command"], check.as_str());
}

#[test]
fn task_that_a_person_adds_while_the_plan_waits_comes_beside_the_plan() {
    let shop = Shop::new();
    let more = ["--approve-plan", "--approve", "auto"];
    let run = led(&shop, "1:w", &[GO], &more).spawn();
    proposed(&shop, 1);
    let also = [
        "task",
        "create",
        "--team",
        "shop",
        "--subject",
        "Tell people",
    ];
    shop.call(also).run().succeeds();
    // The plan is still pending: it is neither carried out nor forgotten.
    plan(&shop, &["show"]).succeeds();
    plan(&shop, &["accept", "--revision", "1"]).succeeds();
    ends(run, 0);
    let tasks = shop.tasks();
    let mut subjects: Vec<&str> = tasks
        .iter()
        .filter_map(|it| it["subject"].as_str())
        .collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["Go", "Tell people"]);
    assert!(tasks.iter().all(|task| task["status"] == "completed"));
    let planned = shop.events_of("run.plan");
    assert_eq!(planned[0]["data"]["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn worker_of_a_plan_that_waits_is_shown_as_not_started_instead_of_unknown() {
    let shop = Shop::new();
    let more = ["--approve-plan", "--approve", "never"];
    let run = led(&shop, "1:w", &[GO], &more).spawn();
    proposed(&shop, 1);
    let status = ["status", "--team", "shop"];
    let shown = shop.call(status).run().succeeds().stdout;
    let row = |text: &str| {
        let rows = text.lines().filter(|line| line.starts_with("worker-1 "));
        let words = rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "));
        words.collect::<Vec<_>>()
    };
    let expected = "worker-1 w not started not-started the run has started no worker for it";
    assert_eq!(row(&shown), [expected], "{shown}");
    plan(&shop, &["reject", "not now", "--revision", "1"]).succeeds();
    ends(run, 13);
}

#[test]
fn rejected_plan_ends_the_run_and_is_asked_about_again_when_it_is_resumed() {
    let shop = Shop::in_use();
    let before = shop.of_user();
    let more = ["--approve-plan", "--approve", "never"];
    let run = led(&shop, "1:w", &[GO], &more).spawn();
    proposed(&shop, 1);
    plan(&shop, &["reject", "not now", "--revision", "1"]).succeeds();
    ends(run, 13);
    assert_eq!(shop.of_user(), before);
    assert!(shop.tasks().is_empty());
    let finished = &shop.events_of("run.finished")[0]["data"];
    assert_eq!(finished["reason"], "the plan was not accepted: not now");
    let run = shop.call(["run", "--resume", "shop"]).spawn();
    shop.until("the run goes on", || {
        !shop.events_of("run.resumed").is_empty()
    });
    plan(&shop, &["accept", "--revision", "1"]).succeeds();
    ends(run, 0);
    assert_eq!((asked(&shop), shop.tasks().len()), (1, 1));
}

#[test]
fn leader_that_cannot_change_its_plan_leaves_it_as_it_was() {
    let shop = Shop::new();
    let more = ["--approve-plan", "--approve", "never"];
    let run = led(&shop, "1:w", &[GO, "Hm.", "No."], &more).spawn();
    proposed(&shop, 1);
    plan(&shop, &["revise", "better", "--revision", "1"]).succeeds();
    let again = proposed(&shop, 2);
    let problem = again["problem"].as_str().unwrap();
    assert!(
        problem.contains("the leader made no other plan"),
        "{problem}"
    );
    assert_eq!(again["plan"]["tasks"][0]["subject"], "Go");
    let kept = shop.events_of("plan.failed").remove(0);
    assert_eq!(kept["data"]["answers"][0]["text"], "Hm.");
    assert_eq!(kept["data"]["answers"][1]["text"], "No.");
    plan(&shop, &["accept", "--revision", "2"]).succeeds();
    ends(run, 0);
}

/// Answers what the run asks until its host ends; returns the exit code.
fn drive(shop: &Shop, mut run: Child) -> Option<i32> {
    let over = poll(LONG, || {
        if let Some(status) = run.try_wait().unwrap() {
            return Some(status.code());
        }
        answer_all(shop);
        None
    });
    over.unwrap()
}

/// Answers all pending questions and plans. Errors are ignored: another answer may be faster, or the host is dead.
fn answer_all(shop: &Shop) {
    let answered = shop.events_of("question.answered");
    for question in shop.events_of("question.asked") {
        let id = format!("q{}", question["seq"]);
        if !answered
            .iter()
            .any(|event| event["data"]["question"] == *id)
        {
            shop.run(&["answer", &id, "the second", "--team", "shop"]);
        }
    }
    let answered = shop.events_of("plan.answered");
    if let Some(last) = shop.events_of("plan.proposed").last()
        && last["data"]["plan"]["questions"].is_null()
        && !answered
            .iter()
            .any(|event| event["data"]["revision"] == last["data"]["revision"])
    {
        let revision = last["data"]["revision"].to_string();
        plan(shop, &["accept", "--revision", &revision]);
    }
}

/// Returns the phases of a run's session.
fn phases(shop: &Shop) -> Vec<String> {
    let session = shop.state_file(".party/session.json");
    let history = session["phase_history"].as_array().unwrap().iter();
    history
        .map(|step| step["to"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn host_that_is_killed_while_it_plans_is_followed_by_one_that_asks_nothing_twice() {
    let more = ["--approve-plan", "--approve", "never"];
    let whole = Shop::new();
    let run = led(&whole, "1:w", &[ASKS, ANSWERED], &more).spawn();
    assert_eq!(drive(&whole, run), Some(0));
    let events = whole.events();
    let made = events
        .iter()
        .position(|event| event["type"] == "run.plan")
        .unwrap();
    let kinds = [
        "run.asked",
        "plan.proposed",
        "run.stage",
        "question.asked",
        "question.answered",
        "plan.answered",
        "task.created",
        "run.plan",
    ];
    let points: Vec<(&str, u64)> = events[..=made]
        .iter()
        .filter_map(|event| Some((event["type"].as_str()?, event["seq"].as_u64()?)))
        .filter(|(kind, _)| kinds.contains(kind))
        .collect();
    assert!(points.len() >= 9, "{points:?}");
    for (kind, seq) in points {
        let shop = Shop::new();
        // A leader that was killed with its host is called again with the same prompt, and gives the same answer.
        let answers = [ASKS, ANSWERED, ANSWERED];
        let call = led(&shop, "1:w", &answers, &more);
        let killed = call.env("TEAMSTER_TEST_DIE_AT_EVENT", seq.to_string());
        let code = drive(&shop, killed.spawn());
        assert_eq!(code, None, "{kind} at {seq}: it was killed");
        let resumed = shop.call(["run", "--resume", "shop"]).spawn();
        assert_eq!(drive(&shop, resumed), Some(0), "{kind} at {seq}");
        let count = |kind: &str| shop.events_of(kind).len();
        let seen = (
            count("question.asked"),
            count("run.plan"),
            count("task.created"),
        );
        assert_eq!(seen, (1, 1, 1), "{kind} at {seq}");
        let subject = &shop.tasks()[0]["subject"];
        assert!(
            *subject == "Go the second way",
            "{kind} at {seq}: {subject}"
        );
        assert_eq!(phases(&shop), phases(&whole), "{kind} at {seq}");
        shop.is_quiet();
    }
}

#[test]
fn role_and_acceptance_criteria_of_a_plan_reach_those_who_need_them() {
    let shop = Shop::new();
    let answer = r#"{"tasks": [{"id": "go", "subject": "Go", "accept": ["It went."]},
      {"id": "test", "subject": "Go and test", "role": "tester", "blockedBy": ["go"]}]}"#;
    let more = ["--approve", "never", "--budget-minutes", "30"];
    led(&shop, "1:w,1:w:tester", &[answer], &more)
        .run()
        .exits(0);
    let tasks = shop.tasks();
    assert_eq!(tasks[1]["owner"], "worker-2");
    assert_eq!(tasks[0]["metadata"]["teamster"]["accept"][0], "It went.");
    let claimed = shop.events_of("task.claimed");
    let tester = claimed.iter().find(|event| event["taskId"] == "2");
    assert_eq!(tester.unwrap()["actor"], "worker-2");
    let told = prompt(&shop, 1);
    for words in [
        "- worker-2 (tester), ",
        "> true",
        "The whole run may use 30 min",
        "> add.sh",
    ] {
        assert!(told.contains(words), "{words} is missing in\n{told}");
    }
}

#[test]
fn check_that_a_plan_wants_to_pass_gets_rounds_of_fixing_though_it_failed_before() {
    let shop = Shop::new();
    let text = "verify = ['sh test.sh']\n[[tasks]]\nid = 'a'\nsubject = 'Part'\n";
    let script = "[[step]]\ndo = \"run\"\ncommand = \"echo x >> news.txt\"\n";
    let more = ["--approve", "never", "--max-fix", "1", "--review", "off"];
    let run = |text: &str| {
        let plan = shop.plan(text);
        let script = shop.script(script);
        let args = RunCmd::new("shop", "1:w", "the plan")
            .provider(&script)
            .plan(&plan);
        shop.call(args.more(&more)).run()
    };
    run(text).exits(0);
    assert_eq!(shop.tasks().len(), 1, "what failed before is nobody's task");
    shop.run(&["reject", "--team", "shop", "--commit", &shop.asked()])
        .exits(10);
    shop.run(&["team", "delete", "shop", "--force"]).succeeds();
    run(&format!("must_pass = ['sh test.sh']\n{text}")).exits(11);
    let fixes = shop.tasks();
    assert_eq!(fixes.len(), 2);
    assert!(
        fixes[1]["subject"]
            .as_str()
            .unwrap()
            .starts_with("Fix what")
    );
}

#[test]
fn checks_that_a_leader_wants_are_named_as_not_taken_and_why() {
    let shop = Shop::new();
    let answer = r#"{"tasks": [{"id": "go", "subject": "Go", "verify": ["curl x | sh"]}], "verify": ["make test"]}"#;
    let out = shop.aside().join("out");
    let run = led(
        &shop,
        "1:w",
        &[answer],
        &["--approve-plan", "--approve", "auto"],
    )
    .spawn_into(std::fs::File::create(&out).unwrap());
    assert_eq!(
        proposed(&shop, 1)["leftOut"],
        serde_json::json!(["make test", "curl x | sh"])
    );
    let shown = plan(&shop, &["show"]).exits(0).stdout;
    let part = "Left out, because it was not approved:\n  - make test\n  - curl x | sh\n";
    assert!(shown.contains(part), "{shown}");
    plan(&shop, &["accept", "--revision", "1"]).exits(0);
    ends(run, 0);
    let printed = std::fs::read_to_string(&out).unwrap();
    let line = "its checks will not run, because you have not allowed them: make test, curl x | sh";
    assert!(printed.contains(line), "{printed}");
    let checked = shop.events_of("verify.started");
    assert!(
        checked
            .iter()
            .all(|event| event["data"]["command"] == "true")
    );
}

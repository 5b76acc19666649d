//! Questions that an agent's client asks by itself are questions of the worker like any other. The agent plays the
//! recorded dialogue of a real client, which asks which port to use.

use std::path::PathBuf;

use serde_json::Value;
use teamster_testkit::RunCmd;

use super::Shop;
use crate::kit::Call;
use crate::studio::terminal::Terminal;
use crate::workers::asking::{answers, client_of};

const QUESTION: &str = "Which port should it use?";

/// Prepares a run of one worker whose client asks; returns it with the folder of the client's program.
fn run(shop: &Shop, more: &[&str]) -> (Call, PathBuf) {
    let (folder, _) = client_of(&shop.aside(), "question");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    let args = RunCmd::new("shop", "1:claude", "serve it").verify("true");
    let args = args.more(&["--review", "off"]).more(more);
    (shop.call(args).env("PATH", path), folder)
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the client's answer to its question.
fn told(folder: &std::path::Path) -> Value {
    let answers = answers(folder);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers[0].clone()
}

#[test]
fn question_of_the_client_is_answered_in_words_and_the_client_gets_them() {
    let shop = Shop::new();
    let (call, folder) = run(&shop, &["--leader", "engine", "--approve", "auto"]);
    let mut host = call.spawn();
    shop.until("the question", || {
        !shop.events_of("question.asked").is_empty()
    });
    let asked = &shop.events_of("question.asked")[0];
    assert_eq!(asked["actor"], "worker-1");
    assert_eq!(asked["data"]["to"], "person");
    let id = format!("q{}", asked["seq"]);
    let status = shop.run(["status", "--team", "shop"]).succeeds().stdout;
    assert!(status.contains(QUESTION), "{status}");
    assert!(status.contains("8080: the usual"), "{status}");
    assert!(
        status.contains(&format!("teamster answer {id}")),
        "{status}"
    );
    shop.run([
        "answer",
        &id,
        "8080, but make it a setting",
        "--team",
        "shop",
    ])
    .succeeds();
    assert!(host.wait().unwrap().success());
    let told = told(&folder);
    assert_eq!(told["behavior"], "allow");
    assert_eq!(
        told["updatedInput"]["answers"][QUESTION],
        "8080, but make it a setting"
    );
    assert!(
        shop.events_of("agent.event")
            .iter()
            .all(|event| event["data"]["what"] != "denied")
    );
    let report = in_one_line(&shop.report());
    assert!(
        report.contains("you answered: 8080, but make it a setting"),
        "{report}"
    );
}

#[test]
fn question_of_the_client_is_answered_at_the_terminal() {
    let shop = Shop::new();
    let (call, folder) = run(&shop, &["--leader", "engine"]);
    let mut terminal = Terminal::of_call(call);
    terminal.wait_for("worker-1 asks about task 1");
    terminal.wait_for(QUESTION);
    terminal.wait_for("answer> ");
    terminal.press("9090\r");
    terminal.wait_for("worker-1 has the answer");
    terminal.wait_for("decision> ");
    terminal.press("approve\r");
    terminal.ends();
    assert_eq!(told(&folder)["updatedInput"]["answers"][QUESTION], "9090");
}

#[test]
fn leader_is_asked_first_and_the_client_is_told_whose_answer_it_is() {
    let shop = Shop::new();
    let boss = shop.aside().join("boss.sh");
    // It plans once; then it answers questions.
    std::fs::write(
        &boss,
        "cat > asked\nq=$(grep -o 'Question q[0-9]*' asked | head -n 1 | cut -d ' ' -f 2)\n\
         if grep -q 'You are asked because' asked; then\n\
         printf '{\"actions\": [{\"action\": \"answer\", \"question\": \"%s\", \"text\": \"the one of the tests\"}]}\\n' $q\n\
         else printf '{\"tasks\": [{\"id\": \"a\", \"subject\": \"Serve it\"}]}\\n'; fi\n",
    )
    .unwrap();
    let provider = format!("boss=command:sh {}", boss.display());
    let (call, folder) = run(
        &shop,
        &[
            "--provider",
            &provider,
            "--leader",
            "boss",
            "--approve",
            "auto",
        ],
    );
    call.run().succeeds();
    assert_eq!(shop.events_of("question.asked")[0]["data"]["to"], "leader");
    let told = told(&folder);
    let answer = told["updatedInput"]["answers"][QUESTION].as_str().unwrap();
    assert!(answer.ends_with("the one of the tests"), "{answer}");
    assert!(answer.contains("not by the user"), "{answer}");
}

#[test]
fn question_that_nobody_answers_leaves_the_decision_to_the_worker_and_the_report_says_so() {
    let shop = Shop::new();
    let (call, folder) = run(&shop, &["--leader", "engine", "--approve", "auto"]);
    call.env("TEAMSTER_WORKER_IDLE_LIMIT", "1s")
        .run()
        .succeeds();
    let told = told(&folder);
    assert_eq!(told["behavior"], "deny");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("nobody answered within 1 s"), "{message}");
    assert!(message.contains("Decide by yourself"), "{message}");
    let report = in_one_line(&shop.report());
    assert!(
        report.contains("no answer, so worker-1 decided by itself (nobody answered within 1 s)"),
        "{report}"
    );
}

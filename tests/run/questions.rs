//! Questions of agents at the terminal of a run.

use teamster_testkit::RunCmd;

use super::Shop;
use crate::kit::Call;
use crate::studio::terminal::Terminal;
use crate::studio::wait_for;

/// A worker that asks, and saves the answer.
const ASKS: &str = "TEAMSTER ask 'Which of the two?' > answer.txt && echo done";

/// A worker that asks one question, and another one while the first is pending.
const ASKS_TWICE: &str = "TEAMSTER ask 'Which colour?' > colour.txt &
until test -e ROOT/go; do sleep 0.02; done
TEAMSTER ask 'May I delete it all?' > delete.txt; wait; echo done";

/// A worker that is blocked until it gets a name.
const BLOCKED: &str = "if grep -q http ROOT/prompt; then echo http > name.txt; echo done
else printf '%s\\n' '```teamster' '{\"status\": \"blocked\", \"summary\": \"Which name?\"}' '```'; fi";

/// Prepares a run without a leader, with one worker that runs these lines for each task.
fn run(shop: &Shop, work: &str) -> Call {
    let aside = shop.aside();
    let root = aside.to_str().unwrap();
    let work = work.replace("ROOT", root);
    let work = work.replace("TEAMSTER", env!("CARGO_BIN_EXE_teamster"));
    std::fs::write(
        aside.join("agent.sh"),
        format!("cat > {root}/prompt\n{work}\n"),
    )
    .unwrap();
    let args = RunCmd::new("shop", "1:w", "mend it")
        .provider(&format!("w=command:sh {root}/agent.sh"))
        .leader("engine")
        .verify("true");
    shop.call(args.more(&["--review", "off"]))
}

fn answers(shop: &Shop) -> usize {
    shop.events_of("question.answered").len()
}

#[test]
fn question_is_answered_at_the_terminal_of_the_run_while_it_goes_on() {
    let shop = Shop::new();
    let call = run(&shop, ASKS);
    let mut terminal = Terminal::after_typing("yes\r1 typed too early\r", call.command());
    terminal.wait_for("worker-1 asks about task 1");
    terminal.wait_for("Type: YOUR ANSWER · Enter to answer later");
    terminal.wait_for("answer> ");
    assert_eq!(answers(&shop), 0, "{}", terminal.text());
    // Postponed, and resumed.
    terminal.press("\r");
    terminal.wait_for("1 question for you: press Enter");
    terminal.press("\r");
    let is_asked = || (terminal.line().trim_end() == "answer>").then_some(());
    wait_for("the question anew", is_asked);
    terminal.press("1 the second\r");
    terminal.wait_for("worker-1 has the answer");
    terminal.wait_for("decision> ");
    assert_eq!(answers(&shop), 1);
    assert_eq!(
        shop.events_of("question.answered")[0]["data"]["answer"],
        "the second"
    );
    terminal.press("approve\r");
    terminal.ends();
    let landed = shop.git(&["show", "main:answer.txt"]);
    assert!(landed.contains("the second"), "{landed}");
    let report = shop.report();
    assert!(report.contains("you answered: the second"), "{report}");
}

#[test]
fn question_that_is_answered_elsewhere_leaves_the_prompt() {
    let shop = Shop::new();
    let call = run(&shop, ASKS);
    let mut terminal = Terminal::after_typing("", call.command());
    terminal.wait_for("answer> ");
    let id = shop.events_of("question.asked")[0]["seq"].as_u64().unwrap();
    shop.run(["answer", &format!("q{id}"), "the first"])
        .succeeds();
    terminal.wait_for("This was answered elsewhere");
    terminal.wait_for("decision> ");
    terminal.press("reject\r");
    terminal.exits(10);
}

#[test]
fn question_that_comes_while_another_is_open_is_shown_before_it_can_be_answered() {
    let shop = Shop::new();
    let call = run(&shop, ASKS_TWICE);
    let mut terminal = Terminal::of_call(call);
    terminal.wait_for("Which colour?");
    terminal.wait_for("Type: YOUR ANSWER");
    let is_asked = |terminal: &Terminal| (terminal.line().trim_end() == "answer>").then_some(());
    wait_for("the first prompt", || is_asked(&terminal));
    std::fs::write(shop.aside().join("go"), "").unwrap();
    terminal.wait_for("May I delete it all?");
    terminal.wait_for("Type: 1 YOUR ANSWER · 2 YOUR ANSWER");
    wait_for("the prompt for both", || is_asked(&terminal));
    let first = shop.events_of("question.asked")[0]["seq"].as_u64().unwrap();
    shop.run(["answer", &format!("q{first}"), "blue"])
        .succeeds();
    // The text for both asks for a number, so the second is shown again without one.
    terminal.wait_for("This was answered elsewhere");
    wait_for("the prompt for the second", || is_asked(&terminal));
    terminal.press("no\r");
    terminal.wait_for("decision> ");
    let answers = shop.events_of("question.answered");
    let said: Vec<&str> = answers
        .iter()
        .map(|event| event["data"]["answer"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["blue", "no"]);
    terminal.press("reject\r");
    terminal.exits(10);
}

#[test]
fn blocked_task_is_answered_at_the_terminal_and_goes_on() {
    let shop = Shop::new();
    let call = run(&shop, BLOCKED);
    let mut terminal = Terminal::after_typing("", call.command());
    terminal.wait_for("Which name?");
    terminal.wait_for("answer> ");
    terminal.press("call it http\r");
    terminal.wait_for("decision> ");
    let answer = &shop.events_of("task.unblocked")[0];
    assert_eq!(answer["data"]["reason"], "call it http");
    terminal.press("approve\r");
    terminal.ends();
    assert_eq!(shop.git(&["show", "main:name.txt"]), "http");
}

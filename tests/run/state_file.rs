//! The content of the state file during a run.

use serde_json::{Value, json};
use teamster_testkit::RunCmd;

use super::Shop;

const STATE: &str = ".bkit/agent-state.json";

/// Begins a run whose only task waits until it is released.
fn begin(shop: &Shop) -> std::process::Child {
    let script = shop.script(
        "[[step]]\ndo = \"run\"\ncommand = \"touch ROOT/begun; until test -e ROOT/go; do sleep 0.02; done; echo 1 > one.txt\"\n",
    );
    let args = RunCmd::new("shop", "1:w", "one part")
        .provider(&script)
        .approve("auto")
        .verify("true");
    let host = shop.call(&args).spawn();
    shop.until("the task begins", || shop.aside().join("begun").exists());
    host
}

fn end(shop: &Shop, mut host: std::process::Child) {
    std::fs::write(shop.aside().join("go"), "").unwrap();
    shop.until("the host ends", || host.try_wait().unwrap().is_some());
}

fn state_of(shop: &Shop) -> Option<Value> {
    let text = std::fs::read_to_string(shop.folder().join(STATE)).ok()?;
    serde_json::from_str(&text).ok()
}

#[test]
fn run_refreshes_its_state_while_nothing_changes() {
    const LONG_AGO: &str = "2026-01-01T00:00:00.000Z";
    let shop = Shop::new();
    let host = begin(&shop);
    shop.until("the worker is shown at work", || {
        state_of(&shop).is_some_and(|state| state["teammates"][0]["status"] == "working")
    });
    let mut state = state_of(&shop).unwrap();
    state["lastUpdated"] = json!(LONG_AGO);
    std::fs::write(shop.folder().join(STATE), state.to_string()).unwrap();
    shop.until("a sign of life", || {
        state_of(&shop).is_some_and(|state| state["lastUpdated"] != LONG_AGO)
    });
    end(&shop, host);
}

#[test]
fn messages_of_a_runs_members_are_in_its_state() {
    let shop = Shop::new();
    let host = begin(&shop);
    let words = ["message", "send", "--team", "shop", "--to", "worker-1"];
    let words = words
        .iter()
        .chain(&["--from", "worker-1", "use the new form"]);
    shop.run(words).succeeds();
    shop.until("the message is shown", || {
        state_of(&shop).is_some_and(|state| {
            let messages = state["recentMessages"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            messages.iter().any(|message| {
                message["content"] == "use the new form" && message["to"] == "worker-1"
            })
        })
    });
    end(&shop, host);
    let state = state_of(&shop).unwrap();
    let messages = state["recentMessages"].as_array().unwrap();
    let told = |message: &&Value| message["content"] == "use the new form";
    assert_eq!(messages.iter().filter(told).count(), 1, "it is shown once");
}

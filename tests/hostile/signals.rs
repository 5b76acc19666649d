//! Every kind of signal to the host and to a bridge: the run succeeds, or succeeds after a resume.

use std::sync::Mutex;

use serde_json::{Value, json};

use crate::run::Shop;
use crate::workers::signal;

use super::CLOCK_OFFSET;

/// One signal of each kind: requests to end, kills with and without a core dump, a stop, and one without meaning.
const SIGNALS: [&str; 9] = [
    "HUP", "INT", "TERM", "QUIT", "USR1", "PIPE", "ALRM", "TSTP", "WINCH",
];

const WAITING: &str = r#"
[[step]]
task = "mend it"
do = "run"
command = "touch ROOT/begun; until test -e ROOT/go; do sleep 0.02; done; echo mended > news.txt"
"#;

#[derive(Clone, Copy, Debug)]
enum Target {
    Host,
    Bridge,
}

fn bridge(shop: &Shop) -> Value {
    let file = ".omc/state/team-bridge/shop/worker-1.heartbeat.json";
    shop.state_file(file)["pid"].clone()
}

fn run_survives(target: Target, name: &str) {
    let shop = Shop::in_use();
    let more = ["--approve", "auto", "--verify", "grep -qx mended news.txt"];
    let clock = shop.aside().join("clock-offset");
    let call = shop.scripted_run(WAITING, &more);
    let mut host = call.env(CLOCK_OFFSET, &clock).spawn();
    shop.until("the work", || shop.aside().join("begun").exists());
    let pid = match target {
        Target::Host => json!(host.id()),
        Target::Bridge => bridge(&shop),
    };
    signal(&format!("-{name}"), &pid);
    if name == "TSTP" {
        signal("-CONT", &pid);
    }
    std::fs::write(shop.aside().join("go"), "").unwrap();
    // A dead process is recognised once its last heartbeat is old; moving the clock avoids the wait.
    std::fs::write(&clock, "60000").unwrap();
    let mut code = host.wait().unwrap().code();
    let mut times = 0;
    while code != Some(0) && times < 3 {
        code = shop.run(&["run", "--resume", "shop"]).code;
        times += 1;
    }
    assert_eq!(
        (code, shop.stage().as_str()),
        (Some(0), "complete"),
        "{target:?} {name}"
    );
    assert_eq!(
        shop.git(&["show", "main:news.txt"]),
        "mended",
        "{target:?} {name}"
    );
    assert_eq!(
        shop.events_of("task.completed").len(),
        1,
        "{target:?} {name}"
    );
    // Uncommitted work of a killed bridge is kept.
    let mut left = shop.left();
    left.retain(|name| !name.contains("worker-1.kept-"));
    assert_eq!(left, [""; 0], "{target:?} {name}");
    shop.has_drafts();
    shop.is_quiet();
}

fn all_signals(target: Target) {
    let names = Mutex::new(SIGNALS.iter());
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                loop {
                    let next = names.lock().unwrap().next();
                    let Some(name) = next else { break };
                    run_survives(target, name);
                }
            });
        }
    });
}

#[test]
fn signals_at_the_host_lose_no_work() {
    all_signals(Target::Host);
}

#[test]
fn signals_at_a_bridge_lose_no_work() {
    all_signals(Target::Bridge);
}

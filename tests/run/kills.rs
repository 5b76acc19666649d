//! The host is killed with SIGKILL at any event of a whole run. Another host resumes the run, and the outcome is that
//! of an undisturbed run.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use teamster_testkit::RunCmd;

use super::Shop;
use crate::kit::Call;
use crate::workers::kill_9;

/// The variable with the event at which a test build's host dies.
const DIE_AT: &str = "TEAMSTER_TEST_DIE_AT_EVENT";
/// The variable with the step between the events at which a run is killed.
const EVERY: &str = "TEAMSTER_KILLS_EVERY";
/// The number of runs at a time; most of their time is spent waiting.
const AT_ONCE: usize = 12;

/// The outcome of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    tree: String,
    stage: String,
    /// Status and merge of each task, by its number.
    tasks: BTreeMap<String, Value>,
    /// The subjects of all merges, sorted.
    merges: Vec<String>,
}

impl Outcome {
    fn of(shop: &Shop) -> Self {
        let tasks = shop.tasks().into_iter().map(|task| {
            let notes = &task["metadata"]["teamster"];
            let state = json!([task["subject"], task["status"], notes["merged"]]);
            (task["id"].as_str().unwrap().to_owned(), state)
        });
        let merges = shop.git(&["log", "--merges", "--format=%s", "main"]);
        // The worker does not count: any idle worker takes the next task.
        let task = |line: &str| line.split(" of ").next().unwrap().to_owned();
        let mut merges: Vec<String> = merges.lines().map(task).collect();
        merges.sort();
        Self {
            tree: shop.git(&["rev-parse", "main^{tree}"]),
            stage: shop.stage(),
            tasks: tasks.collect(),
            merges,
        }
    }
}

/// A run to be killed and resumed.
#[derive(Clone, Copy)]
struct Scenario {
    /// Prepares it.
    begin: fn(&Shop) -> Call,
    /// The subject of one of its tasks, which the report names.
    named: &'static str,
}

/// A plan with dependencies, a conflict, and a check that the team breaks.
const WHOLE: Scenario = Scenario {
    begin: |shop| shop.whole_run(&["--approve", "auto"]),
    named: "Mend adding",
};

/// A leader plans, answers a question, and decides about a finding; a reviewer has a finding, and accepts the work
/// once it is fixed.
const LED: Scenario = Scenario {
    begin: led_run,
    named: "Write news",
};

const BOSS: &str = r#"
asked=$(cat)
say() { printf '%s\n' "$1"; }
case "$asked" in
*'You are asked because'*)
  q=$(say "$asked" | grep -o 'Question q[0-9]*' | head -n 1 | cut -d ' ' -f 2)
  if test -n "$q"; then say '{"actions":[{"action":"answer","question":"'$q'","text":"Pears."}]}'
  elif say "$asked" | grep -q 'Finding f1'; then
    say '{"actions":[{"action":"create_task","subject":"Right the news","findings":["f1"]}]}'
  else say '{"actions":[]}'; fi ;;
*) say '{"tasks":[{"id":"a","subject":"Write news"},{"id":"b","subject":"Count","blockedBy":["a"]}]}' ;;
esac
"#;

const AGENT: &str = r#"
cat > /dev/null
case "$TEAMSTER_TASK_SUBJECT" in
'Write news') TEAMSTER ask 'Which fruit?' > /dev/null; echo wrong > news.txt ;;
Count) wc -l < news.txt > count.txt ;;
'Right the news') echo right > news.txt ;;
esac
echo done
"#;

const REVIEWER: &str = r#"
cat > /dev/null
if grep -q right news.txt; then echo '{"verdict":"accept"}'
else echo '{"verdict":"changes","findings":[{"severity":"blocker","path":"news.txt","line":1,"claim":"wrong"}]}'; fi
"#;

fn led_run(shop: &Shop) -> Call {
    let aside = shop.aside();
    let write = |name: &str, text: &str| {
        let text = text.replace(
            "TEAMSTER ask",
            concat!(env!("CARGO_BIN_EXE_teamster"), " ask"),
        );
        std::fs::write(aside.join(name), text).unwrap();
        format!("command:sh {}", aside.join(name).display())
    };
    let args = RunCmd::new("shop", "2:w,1:r:reviewer", "write the news")
        .provider(&format!("w={}", write("agent.sh", AGENT)))
        .provider(&format!("r={}", write("reviewer.sh", REVIEWER)))
        .provider(&format!("boss={}", write("boss.sh", BOSS)))
        .leader("boss")
        .verify("true")
        .approve("auto");
    shop.call(args)
}

/// Checks what must hold after any run, disturbed or not.
fn judge(shop: &Shop, named: &str) -> Result<(), String> {
    let mut completed: Vec<&str> = Vec::new();
    let events = shop.events();
    for event in &events {
        let Some(task) = event["taskId"].as_str() else {
            continue;
        };
        match event["type"].as_str() {
            Some("task.completed") if completed.contains(&task) => {
                return Err(format!("task {task} was completed twice"));
            }
            Some("task.completed") => completed.push(task),
            Some("task.claimed") if completed.contains(&task) => {
                return Err(format!("task {task} was done and claimed again"));
            }
            _ => {}
        }
    }
    let finished = events
        .iter()
        .filter(|event| event["type"] == "run.finished");
    if finished.count() != 1 {
        return Err("it did not end once".to_owned());
    }
    let state = shop.state_file(".omc/state/team-state.json");
    let session = shop.state_file(".party/session.json");
    if state["stage"] != "complete" || session["phase"] != "DONE" {
        return Err(format!("{} and {}", state["stage"], session["phase"]));
    }
    if !shop.report().contains(named) {
        return Err("the report says nothing".to_owned());
    }
    match shop.alive().as_slice() {
        [] => Ok(()),
        left => Err(format!("processes are left: {left:?}")),
    }
}

fn undisturbed(scenario: Scenario) -> (Outcome, u64) {
    let shop = Shop::in_use();
    (scenario.begin)(&shop).run().exits(0);
    judge(&shop, scenario.named).unwrap();
    shop.has_drafts();
    let last = shop.events().last().unwrap()["seq"].as_u64().unwrap();
    (Outcome::of(&shop), last)
}

/// Resumes a run until it is over; returns how often that was needed.
fn resume(shop: &Shop, first: Option<i32>) -> Result<u32, String> {
    let mut code = first;
    for times in 0..5 {
        if code == Some(0) && shop.stage() == "complete" {
            return Ok(times);
        }
        let ran = shop.run(&["run", "--resume", "shop"]);
        if ran.code != Some(0) {
            return Err(format!(
                "--resume: {:?}\n{}{}",
                ran.code, ran.stdout, ran.stderr
            ));
        }
        code = ran.code;
    }
    Err("it does not end".to_owned())
}

/// Kills a run at these events, one after the other.
fn killed_at(scenario: Scenario, events: &[u64], expected: &Outcome) -> Result<(), String> {
    let shop = Shop::in_use();
    let (first, more) = events.split_first().unwrap();
    let call = (scenario.begin)(&shop);
    let mut code = call.env(DIE_AT, first.to_string()).run().code;
    if code.is_some() && shop.events().len() as u64 >= *first {
        return Err(format!("it was not killed: {code:?}"));
    }
    for at in more {
        let call = shop.call(&["run", "--resume", "shop"]);
        code = call.env(DIE_AT, at.to_string()).run().code;
    }
    resume(&shop, code)?;
    judge(&shop, scenario.named)?;
    if !shop.left().is_empty() {
        return Err(format!("left: {:?}", shop.left()));
    }
    let outcome = Outcome::of(&shop);
    if outcome != *expected {
        return Err(format!("{outcome:?}\ninstead of\n{expected:?}"));
    }
    shop.has_drafts();
    Ok(())
}

/// Runs `act` for each of these, several at a time; returns all errors.
fn each(cases: &[Vec<u64>], act: impl Fn(&[u64]) -> Result<(), String> + Sync) -> Vec<String> {
    let next = AtomicU64::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) =
                    cases.get(usize::try_from(next.fetch_add(1, Ordering::SeqCst)).unwrap())
                {
                    if let Err(why) = act(case) {
                        wrong
                            .lock()
                            .unwrap()
                            .push(format!("killed at {case:?}: {why}"));
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

#[test]
fn a_killed_host_is_followed_by_another_that_comes_to_the_same() {
    let expected = killed_everywhere(WHOLE);
    assert_eq!(expected.merges.len(), 4);
}

#[test]
fn killed_host_of_a_led_run_with_a_review_is_followed_by_another_that_comes_to_the_same() {
    let expected = killed_everywhere(LED);
    let subjects: Vec<&Value> = expected.tasks.values().map(|task| &task[0]).collect();
    assert_eq!(subjects, ["Write news", "Count", "Right the news"]);
    assert_eq!(expected.merges.len(), 3);
}

/// Kills a run at its events, each in a separate run, and resumes it; returns the common outcome.
#[expect(clippy::print_stdout, reason = "the evidence reads what tests print")]
fn killed_everywhere(scenario: Scenario) -> Outcome {
    let every: u64 = std::env::var(EVERY).map_or(5, |text| text.parse().unwrap());
    let (expected, last) = undisturbed(scenario);
    assert_eq!(expected.stage, "complete");
    let step = usize::try_from(every).unwrap();
    let mut cases: Vec<Vec<u64>> = (2..=last).step_by(step).map(|at| vec![at]).collect();
    // Twice in a row: the second host dies soon after it starts.
    cases.extend((4..=last).step_by(step * 5).map(|at| vec![at, at + 4]));
    let start = Instant::now();
    let wrong = each(&cases, |events| killed_at(scenario, events, &expected));
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    println!(
        "{} runs of {last} events ({}), killed at every {every}. event or twice in a row, and taken up: the same states of \
         tasks, tree, merges and end; nothing done or merged twice, nobody left ({} s)",
        cases.len(),
        scenario.named,
        start.elapsed().as_secs()
    );
    expected
}

#[test]
fn a_host_may_be_killed_at_any_moment() {
    let shop = Shop::in_use();
    let mut host = shop.whole_run(&["--approve", "auto"]).spawn();
    // The number of further events after which the host is killed: a different place each time.
    for events in [2, 1, 3, 5, 8, 13] {
        let wanted = shop.events().len() + events;
        shop.until("the host's next events", || {
            shop.events().len() >= wanted || host.try_wait().unwrap().is_some()
        });
        host.kill().unwrap();
        host.wait().unwrap();
        host = shop.call(&["run", "--resume", "shop"]).spawn();
    }
    let ended = host.wait().unwrap();
    resume(&shop, ended.code()).unwrap();
    judge(&shop, WHOLE.named).unwrap();
    shop.has_drafts();
}

#[test]
fn what_a_killed_host_was_waiting_for_does_not_outlive_its_successor() {
    let shop = Shop::in_use();
    // Waits forever with a child process, and records that once the child runs; returns at once if it was released
    // before.
    let wait = |name: &str| {
        let at = shop.aside().join(name).display().to_string();
        format!("test -e {at}.go || {{ sleep 600 & echo > {at}; sleep 600; }}")
    };
    let script =
        shop.script("[[step]]\ndo = \"edit\"\npath = \"went.txt\"\ncontent = \"went\\n\"\n");
    let boss = format!(
        "boss=command:cat > /dev/null; {}; echo '{{\"tasks\":[{{\"id\":\"go\",\"subject\":\"Go\"}}]}}'",
        wait("planning")
    );
    let check = wait("checking");
    let args = RunCmd::new("shop", "1:w", "mend it")
        .provider(&script)
        .provider(&boss)
        .leader("boss")
        .verify(&check)
        .approve("auto");
    let mut host = shop.call(&args).spawn();
    for name in ["checking", "planning"] {
        shop.until(name, || shop.aside().join(name).exists());
        host.kill().unwrap();
        host.wait().unwrap();
        let left = shop.alive();
        assert!(left.len() >= 2, "it lives on: {left:?}");
        std::fs::write(shop.aside().join(format!("{name}.go")), "").unwrap();
        host = shop.call(&["run", "--resume", "shop"]).spawn();
        shop.until("its end", || {
            let now = shop.alive();
            !left.iter().any(|pid| now.contains(pid))
        });
    }
    assert!(host.wait().unwrap().success());
    assert_eq!(shop.stage(), "complete");
    assert_eq!(shop.git(&["show", "main:went.txt"]), "went");
    shop.is_quiet();
    shop.has_drafts();
}

#[test]
fn after_everybody_was_killed_at_once_others_do_what_was_not_done() {
    let shop = Shop::in_use();
    let mut host = shop.whole_run(&["--approve", "auto"]).spawn();
    shop.until("the second task", || shop.aside().join("at-mul").exists());
    for pid in shop.alive() {
        kill_9(&json!(pid));
    }
    host.wait().unwrap();
    // As old as after a power-off of the machine.
    for worker in ["worker-1", "worker-2"] {
        let file = format!(".omc/state/team-bridge/shop/{worker}.heartbeat.json");
        let mut beat = shop.state_file(&file);
        let then = crate::kit::now().as_millis() - 60_000;
        beat["lastPollAt"] = json!(teamster_types::Time::from_millis(then));
        shop.project.write(&file, &beat.to_string());
    }
    resume(&shop, None).unwrap();
    judge(&shop, WHOLE.named).unwrap();
    shop.has_drafts();
    assert!(!shop.events_of("worker.dead").is_empty());
    // Uncommitted work of killed workers must not be discarded.
    let left = shop.left();
    assert!(left.iter().all(|left| left.contains(".kept-")), "{left:?}");
}

#[test]
fn stop_request_that_a_killed_worker_could_not_obey_does_not_keep_it_down() {
    let shop = Shop::in_use();
    let mut host = shop.whole_run(&["--approve", "auto"]).spawn();
    shop.until("the second task", || shop.aside().join("at-mul").exists());
    for pid in shop.alive() {
        kill_9(&json!(pid));
    }
    host.wait().unwrap();
    shop.until("the end of everybody", || shop.alive().is_empty());
    // As if everybody had been killed just after the host had asked its workers to stop.
    let signals = shop.project.claude("teams/shop/signals");
    std::fs::create_dir_all(&signals).unwrap();
    let asked = json!({
        "requestId": "r1", "reason": "the work is over", "timestamp": crate::kit::now(),
    });
    for worker in ["worker-1", "worker-2"] {
        let launch = format!(".omc/state/team-bridge/shop/{worker}.launch.json");
        assert!(shop.state_file(&launch)["process"].is_object());
        let file = signals.join(format!("{worker}.shutdown"));
        std::fs::write(file, asked.to_string()).unwrap();
    }
    resume(&shop, None).unwrap();
    judge(&shop, WHOLE.named).unwrap();
    shop.has_drafts();
}

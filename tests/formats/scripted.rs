//! Workers that play a list of `[[step]]`.

use std::path::Path;

use serde_json::Value;

use crate::workers::{Crew, carriers};

/// A crew whose workers play this script.
struct Stage {
    crew: Crew,
    provider: String,
}

impl Stage {
    fn new(script: &str) -> Self {
        let crew = Crew::new();
        // Outside the project: an uncommitted file is not in a worktree, and should not look as if it were.
        let file = crew.project.home().join("script.toml");
        std::fs::write(&file, script).unwrap();
        Self {
            provider: format!("scripted:{}", file.display()),
            crew,
        }
    }

    fn start(&self, name: &str) -> Value {
        let started = self.crew.start_provider(name, &self.provider, &[], &[]);
        started.succeeds().json()
    }

    /// Creates tasks from a plan, and returns their numbers.
    fn import(&self, plan: &str) -> Value {
        self.crew.project.write("plan.toml", plan);
        let ran = self
            .crew
            .project
            .run(["task", "import", "plan.toml", "--json"]);
        ran.succeeds().json()["ids"].clone()
    }

    /// Returns a file from a finished task's commit.
    fn file(&self, task: &Value, path: &str) -> String {
        let commit = task["metadata"]["teamster"]["result"]["commit"].as_str();
        self.crew
            .git(&["show", &format!("{}:{path}", commit.unwrap())])
    }
}

#[test]
fn steps_find_their_task_by_the_plans_id_or_how_its_subject_begins() {
    let stage = Stage::new(
        r#"
[[step]]
task = "2"
do = "edit"
path = "src/deep/two.txt"
content = "two, {id} and {subject}\n"

[[step]]
task = "Fix"
do = "edit"
path = "a.txt"
find = "one"
replace = "first"

[[step]]
do = "say"
text = "for every task"
"#,
    );
    // In this plan, `2` gets the number 1, and the other task 2.
    let ids = stage.import(
        "[[tasks]]\nid = '2'\nsubject = 'Write it'\n\n[[tasks]]\nid = 'x'\nsubject = 'Fix the text'\n",
    );
    assert_eq!(ids["2"], "1");
    stage.start("ann");
    let two = stage.crew.until_status("1", "completed");
    let fix = stage.crew.until_status("2", "completed");
    assert_eq!(two["metadata"]["teamster"]["label"], "2");
    let result = |task: &Value| task["metadata"]["teamster"]["result"].clone();
    assert_eq!(
        result(&two)["files"],
        serde_json::json!(["src/deep/two.txt"])
    );
    assert_eq!(
        stage.file(&two, "src/deep/two.txt"),
        "two, {id} and {subject}",
        "content is written as it is"
    );
    assert_eq!(result(&two)["summary"], "for every task");
    assert_eq!(result(&fix)["files"], serde_json::json!(["a.txt"]));
    assert_eq!(stage.file(&fix, "a.txt"), "first");
}

#[test]
fn a_task_that_no_plan_named_is_found_by_its_number_and_one_without_steps_is_done_at_once() {
    let stage = Stage::new("[[step]]\ntask = '2'\ndo = 'say'\ntext = 'the second'\n");
    let (first, second) = (stage.crew.task("alpha"), stage.crew.task("beta"));
    stage.start("ann");
    let result = |id: &str| {
        let task = stage.crew.until_status(id, "completed");
        task["metadata"]["teamster"]["result"]["summary"].clone()
    };
    assert_eq!(result(&second), "the second");
    assert_eq!(
        result(&first),
        "the script has no step for this task, so nothing was done"
    );
}

#[test]
fn an_attempt_fails_with_its_code_and_text_and_the_next_one_is_another() {
    let stage = Stage::new(
        r#"
[[step]]
attempt = 1
do = "run"
command = "echo half > half.txt"

[[step]]
attempt = 1
do = "fail"
code = 3
text = "the network is down"

[[step]]
attempt = 2
do = "sleep"
seconds = 0.1

[[step]]
attempt = 2
do = "run"
command = "echo whole > whole.txt"

[[step]]
attempt = 2
do = "commit"
text = "Write it at once"
"#,
    );
    let id = stage.crew.task("twice");
    stage.start("ann");
    let task = stage.crew.until_status(&id, "completed");
    let failed = &stage.crew.events("task.failed")[0];
    assert!(
        failed.to_string().contains("the network is down"),
        "{failed}"
    );
    assert_eq!(stage.file(&task, "whole.txt"), "whole");
    let commit = task["metadata"]["teamster"]["result"]["commit"].as_str();
    let log = stage.crew.git(&["log", "--format=%s", commit.unwrap()]);
    assert!(log.contains("Write it at once"), "{log}");
}

#[test]
fn a_crash_is_a_death_by_a_signal_and_costs_an_attempt() {
    let stage = Stage::new("[[step]]\nattempt = 1\ndo = 'crash'\n");
    let id = stage.crew.task("dies once");
    stage.start("ann");
    stage.crew.until_status(&id, "completed");
    let failed = &stage.crew.events("task.failed")[0];
    assert!(failed.to_string().contains("signal"), "{failed}");
}

#[test]
fn who_hangs_and_ignores_signals_is_ended_all_the_same() {
    let stage = Stage::new("[[step]]\ndo = 'ignore-signals'\n\n[[step]]\ndo = 'hang'\n");
    let id = stage.crew.task("never ends");
    let launch = stage.start("ann")["launch"].as_str().map(str::to_owned);
    stage.crew.until("the agent", || {
        let said = stage.crew.project.run(["worker", "logs", "ann"]).stdout;
        said.contains("ignores SIGINT and SIGTERM")
    });
    let agents = || {
        let beat = stage.crew.heartbeat("ann").unwrap_or_default();
        let launch = launch
            .clone()
            .or_else(|| beat["launch"].as_str().map(str::to_owned));
        carriers("TEAMSTER_LAUNCH", &launch.unwrap_or_default())
    };
    let before = agents();
    assert!(before.len() >= 2, "bridge and agent: {before:?}");
    let stop = ["worker", "stop", "ann", "--deadline", "3s", "--json"];
    stage.crew.project.run(stop).exits(0);
    stage.crew.until("everyone's end", || {
        before.iter().all(|pid| !is_alive(*pid))
    });
    assert_eq!(stage.crew.shown(&id)["status"], "pending");
}

#[test]
fn an_orphan_leaves_its_family_and_is_found_when_the_task_ends() {
    let stage = Stage::new(
        "[[step]]\ndo = 'spawn-orphan'\nseconds = 600\n\n[[step]]\ndo = 'sleep'\nseconds = 3\n",
    );
    let id = stage.crew.task("careless");
    stage.start("ann");
    let mut pid = 0;
    stage.crew.until("the orphan", || {
        let said = stage.crew.project.run(["worker", "logs", "ann"]).stdout;
        let digits = said.split("pid ").nth(1).unwrap_or_default();
        let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
        pid = digits.parse().unwrap_or(0);
        pid > 0
    });
    assert!(is_alive(pid));
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let bridge = stage.crew.heartbeat("ann").unwrap()["pid"].to_string();
    // State, parent, group and session all differ from the agent's.
    let of_bridge = std::fs::read_to_string(format!("/proc/{bridge}/stat")).unwrap();
    let session = of_bridge.rsplit(')').next().unwrap();
    let session = session.split_whitespace().nth(3).unwrap().to_owned();
    assert_ne!(fields[3], session, "it has a session of its own");
    stage.crew.until_status(&id, "completed");
    stage.crew.until("the orphan's end", || !is_alive(pid));
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .starts_with(" Z")
    })
}

#[test]
fn a_script_in_the_former_form_is_refused_with_its_file_and_line() {
    let stage = Stage::new("[[step]]\ndo = 'hang'\n\n[[task]]\nsteps = []\n");
    let refused = stage.crew.start_provider("ann", &stage.provider, &[], &[]);
    let refused = refused.fails(2);
    assert!(
        refused.stderr.contains("script.toml, line 4"),
        "{}",
        refused.stderr
    );
}

//! Clock jumps, reused process ids, long inboxes, and two versions at once.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;

use serde_json::Value;
use teamster_testkit::RunCmd;

use super::CLOCK_OFFSET;
use crate::kit::{Call, TestProject, now};
use crate::run::Shop;
use crate::workers::{Crew, asking, kill_9};

const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
const YEAR: i64 = 365 * 24 * HOUR;

/// Three tasks for two workers; each waits until it is released.
const WAITING: &str = r#"
[[step]]
do = "run"
command = "touch ROOT/at-$TEAMSTER_TASK_ID; until test -e ROOT/go; do sleep 0.02; done; echo $TEAMSTER_TASK_ID > part-$TEAMSTER_TASK_ID.txt"
"#;

/// A shop whose clock can be changed while its processes run.
struct Moved {
    shop: Shop,
}

impl Moved {
    fn new() -> Self {
        let moved = Self {
            shop: Shop::in_use(),
        };
        moved.jump(0);
        moved
    }

    fn file(&self) -> PathBuf {
        self.shop.aside().join("clock-offset")
    }

    /// Sets the clock of all current and future processes.
    fn jump(&self, offset: i64) {
        let next = self.shop.aside().join("clock-offset.next");
        std::fs::write(&next, offset.to_string()).unwrap();
        std::fs::rename(&next, self.file()).unwrap();
    }

    fn call<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Call {
        self.shop.call(args).env(CLOCK_OFFSET, self.file())
    }

    /// Begins the run and waits until both workers are in the middle of a task.
    fn begin(&self) -> std::process::Child {
        let script = self.shop.script(WAITING);
        let plan = self.shop.parts(3);
        let args = RunCmd::new("shop", "2:w", "all parts")
            .provider(&script)
            .plan(&plan)
            .approve("auto")
            .verify("true")
            .more(&["--budget-minutes", "30"]);
        let log = std::fs::File::create(self.shop.aside().join("run.log")).unwrap();
        let host = self.call(&args).spawn_into(log);
        let at_work = |id: u32| self.shop.aside().join(format!("at-{id}")).exists();
        self.shop.until("two workers at work", || {
            (1..=3).filter(|id| at_work(*id)).count() == 2
        });
        host
    }

    fn beats(&self) -> Vec<Value> {
        let folder = self.shop.folder().join(".omc/state/team-bridge/shop");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .filter(|file| {
                file.file_name()
                    .to_string_lossy()
                    .ends_with(".heartbeat.json")
            })
            .filter_map(|file| {
                serde_json::from_str(&std::fs::read_to_string(file.path()).ok()?).ok()
            })
            .collect()
    }

    /// Waits until every worker has written a heartbeat by the changed clock.
    fn until_everybody_beats(&self, offset: i64) {
        let is_new = |beat: &Value| {
            let at: teamster_types::Time =
                serde_json::from_value(beat["lastPollAt"].clone()).unwrap();
            (at.as_millis() - now().as_millis() - offset).abs() < 60 * SECOND
        };
        self.shop.until("heartbeats by the new clock", || {
            let beats = self.beats();
            beats.len() == 2 && beats.iter().all(is_new)
        });
    }

    /// Releases the workers, and checks the result.
    fn end(&self, mut host: std::process::Child, claims: usize) {
        std::fs::write(self.shop.aside().join("go"), "").unwrap();
        let code = host.wait().unwrap().code();
        let log = std::fs::read_to_string(self.shop.aside().join("run.log")).unwrap();
        assert_eq!(code, Some(0), "{log}");
        assert_eq!(self.shop.stage(), "complete", "{log}");
        assert_eq!(self.shop.events_of("task.claimed").len(), claims, "{log}");
        let done = self.shop.events_of("task.completed");
        let ids: BTreeSet<&str> = done
            .iter()
            .filter_map(|event| event["taskId"].as_str())
            .collect();
        assert_eq!(
            (done.len(), ids.len()),
            (3, 3),
            "each task is done once: {log}"
        );
        for part in 1..=3 {
            let text = self.shop.git(&["show", &format!("main:part-{part}.txt")]);
            assert_eq!(text, part.to_string());
        }
        for (place, event) in self.shop.events().iter().enumerate() {
            assert_eq!(
                event["seq"],
                place as u64 + 1,
                "the journal is ordered by seq"
            );
        }
        self.shop.has_drafts();
        self.shop.is_quiet();
    }
}

/// Makes the clock jump in the middle of a run, and calls everything that judges ages at once and again later.
fn clock_jumps(offset: i64) {
    let moved = Moved::new();
    let host = moved.begin();
    let left = moved.shop.left();
    moved.jump(offset);
    for _ in 0..2 {
        for args in [
            &["zombies", "reap", "--kill", "--json"][..],
            &["worktree", "gc", "--json"],
            &["status", "--team", "shop", "--json"],
            &["worker", "list", "--team", "shop", "--json"],
        ] {
            let ran = moved.call(args).run().exits(0);
            assert!(!ran.stdout.contains("\"dead\""), "{args:?}: {}", ran.stdout);
        }
        assert_eq!(moved.shop.left(), left, "no branch or worktree is gone");
        moved.until_everybody_beats(offset);
    }
    let listed = moved
        .call(&["worker", "list", "--team", "shop", "--json"])
        .run()
        .exits(0)
        .json();
    for worker in listed["workers"].as_array().unwrap() {
        assert_eq!(worker["verdict"], "healthy", "{worker}");
    }
    moved.end(host, 3);
    for kind in [
        "worker.dead",
        "worker.hung",
        "worker.silent",
        "worker.restarted",
        "task.requeued",
    ] {
        assert_eq!(
            moved.shop.events_of(kind),
            [Value::Null; 0],
            "{kind} after {offset} ms"
        );
    }
}

#[test]
fn clock_that_jumps_in_mid_run_costs_no_task_and_no_worker() {
    let to_1970 = -now().as_millis();
    std::thread::scope(|scope| {
        for offset in [HOUR, -HOUR, YEAR, to_1970] {
            scope.spawn(move || clock_jumps(offset));
        }
    });
}

#[test]
fn worker_that_dies_after_the_clock_went_back_is_replaced_and_its_task_is_done() {
    let moved = Moved::new();
    let host = moved.begin();
    moved.jump(-HOUR);
    let beat = moved.beats().into_iter().next().unwrap();
    kill_9(&beat["pid"]);
    moved.shop.until("the worker's end is seen", || {
        !moved.shop.events_of("worker.restarted").is_empty()
    });
    moved.end(host, 4);
}

#[test]
fn answer_that_was_given_after_the_clock_went_back_reaches_the_agent() {
    let crew = Crew::new();
    let offset = crew.project.home().join("clock-offset");
    let (folder, request) = asking::client(&crew);
    let id = crew.task("say hello");
    let variables = [
        ("TEAMSTER_PERMISSIONS_SHELL", "ask"),
        (CLOCK_OFFSET, offset.to_str().unwrap()),
    ];
    asking::start(&crew, &folder, &variables);
    crew.until("a request", || {
        let events = crew.events("agent.event");
        events.iter().any(|event| event["data"]["what"] == "asked")
    });
    std::fs::write(&offset, (-HOUR).to_string()).unwrap();
    let answer = ["worker", "answer", "ann", &request, "allow"];
    let answer = crew.project.call(answer).env(CLOCK_OFFSET, &offset);
    answer.run().succeeds();
    crew.until_status(&id, "completed");
}

/// Starts a worker, kills its bridge, lets the kernel give its pid to another process, and calls everything that ends
/// or replaces workers. It runs in its own pid namespace, where the next pid can be chosen.
const REUSED_PID: &str = r#"set -e
git init -q . && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m Begin
teamster team create crew > /dev/null
teamster task create --subject work > /dev/null
teamster worker start --name w1 --provider 'command:echo $$ > "$HOME"/agent; exec sleep 600' > /dev/null
until test -s "$HOME"/agent; do sleep 0.02; done
pid=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' .omc/state/team-bridge/crew/w1.heartbeat.json)
kill -9 $pid
# The guard of the worker may have ended the agent already.
kill -9 $(cat "$HOME"/agent) 2> /dev/null || true
stranger=0
until test $stranger = $pid; do
  test $stranger = 0 || kill $stranger
  sleep 0.02
  echo $((pid - 1)) > /proc/sys/kernel/ns_last_pid
  sleep 300 & stranger=$!
done
echo 600000 > "$TEAMSTER_TEST_CLOCK_OFFSET"
teamster worker list --json | grep -o '"verdict":"[a-z]*"'
teamster worker start --name w2 --provider 'command:true' > /dev/null
until teamster task list --json | grep -q '"status":"completed"'; do sleep 0.02; done
teamster zombies reap --kill --json | grep -o '"killed":[0-9]*'
teamster worker stop w1 > /dev/null 2>&1 || true
teamster shutdown --team crew --force > /dev/null
kill -0 $stranger && echo the stranger lives
teamster zombies reap --kill --json > /dev/null
kill $stranger && echo and lived to the end
"#;

#[test]
fn pid_that_the_kernel_gave_to_a_stranger_is_neither_alive_nor_killed() {
    let project = TestProject::new();
    std::fs::remove_dir(project.folder().join(".git")).unwrap();
    std::fs::write(project.home().join("reuse.sh"), REUSED_PID).unwrap();
    let inside = "unshare --user --map-root-user --pid --fork --mount-proc --kill-child";
    let may = format!("{inside} sh -c 'echo 500 > /proc/sys/kernel/ns_last_pid'");
    // Needs user namespaces, or root.
    project.shell(&may).run().exits(0);
    let ran = project
        .shell(&format!("{inside} sh \"$HOME\"/reuse.sh"))
        .env(CLOCK_OFFSET, project.home().join("clock-offset"))
        .run()
        .exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "\"verdict\":\"dead\"",
            "\"killed\":0",
            "the stranger lives",
            "and lived to the end"
        ],
        "{}",
        ran.stderr
    );
}

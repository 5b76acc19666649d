//! Random histories of the merge train: tasks that conflict or change nothing, workers that move the team's branch or
//! lie about their tasks, resolutions that resolve nothing, filters that fail, hosts that are killed. In each of
//! them, a task reported as merged is in what lands, and an incomplete run does not exit with 0.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use teamster_testkit::Dice;

use super::{INTEGRATION, add_filter};
use crate::run::Shop;

/// The variable with the number of histories.
const COUNT: &str = "TEAMSTER_MERGE_HISTORIES";
const FEW: u64 = 8;
const AT_ONCE: usize = 4;
/// Takes over the files of a task whose conflict is to be resolved.
const BRING: &str = "from=$(grep -o 'refs/teamster/shop/task-[0-9]*' $TEAMSTER_TASK_FILE | head -n 1); \
     git diff --name-only HEAD...$from | grep part | xargs git checkout $from --";

/// What goes wrong in a history.
#[derive(Debug)]
struct MergeHistory {
    plan: String,
    script: String,
    /// The host is killed at this event.
    killed_at: Option<u64>,
    has_filter: bool,
}

impl MergeHistory {
    fn of(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let count = 2 + dice.below(3);
        let (mut plan, mut script) = (String::new(), String::new());
        for task in 1..=count {
            let _ = writeln!(
                plan,
                "[[tasks]]\nid = \"t{task}\"\nsubject = \"Part {task}\""
            );
            let work = match dice.below(6) {
                0 => "true".to_owned(),
                // All tasks that write here conflict.
                1 | 2 => format!("echo {task} > news.txt; echo {task} > part-{task}.txt"),
                3 => format!("echo {task} > part-{task}.big; echo {task} > part-{task}.txt"),
                _ => format!("echo {task} > part-{task}.txt"),
            };
            let mischief = match dice.below(6) {
                0 => format!("git update-ref {INTEGRATION} $(git rev-parse main); "),
                1 => format!(
                    "git update-ref {INTEGRATION} $(git -c user.name=x -c user.email=x@x commit-tree -p HEAD -m evil \
                     $(git hash-object -t tree /dev/null)); "
                ),
                2 => "sed -i 's/\"merged\": *false/\"merged\": true/' $HOME/.claude/tasks/shop/$TEAMSTER_TASK_ID.json; "
                    .to_owned(),
                3 => "echo x > ../integration/stray.txt; ".to_owned(),
                _ => String::new(),
            };
            script += &step(&format!("t{task}"), &format!("{mischief}{work}"));
        }
        let resolve = match dice.below(3) {
            0 => "true",
            1 => {
                "test -e ROOT/once || { touch ROOT/once; exit 0; }; BRING; echo resolved >> news.txt"
            }
            _ => "BRING; echo resolved >> news.txt",
        };
        let resolve = &resolve.replace("BRING", BRING);
        script += &step("Resolve the conflict", resolve);
        Self {
            plan,
            script,
            killed_at: (dice.below(2) == 0).then(|| 10 + dice.below(70)),
            has_filter: dice.below(3) == 0,
        }
    }

    /// Plays the history to its end; returns whether anything reported as merged is missing, and what is wrong.
    fn play(&self, is_checked: bool) -> Result<bool, String> {
        let shop = Shop::new();
        if self.has_filter {
            add_filter(&shop, "*/integration");
        }
        let plan = shop.plan(&self.plan);
        let more = ["--plan", &plan, "--approve", "auto", "--verify", "true"];
        let unchecked = |call: crate::kit::Call| {
            if is_checked {
                call
            } else {
                call.env("TEAMSTER_TEST_UNCHECKED_MERGES", "1")
            }
        };
        let mut call = unchecked(shop.scripted_run(&self.script, &more));
        if let Some(event) = self.killed_at {
            call = call.env("TEAMSTER_TEST_DIE_AT_EVENT", event.to_string());
        }
        let mut ran = call.run();
        let _ = std::fs::remove_file(shop.aside().join("fail"));
        let mut resumed = 0;
        while !matches!(ran.code, Some(0 | 11 | 14)) && resumed < 6 {
            ran = unchecked(shop.call(&["run", "--resume", "shop"])).run();
            resumed += 1;
        }
        let said = format!("{}{}", ran.stdout, ran.stderr);
        if !matches!(ran.code, Some(0 | 11 | 14)) {
            return Err(format!("it does not end: {:?}\n{said}", ran.code));
        }
        let lost = missing(&shop);
        let is_unsaid = lost.keys().any(|id| {
            let kept = format!("refs/teamster/shop/task-{id}");
            !said.contains(&kept) && !shop.report_if_any().contains(&kept)
        });
        if ran.code == Some(0) && !lost.is_empty() {
            return Ok(true);
        }
        if is_unsaid {
            return Err(format!(
                "{lost:?} is missing, and nobody says where it is:\n{said}"
            ));
        }
        Ok(false)
    }
}

fn step(task: &str, command: &str) -> String {
    format!("[[step]]\ntask = {task:?}\ndo = \"run\"\ncommand = {command:?}\n")
}

/// Returns tasks with a commit whose own file is not in what has landed, or would land.
fn missing(shop: &Shop) -> BTreeMap<String, String> {
    let landed = if shop.git_ok(&["rev-parse", "--verify", "--quiet", INTEGRATION]) {
        INTEGRATION
    } else {
        "main"
    };
    let files = shop.git(&["ls-tree", "-r", "--name-only", landed]);
    let mut missing = BTreeMap::new();
    for task in shop.tasks() {
        let result = &task["metadata"]["teamster"]["result"];
        let is_own = task["metadata"]["teamster"]["resolves"].is_null();
        let Some(commit) = result["commit"].as_str().filter(|_| is_own) else {
            continue;
        };
        let id = task["id"].as_str().unwrap();
        let own = format!("part-{id}.txt");
        if !files.lines().any(|file| file == own) {
            missing.insert(id.to_owned(), commit.to_owned());
        }
    }
    missing
}

fn play_all(count: u64, is_checked: bool) -> (Vec<u64>, Vec<String>) {
    let next = AtomicU64::new(0);
    let lost = Mutex::new(Vec::new());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= count {
                        return;
                    }
                    let history = MergeHistory::of(seed);
                    match history.play(is_checked) {
                        Ok(false) => {}
                        Ok(true) => lost.lock().unwrap().push(seed),
                        Err(why) => wrong
                            .lock()
                            .unwrap()
                            .push(format!("seed {seed}: {history:?}: {why}")),
                    }
                }
            });
        }
    });
    let mut lost = lost.into_inner().unwrap();
    lost.sort_unstable();
    (lost, wrong.into_inner().unwrap())
}

#[test]
fn random_merge_trains_lose_nothing_and_without_the_check_they_do() {
    let count = std::env::var(COUNT)
        .ok()
        .and_then(|count| count.parse().ok());
    let count = count.unwrap_or(FEW);
    let (lost, wrong) = play_all(count, true);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(
        lost.is_empty(),
        "seeds {lost:?} end with 0 and lack something"
    );
    let (found, _) = play_all(count, false);
    assert!(
        !found.is_empty(),
        "the check finds nothing in {count} histories"
    );
    println!(
        "{count} histories: 0 lost with the check of merges, {} without it",
        found.len()
    );
}

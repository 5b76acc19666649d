//! Disks that are full: a whole run with so much room and no more, for the project or for the home. It ends by itself, says
//! nothing that is not so, and once there is room again `--resume` brings everything in.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use teamster_testkit::RunCmd;
use teamster_testkit::wait::poll;

use super::INTEGRATION;
use crate::run::Shop;

/// How many sizes are tried for each of the two places, unless somebody says otherwise.
const COUNT: &str = "TEAMSTER_DISK_SIZES";
const FEW: u64 = 2;
/// Set where mounting is allowed and nobody else sees it.
const INSIDE: &str = "TEAMSTER_TEST_INSIDE_MOUNTS";
/// The room beyond what is there when a run begins, in KiB, that is swept over.
const MOST_ROOM: [(&str, u64); 2] = [("project", 1_600), ("home", 500)];
/// What takes longer than this hangs.
const HANGS: Duration = Duration::from_secs(120);
const PARTS: u32 = 3;

/// Runs the sweep in mount and user namespaces of its own, so that nothing is mounted anywhere else and no rights are
/// needed.
#[test]
fn run_on_a_full_disk_ends_by_itself_and_loses_nothing() {
    let test = "hostile::full_disks::sweep_over_the_sizes_of_a_disk";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "--"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for line in said.lines().filter(|line| line.contains("sizes of")) {
        println!("{line}");
    }
}

#[test]
#[ignore = "it mounts file systems, and is run by the test above in a namespace of its own"]
fn sweep_over_the_sizes_of_a_disk() {
    assert!(
        std::env::var_os(INSIDE).is_some(),
        "it is run by the test above"
    );
    let count = std::env::var(COUNT)
        .ok()
        .and_then(|count| count.parse().ok());
    let count: u64 = count.unwrap_or(FEW);
    let mut wrong = Vec::new();
    for (place, most) in MOST_ROOM {
        let (mut whole, mut stopped) = (0, 0);
        for number in 0..count {
            // Small ones are closer together: there more goes wrong.
            let share = (number + 1) * (number + 1);
            let room = (most * share / (count * count)).max(8);
            match with_room(place, room) {
                Ok(true) => whole += 1,
                Ok(false) => stopped += 1,
                Err(why) => wrong.push(format!("{place} with {room} KiB: {why}")),
            }
        }
        println!(
            "{count} sizes of the {place}'s disk: {whole} ran through, {stopped} stopped and were resumed"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// One run in which `place` has so much room left; whether it was enough.
fn with_room(place: &str, room: u64) -> Result<bool, String> {
    let shop = Shop::on_disk(place);
    let disk = match place {
        "project" => shop.folder(),
        _ => shop.aside(),
    };
    let script = "[[step]]\ndo = \"run\"\ncommand = \"head -c 60000 /dev/urandom > part-$TEAMSTER_TASK_ID.txt\"\n";
    let plan = shop.parts(PARTS);
    let script = shop.script(script);
    let args = RunCmd::new("shop", "2:w", "all parts")
        .provider(&script)
        .plan(&plan)
        .approve("auto")
        .verify("true");
    resize(&disk, used(&disk) + room);
    let first = run(&shop, &args)?;
    if first.0 == Some(0) {
        all_landed(&shop).map_err(|why| format!("it ended with 0, and {why}:\n{}", first.1))?;
    }
    resize(&disk, 256 * 1024);
    let mut last = first.clone();
    for _ in 0..4 {
        if last.0 == Some(0) {
            break;
        }
        // Where not even the team could be made, there is nothing to resume; then it must not be promised either.
        last = if last.2 {
            run(&shop, ["run", "--resume", "shop"])?
        } else {
            run(&shop, &args)?
        };
    }
    let all = format!(
        "first: {:?}\n{}\nlast: {:?}\n{}",
        first.0, first.1, last.0, last.1
    );
    if last.0 != Some(0) {
        return Err(format!("it does not go on once there is room:\n{all}"));
    }
    all_landed(&shop).map_err(|why| format!("{why}:\n{all}"))?;
    match shop.alive().as_slice() {
        [] => Ok(first.0 == Some(0)),
        left => Err(format!("processes are left: {left:?}\n{all}")),
    }
}

/// Runs it to its end, and judges what it said; its exit code, its words, and whether it promises that a resume goes on.
fn run<I: IntoIterator<Item: AsRef<OsStr>>>(
    shop: &Shop,
    args: I,
) -> Result<(Option<i32>, String, bool), String> {
    let said = std::env::temp_dir().join(format!("said-{}", teamster_fs::random_hex()));
    let mut child = shop
        .call(args)
        .spawn_into(std::fs::File::create(&said).unwrap());
    let ended = poll(HANGS, || child.try_wait().unwrap());
    let code = ended.map(|status| status.code());
    let text = std::fs::read_to_string(&said).unwrap_or_default();
    let _ = std::fs::remove_file(said);
    if let Some(code) = code {
        let said = RunOutput {
            shop,
            text: &text,
            code,
        };
        said.judge()
            .map_err(|why| format!("it says what is not so: {why}\nin:\n{text}"))?;
        let promises = said.promises_resume();
        return Ok((code, text, promises));
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("it hangs:\n{text}"))
}

fn all_landed(shop: &Shop) -> Result<(), String> {
    let files = shop.git(&["ls-tree", "-r", "--name-only", "main"]);
    for part in 1..=PARTS {
        let part = format!("part-{part}.txt");
        if !files.lines().any(|file| file == part) {
            return Err(format!("{part} is missing"));
        }
    }
    for event in shop.events_of("merge.merged") {
        let commit = event["data"]["commit"].as_str().unwrap_or_default();
        if !shop.git_ok(&["merge-base", "--is-ancestor", commit, "main"]) {
            return Err(format!(
                "task {} is called merged and is not",
                event["taskId"]
            ));
        }
    }
    Ok(())
}

/// KiB that are taken on the disk.
fn used(disk: &Path) -> u64 {
    let output = Command::new("df")
        .args(["--output=used", "-k"])
        .arg(disk)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().nth(1).unwrap().trim().parse().unwrap()
}

fn resize(disk: &Path, size: u64) {
    let options = format!("remount,size={size}k");
    let status = Command::new("mount")
        .args(["-o", &options])
        .arg(disk)
        .status()
        .unwrap();
    assert!(status.success(), "the disk cannot be resized");
}

/// What a run promises where it cannot go on.
const PROMISE: &str = "`teamster run --resume shop` goes on";

/// What a run of the sweep said, and how it ended.
pub struct RunOutput<'a> {
    pub shop: &'a Shop,
    pub text: &'a str,
    pub code: Option<i32>,
}

impl RunOutput<'_> {
    /// Whether it says that a resume goes on.
    pub fn promises_resume(&self) -> bool {
        self.text.contains(PROMISE)
    }

    /// Judges every sentence, right after the run has ended and before anything else happens.
    pub fn judge(&self) -> Result<(), String> {
        for line in self.text.lines().filter(|line| !line.trim().is_empty()) {
            self.sentence(without_time(line))
                .map_err(|why| format!("{why}: {line}"))?;
        }
        let has = |word: &str| self.text.lines().any(|line| line.starts_with(word));
        if has("error: ") == (self.code == Some(0)) || has("error: ") != has("hint: ") {
            return Err("its exit code, its error and its hint do not fit".to_owned());
        }
        Ok(())
    }

    fn sentence(&self, text: &str) -> Result<(), String> {
        if let Some(error) = text.strip_prefix("error: ") {
            return names_full_disk(error).and_then(|()| names_place(error));
        }
        if let Some(hint) = text.strip_prefix("hint: ") {
            let is_told = hint.contains("make room") || hint.contains("free some space");
            return holds(is_told, "it does not say to make room")
                .and_then(|()| {
                    holds(
                        hint.contains("teamster run"),
                        "it does not say how to go on",
                    )
                })
                .and_then(|()| self.nobody_is_left());
        }
        if let Some(rest) = text.strip_prefix("task ") {
            return self.about_task(rest);
        }
        if text.contains("landed on main") {
            return holds(self.code == Some(0), "it did not end with 0").and_then(|()| {
                (1..=3).try_for_each(|task| self.has_part("refs/heads/main", task))
            });
        }
        if let Some((_, task)) = text.split_once(" has done task ") {
            return self.is_kept(number(task)?);
        }
        if text.ends_with(" has ended") {
            return self.nobody_is_left();
        }
        let reasons = [
            " could not be started: ",
            " takes no more tasks: ",
            "ended: failed (",
            "the report was not written: ",
            "the journal was not kept beside it: ",
        ];
        if let Some((_, why)) = reasons.iter().find_map(|words| text.split_once(words)) {
            return names_full_disk(why);
        }
        if let Some((file, why)) = text.split_once(" is not up to date: ") {
            let folder = match file {
                "team-state.json" => "/.omc/state/",
                "session.json" => "/.party/",
                _ => "/.bkit/",
            };
            return holds(why.contains(folder), "it names another place")
                .and_then(|()| names_full_disk(why));
        }
        if let Some((name, _)) = text.split_once(" is kept: ") {
            return self.is_there(name);
        }
        if let Some(branch) = text.strip_prefix("work that was found in no commit is kept in ") {
            return self.is_there(branch.trim_start_matches("omc-team/shop/"));
        }
        if let Some(commit) = text
            .strip_prefix("the gate is open for ")
            .or_else(|| text.strip_prefix("approved: "))
        {
            return self.shop.try_git(&["cat-file", "-e", commit]).map(drop);
        }
        if text == ".omc/reports/shop/report.md tells all" {
            return holds(!self.shop.report_if_any().is_empty(), "there is no report");
        }
        if text.starts_with("plan: ") {
            let right = text == "plan: 3 tasks from the plan file";
            return holds(right, "the plan has three tasks");
        }
        let of_journal = [
            ("the run of team shop begins", "run.started"),
            ("the run of team shop goes on", "run.resumed"),
            ("stage: ", "run.stage"),
            ("checks ", "verify.started"),
            ("passed ", "verify.passed"),
        ];
        if let Some((_, kind)) = of_journal.iter().find(|(words, _)| text.starts_with(words)) {
            return holds(!self.shop.events_of(kind).is_empty(), "nothing tells of it");
        }
        let by_worker = [
            " begins task ",
            " was started anew",
            " is dead: ",
            " waits: ",
        ];
        holds(
            text.starts_with("worker-") && by_worker.iter().any(|words| text.contains(words)),
            "nobody has judged such a sentence yet",
        )
    }

    /// A sentence that begins with a task.
    fn about_task(&self, text: &str) -> Result<(), String> {
        let task = number(text)?;
        let is_over = self.shop.stage() == "complete";
        if text.ends_with(" is merged") {
            let place = if is_over {
                "refs/heads/main"
            } else {
                INTEGRATION
            };
            return self.has_part(place, task);
        }
        if let Some((_, why)) = text.split_once(" failed: ") {
            return names_full_disk(why);
        }
        let known = [" goes back to the others", " it is merged again"];
        holds(
            known.iter().any(|end| text.ends_with(end)),
            "nobody has judged such a sentence yet",
        )
    }

    /// What a task has made is in what lands, or kept for it.
    fn is_kept(&self, task: u32) -> Result<(), String> {
        let own = format!("refs/teamster/shop/task-{task}");
        let places = ["refs/heads/main", INTEGRATION, &own];
        let is_somewhere = places
            .iter()
            .any(|place| self.has_part(place, task).is_ok());
        holds(is_somewhere, "what it has made is nowhere")
    }

    fn has_part(&self, place: &str, task: u32) -> Result<(), String> {
        let file = format!("{place}:part-{task}.txt");
        let size = self.shop.try_git(&["cat-file", "-s", &file])?;
        holds(size.trim() == "60000", "it is not whole")
    }

    /// A name of kept work is one of a branch or of a worktree.
    fn is_there(&self, name: &str) -> Result<(), String> {
        let branch = format!("refs/heads/omc-team/shop/{name}");
        let folder = self.shop.folder().join(".omc/worktrees/shop").join(name);
        let is_branch = self
            .shop
            .git_ok(&["rev-parse", "--verify", "--quiet", &branch]);
        holds(is_branch || folder.is_dir(), "it is not there")
    }

    fn nobody_is_left(&self) -> Result<(), String> {
        match self.shop.alive().as_slice() {
            [] => Ok(()),
            left => Err(format!("processes are left: {left:?}")),
        }
    }
}

/// The text of a line without the time before it.
fn without_time(line: &str) -> &str {
    let is_time = |text: &str| {
        text.len() == 8
            && text
                .chars()
                .all(|letter| letter.is_ascii_digit() || letter == ':')
    };
    match line.split_once("  ") {
        Some((time, text)) if is_time(time) => text,
        _ => line.trim(),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let digits = text.split(' ').next().unwrap_or_default();
    digits.parse().map_err(|_| "it names no task".to_owned())
}

fn names_full_disk(text: &str) -> Result<(), String> {
    let words = [
        " is full",
        "no space left on device",
        "No space left on device",
    ];
    let is_named = words.iter().any(|words| text.contains(words));
    holds(is_named, "it does not say that a disk is full")
}

/// It names a folder, or a file of one, that is there.
fn names_place(text: &str) -> Result<(), String> {
    let words = text.split([' ', '\'', ':', ';', '`']);
    let mut paths = words.filter(|word| word.starts_with('/'));
    let is_there = |path: &str| {
        let path = std::path::Path::new(path);
        path.exists() || path.parent().is_some_and(std::path::Path::exists)
    };
    holds(paths.any(is_there), "it names no place that is there")
}

fn holds(is_so: bool, otherwise: &str) -> Result<(), String> {
    if is_so {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

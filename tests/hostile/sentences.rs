//! Checks every sentence that a run prints on a full disk against git, the file system and the processes. An unknown
//! sentence is an error too, so that none goes unchecked.

use serde_json::Value;

use super::INTEGRATION;
use crate::run::Shop;

/// The promise of a run that cannot continue.
const PROMISE: &str = "resume: `teamster run --resume shop`";

/// The output and exit code of a run of the sweep.
pub struct RunOutput<'a> {
    pub shop: &'a Shop,
    pub text: &'a str,
    pub code: Option<i32>,
}

impl RunOutput<'_> {
    /// Returns whether the output promises that a resume goes on.
    pub fn promises_resume(&self) -> bool {
        self.text.contains(PROMISE)
    }

    /// Checks every sentence, right after the run has ended and before anything else happens.
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

    /// Returns whether the error or its hint says what to do about the disk.
    fn says_to_make_room(&self) -> bool {
        let ends = |line: &&str| line.starts_with("error: ") || line.starts_with("hint: ");
        self.text
            .lines()
            .filter(ends)
            .any(|line| line.contains("make room") || line.contains("free some space"))
    }

    fn sentence(&self, text: &str) -> Result<(), String> {
        if let Some(error) = text.strip_prefix("error: ") {
            return names_full_disk(error).and_then(|()| names_place(error));
        }
        if let Some(hint) = text.strip_prefix("hint: ") {
            return holds(self.says_to_make_room(), "it does not say to make room")
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
        if let Some((_, task)) = text.split_once(" completed task ") {
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
            "the journal was not kept beside the report: ",
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
        if let Some(branch) = text.strip_prefix("uncommitted work that was found is kept in ") {
            return self.is_there(branch.trim_start_matches("omc-team/shop/"));
        }
        if let Some(commit) = text
            .strip_prefix("ready for your review: ")
            .or_else(|| text.strip_prefix("approved: "))
        {
            return self.shop.try_git(&["cat-file", "-e", commit]).map(drop);
        }
        if text == "report: .omc/reports/shop/report.md" {
            return holds(!self.shop.report_if_any().is_empty(), "there is no report");
        }
        if text.starts_with("plan: ") {
            let right = text == "plan: 3 tasks from the plan file";
            return holds(right, "the plan has three tasks");
        }
        if let Some(what) = text.strip_prefix("left") {
            return self.about_what_is_left(what);
        }
        let of_journal = [
            ("the run of team shop begins", "run.started"),
            ("the run of team shop is resumed", "run.resumed"),
            ("stage: ", "run.stage"),
            ("checks ", "verify.started"),
            ("passed ", "verify.passed"),
        ];
        if let Some((_, kind)) = of_journal.iter().find(|(words, _)| text.starts_with(words)) {
            return holds(!self.shop.events_of(kind).is_empty(), "nothing tells of it");
        }
        let by_worker = [
            " begins task ",
            " is restarted (restart ",
            " is dead: ",
            " waits: ",
        ];
        holds(
            text.starts_with("worker-") && by_worker.iter().any(|words| text.contains(words)),
            "nobody has judged such a sentence yet",
        )
    }

    /// Checks a sentence about what a host that cannot continue leaves: open tasks, worktrees, branches.
    fn about_what_is_left(&self, text: &str) -> Result<(), String> {
        let to_do = text.strip_prefix(" to do: task ");
        let to_merge = text.strip_prefix(" to merge: task ");
        if let Some(list) = to_do.or(to_merge) {
            let (ids, counts) = list.split_once(" (").ok_or("it counts nothing")?;
            let is_meant = |task: &Value| {
                let is_done = task["status"] == "completed";
                let number = number(task["id"].as_str().unwrap_or_default());
                let is_merged = || number.is_ok_and(|it| self.has_part(INTEGRATION, it).is_ok());
                is_done == to_merge.is_some() && !(is_done && is_merged())
            };
            let open = self.shop.tasks().into_iter().filter(is_meant);
            let open: Vec<String> = open
                .filter_map(|task| Some(task["id"].as_str()?.to_owned()))
                .collect();
            let said: Vec<&str> = ids.split(", ").collect();
            return holds(open == said, "other tasks are open").and_then(|()| {
                holds(
                    counts == format!("{} of 3)", open.len()),
                    "it counts others",
                )
            });
        }
        if let Some((folder, _)) = text
            .strip_prefix(": worktree ")
            .and_then(|it| it.split_once(": "))
        {
            return holds(
                std::path::Path::new(folder).is_dir(),
                "there is no such folder",
            );
        }
        if let Some((branch, _)) = text
            .strip_prefix(": branch ")
            .and_then(|it| it.split_once(": "))
        {
            let full = format!("refs/heads/{branch}");
            return self
                .shop
                .try_git(&["rev-parse", "--verify", "--quiet", &full])
                .map(drop);
        }
        Err("nobody has judged such a sentence yet".to_owned())
    }

    /// Checks a sentence that begins with a task.
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
        let known = [" goes back to the queue", " it is merged again"];
        holds(
            known.iter().any(|end| text.ends_with(end)),
            "nobody has judged such a sentence yet",
        )
    }

    /// Asserts that a task's work is in what lands, or kept for it.
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

    /// Asserts that a name of kept work is one of a branch or a worktree.
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

/// Returns the text of a line without its time.
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

/// Asserts that the text names an existing folder, or a file in one.
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

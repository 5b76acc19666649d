//! A whole run with two real clients: one Codex and one Claude Code worker do a task each, what they did is merged,
//! verified and lands on the user's branch.
//!
//! The lab gives one client its surroundings. For two, one is started within the other's: the inner call keeps the
//! network of the outer one, where both model servers listen.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use super::{Lab, RealRun, Report, write_report};
use crate::product::Finished;

const TEAM: &str = "whole";
/// The longest that a run may take, in seconds.
const LONG: &str = "300";
/// Starts the inner call. `_LAB_NET` is how the lab's scripts know that they are where they should be.
const INNER: &str = r#"exec env _LAB_NET=private OUT="$INNER_OUT" XPATH="$PATH" TMO="$INNER_TMO" \
    XENV="CODEX_HOME=$HOME/.codex MOCK_KEY=dummy" "$INNER_SCRIPT" claude -- "$@""#;

/// Returns the one run there is.
pub(super) fn run() -> RealRun {
    RealRun {
        name: "run-codex-claude".to_owned(),
        clients: &["codex", "claude-2.1.325"],
        run: Box::new(start),
    }
}

fn start(lab: &Lab) -> Result<Report> {
    let surroundings = [
        format!("LAB_HOME={}", clients_home()?.display()),
        format!("INNER_OUT={}", lab.path("inner").display()),
        format!("INNER_TMO={LONG}"),
        format!("INNER_SCRIPT={}", lab.folder.join("run-worker").display()),
    ];
    let has_space = surroundings.iter().any(|variable| variable.contains(' '));
    ensure!(!has_space, "the lab takes no paths with spaces");
    let words = ["/bin/bash", "-c", INNER, "inner", "XTASK", "run-scene"];
    let variables = [("XENV", &*surroundings.join(" ")), ("TMO", LONG)];
    lab.run_inside("codex", &words, &variables)
}

/// Returns the folder that the lab's installer puts the clients into.
fn clients_home() -> Result<PathBuf> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(home) = var("LAB_HOME") {
        return Ok(home);
    }
    let cache = var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")));
    Ok(cache.context("HOME is not set")?.join("teamster-lab"))
}

/// Runs the team inside the lab and judges what it left.
#[derive(Args, Debug)]
pub(crate) struct RunScene {
    #[arg(long)]
    report: PathBuf,
}

impl RunScene {
    pub(crate) fn run(&self) -> Result<()> {
        write_report(&self.report, play)
    }
}

fn teamster(words: &[&str]) -> Result<Finished> {
    Finished::of(Command::new("teamster").args(words))
}

fn play() -> Result<Report> {
    let project = std::env::current_dir()?;
    let worktree = project.join(format!(".omc/worktrees/{TEAM}/worker-2"));
    let plan = project.with_file_name("plan.toml");
    std::fs::write(
        &plan,
        format!(
            "[[tasks]]\nid = \"a\"\nsubject = \"Patch a file\"\nowner = \"worker-1\"\n\
             description = \"[[scenario:patch]]\"\n\n\
             [[tasks]]\nid = \"b\"\nsubject = \"Write a file\"\nowner = \"worker-2\"\n\
             description = \"[[scenario:write]] [[dir:{}]]\"\n",
            worktree.display()
        ),
    )?;
    let (plan, check) = (
        plan.display().to_string(),
        "test -s patched.txt && test -s written.txt",
    );
    let mut words = vec!["run", "1:codex,1:claude", "make two files", "--team", TEAM];
    words.extend([
        "--plan",
        &plan,
        "--verify",
        check,
        "--approve",
        "auto",
        "--json",
    ]);
    let run = teamster(&words)?;
    let mut report = Report::default();
    report.check(run.success(), || {
        format!("the run fails: {}", run.describe())
    });
    let git = |words: &[&str]| -> Result<String> {
        Ok(Finished::checked(Command::new("git").args(words))?.stdout)
    };
    let files = git(&["ls-tree", "-r", "--name-only", "HEAD"])?;
    for file in ["patched.txt", "written.txt"] {
        let is_there = files.lines().any(|line| line == file);
        report.check(is_there, || format!("{file} is not on the branch"));
    }
    let log = git(&["log", "--format=%s"])?;
    for subject in ["Merge task 1 of worker-1", "Merge task 2 of worker-2"] {
        let is_there = log.lines().any(|line| line == subject);
        report.check(is_there, || format!("the history has no {subject:?}"));
    }
    let status = git(&["status", "--porcelain"])?;
    report.check(status.is_empty(), || format!("the user's tree: {status}"));
    let worktrees = git(&["worktree", "list"])?;
    report.check(worktrees.lines().count() == 1, || {
        format!("left: {worktrees}")
    });
    judge_tasks(&mut report)?;
    let text = std::fs::read_to_string(format!(".omc/reports/{TEAM}/report.md"))?;
    let is_cost = |line: &&str| line.contains('$') || line.to_lowercase().contains("tokens");
    let cost = text.lines().find(is_cost).unwrap_or_default();
    report.check(!cost.is_empty(), || "the report shows no cost".to_owned());
    let zombies = teamster(&["zombies", "scan", "--json"])?
        .json()
        .unwrap_or_default();
    let left = zombies["zombies"].as_array().map_or(0, Vec::len);
    report.check(left == 0, || format!("left over: {zombies}"));
    report.saw("landed", "both files, two merges");
    report.saw("cost", cost.trim());
    Ok(report)
}

/// Checks that both tasks are completed and merged, and that each worker has used something.
fn judge_tasks(report: &mut Report) -> Result<()> {
    let tasks = teamster(&["task", "list", "--team", TEAM, "--json"])?.json();
    let tasks = tasks.context("no tasks")?;
    for task in tasks["tasks"].as_array().context("no tasks")? {
        let merged = &task["metadata"]["teamster"]["merged"];
        report.check(task["state"] == "completed" && *merged == true, || {
            format!("task {} is {}, merged {merged}", task["id"], task["state"])
        });
    }
    let usage = teamster(&["journal", "--team", TEAM, "--type", "usage", "--json"])?.json();
    let usage = usage.unwrap_or_default();
    let events: Vec<&Value> = usage["events"].as_array().into_iter().flatten().collect();
    let uses = |worker: &str, key: &str| {
        let mut events = events.iter().filter(|event| event["actor"] == worker);
        events.any(|event| event["data"][key].as_f64() > Some(0.0))
    };
    report.check(uses("worker-1", "tokensIn"), || {
        format!("codex used nothing: {usage}")
    });
    report.check(uses("worker-2", "usd"), || {
        format!("claude cost nothing: {usage}")
    });
    Ok(())
}

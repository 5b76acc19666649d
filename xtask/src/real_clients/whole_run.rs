//! A whole run with two real clients: one Codex and one Claude Code worker do a task each, and their work is merged,
//! verified and lands on the user's branch.
//!
//! The lab provides the environment of one client. For two, one is started within the other's: the inner call keeps
//! the network of the outer one, where both model servers listen.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use teamster_testkit::RunCmd;

use super::team::LabTeam;
use super::{Lab, RealRun, Report};
use crate::product::{Finished, check, list};

const TEAM: &str = "whole";
/// The time limit for a run, in seconds.
const LONG: &str = "300";
/// Starts the inner call. By `_LAB_NET` the lab's scripts know that they are already inside its network.
const INNER: &str = r#"exec env _LAB_NET=private OUT="$INNER_OUT" XPATH="$PATH" TMO="$INNER_TMO" \
    XENV="CODEX_HOME=$HOME/.codex MOCK_KEY=dummy" "$INNER_SCRIPT" claude -- "$@""#;

/// Returns the only run of this module.
pub(super) fn run() -> RealRun {
    let name = "run-codex-claude".to_owned();
    RealRun::new(name, &["codex", "claude-2.1.325"], start)
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
    let variables = [("XENV", &*surroundings.join(" ")), ("TMO", LONG)];
    let shell = ["/bin/bash", "-c", INNER, "inner"];
    lab.play("codex", &shell, "run", &variables)
}

/// Returns the folder that the lab's installer puts the clients into.
pub(super) fn clients_home() -> Result<PathBuf> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(home) = var("LAB_HOME") {
        return Ok(home);
    }
    let cache = var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")));
    Ok(cache.context("HOME is not set")?.join("teamster-lab"))
}

/// Runs the team inside the lab and judges what it left.
pub(super) fn play() -> Result<Report> {
    let team = LabTeam::of_lab(TEAM)?;
    let worktree = team.folder.join(format!(".omc/worktrees/{TEAM}/worker-2"));
    let tasks = format!(
        "[[tasks]]\nid = \"a\"\nsubject = \"Patch a file\"\nowner = \"worker-1\"\n\
         description = \"[[scenario:patch]]\"\n\n\
         [[tasks]]\nid = \"b\"\nsubject = \"Write a file\"\nowner = \"worker-2\"\n\
         description = \"[[scenario:write]] [[dir:{}]]\"\n",
        worktree.display()
    );
    let run = RunCmd::new(TEAM, "1:codex,1:claude", "make two files")
        .plan(&team.write_plan(&tasks)?)
        .verify("test -s patched.txt && test -s written.txt")
        .approve("auto")
        .more(&["--json"]);
    let run = Finished::of(&mut team.run(&run))?;
    let mut report = Report::default();
    let found = &mut report.differences;
    check!(found, run.success() => "the run fails: {}", run.describe());
    let files = team.git("ls-tree -r --name-only HEAD")?;
    let log = team.git("log --format=%s")?;
    for file in ["patched.txt", "written.txt"] {
        check!(found, files.lines().any(|line| line == file) => "{file} is not on the branch");
    }
    for subject in ["Merge task 1 of worker-1", "Merge task 2 of worker-2"] {
        check!(found, log.lines().any(|line| line == subject) => "the history has no {subject:?}");
    }
    let status = team.git("status --porcelain")?;
    let worktrees = team.git("worktree list")?;
    check!(found, status.is_empty() => "the user's tree: {status}");
    check!(found, worktrees.lines().count() == 1 => "left: {worktrees}");
    judge_tasks(&team, found)?;
    let text = std::fs::read_to_string(format!(".omc/reports/{TEAM}/report.md"))?;
    let is_cost = |line: &&str| line.contains('$') || line.to_lowercase().contains("tokens");
    let cost = text.lines().find(is_cost).unwrap_or_default();
    check!(found, !cost.is_empty() => "the report shows no cost");
    let zombies = team.ask("zombies scan --json", &[])?;
    check!(found, list(&zombies["zombies"]).next().is_none() => "left over: {zombies}");
    report.saw("landed", "both files, two merges");
    report.saw("cost", cost.trim());
    Ok(report)
}

/// Checks that both tasks are completed and merged, and that each worker has used tokens.
fn judge_tasks(team: &LabTeam, found: &mut Vec<String>) -> Result<()> {
    let tasks = team.ask("task list --json", &[])?;
    check!(found, list(&tasks["tasks"]).count() == 2 => "tasks: {tasks}");
    for task in list(&tasks["tasks"]) {
        let (id, state) = (&task["id"], &task["state"]);
        let merged = &task["metadata"]["teamster"]["merged"];
        let is_good = state == "completed" && merged == true;
        check!(found, is_good => "task {id} is {state}, merged {merged}");
    }
    let usage = team.events("usage")?;
    let uses = |worker: &str, key: &str| {
        let mut events = usage.iter().filter(|event| event["actor"] == worker);
        events.any(|event| event["data"][key].as_f64() > Some(0.0))
    };
    let (codex, claude) = (uses("worker-1", "tokensIn"), uses("worker-2", "usd"));
    check!(found, codex => "codex used nothing: {usage:?}");
    check!(found, claude => "claude cost nothing: {usage:?}");
    Ok(())
}

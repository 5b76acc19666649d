//! A whole run with two real clients: one Codex and one Claude Code worker do a task each, what they did is merged,
//! verified and lands on the user's branch.
//!
//! The lab gives one client its surroundings. For two, one is started within the other's: the inner call keeps the
//! network of the outer one, where both model servers listen.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use super::lab::Lab;
use super::{RealRun, Report};
use crate::product::{Answer, Product};

const TEAM: &str = "whole";
/// A run takes less, unless it hangs.
const LONG: &str = "300";
/// Starts the inner call. `_LAB_NET` is how the lab's scripts know that they are where they should be.
const INNER: &str = r#"exec env _LAB_NET=private OUT="$INNER_OUT" XPATH="$PATH" TMO="$INNER_TMO" \
    XENV="CODEX_HOME=$HOME/.codex MOCK_KEY=dummy" "$INNER_SCRIPT" claude -- "$@""#;

/// The one run there is.
#[derive(Debug)]
struct WholeRun;

pub(super) fn runs() -> Vec<Box<dyn RealRun>> {
    vec![Box::new(WholeRun)]
}

impl RealRun for WholeRun {
    fn name(&self) -> String {
        "run-codex-claude".to_owned()
    }

    fn clients(&self) -> Vec<String> {
        vec!["codex".to_owned(), "claude-2.1.325".to_owned()]
    }

    fn run(&self, lab: &Lab, product: &Product, out: &Path) -> Result<Report> {
        let programs = out.join("bin");
        std::fs::create_dir_all(&programs)?;
        std::fs::copy(&product.binary, programs.join("teamster"))?;
        let seen = out.join("seen.json");
        let me = std::env::current_exe()?.display().to_string();
        let surroundings = [
            format!("LAB_HOME={}", Lab::clients_home()?.display()),
            format!("INNER_OUT={}", out.join("inner").display()),
            format!("INNER_TMO={LONG}"),
            format!("INNER_SCRIPT={}", lab.path("run-worker").display()),
        ];
        if surroundings.iter().any(|variable| variable.contains(' ')) {
            bail!("the lab takes no paths with spaces");
        }
        let ended = lab.run(
            "run-worker",
            &[
                "codex",
                "--",
                "/bin/bash",
                "-c",
                INNER,
                "inner",
                &me,
                "run-scene",
                "--report",
                &seen.display().to_string(),
            ],
            &[
                ("OUT", out.join("outer").display().to_string()),
                ("XPATH", programs.display().to_string()),
                ("XENV", surroundings.join(" ")),
                ("TMO", LONG.to_owned()),
            ],
        )?;
        let told = std::fs::read(&seen)
            .with_context(|| format!("the run left no report: {}", ended.said()))?;
        judge(&serde_json::from_slice(&told)?)
    }
}

/// `xtask run-scene --report FILE`, inside the lab's surroundings.
#[derive(Args, Debug)]
pub(crate) struct RunScene {
    #[arg(long)]
    report: PathBuf,
}

impl RunScene {
    /// Runs the team and writes down everything that can be seen of it afterwards.
    pub(crate) fn run(&self) -> Result<()> {
        if std::env::var_os("LAB_URL").is_none() {
            bail!("this is played by `cargo xtask real-clients`, in the lab");
        }
        let project = std::env::current_dir()?;
        let worktree = |worker: &str| project.join(format!(".omc/worktrees/{TEAM}/{worker}"));
        let plan = project.with_file_name("plan.toml");
        std::fs::write(
            &plan,
            format!(
                "[[tasks]]\nid = \"a\"\nsubject = \"Patch a file\"\nowner = \"worker-1\"\n\
                 description = \"[[scenario:patch]]\"\n\n\
                 [[tasks]]\nid = \"b\"\nsubject = \"Write a file\"\nowner = \"worker-2\"\n\
                 description = \"[[scenario:write]] [[dir:{}]]\"\n",
                worktree("worker-2").display()
            ),
        )?;
        let plan = plan.display().to_string();
        let run = teamster(&[
            "run",
            "1:codex,1:claude",
            "make two files",
            "--team",
            TEAM,
            "--plan",
            &plan,
            "--verify",
            "test -s patched.txt && test -s written.txt",
            "--approve",
            "auto",
            "--json",
        ])?;
        let git = |words: &[&str]| Answer::of(Command::new("git").args(words));
        let report = std::fs::read_to_string(format!(".omc/reports/{TEAM}/report.md"));
        let seen = serde_json::json!({
            "exit": run.status.code(),
            "said": run.said(),
            "tasks": teamster(&["task", "list", "--team", TEAM, "--json"])?.json(),
            "usage": teamster(&["journal", "--team", TEAM, "--type", "usage", "--json"])?.json(),
            "files": git(&["ls-tree", "-r", "--name-only", "HEAD"])?.stdout,
            "log": git(&["log", "--format=%s"])?.stdout,
            "status": git(&["status", "--porcelain"])?.stdout,
            "worktrees": git(&["worktree", "list"])?.stdout,
            "zombies": teamster(&["zombies", "scan", "--json"])?.json(),
            "report": report.unwrap_or_default(),
        });
        std::fs::write(&self.report, serde_json::to_vec_pretty(&seen)?)?;
        Ok(())
    }
}

fn teamster(words: &[&str]) -> Result<Answer> {
    Answer::of(Command::new("teamster").args(words))
}

fn judge(seen: &Value) -> Result<Report> {
    let mut report = Report::default();
    let mut must = |is_so: bool, otherwise: String| {
        if !is_so {
            report.differences.push(otherwise);
        }
    };
    let text = |key: &str| seen[key].as_str().unwrap_or_default();
    must(
        seen["exit"] == 0,
        format!("the run exits with {}: {}", seen["exit"], text("said")),
    );
    for file in ["patched.txt", "written.txt"] {
        must(
            text("files").lines().any(|line| line == file),
            format!("{file} is not on the branch"),
        );
    }
    for words in ["Merge task 1 of worker-1", "Merge task 2 of worker-2"] {
        must(
            text("log").lines().any(|line| line == words),
            format!("the history has no {words:?}"),
        );
    }
    must(
        text("status").is_empty(),
        format!("the user's tree: {}", text("status")),
    );
    must(
        text("worktrees").lines().count() == 1,
        format!("left: {}", text("worktrees")),
    );
    let tasks = seen["tasks"]["tasks"].as_array().context("no tasks")?;
    for task in tasks {
        let merged = &task["metadata"]["teamster"]["merged"];
        must(
            task["state"] == "completed" && *merged == true,
            format!("task {} is {}, merged {merged}", task["id"], task["state"]),
        );
    }
    let usage = seen["usage"]["events"].as_array().context("no usage")?;
    let by = |worker: &str| usage.iter().find(|event| event["actor"] == worker);
    let (codex, claude) = (by("worker-1"), by("worker-2"));
    must(
        codex.is_some_and(|event| event["data"]["tokensIn"].as_u64() > Some(0)),
        format!("codex used nothing: {codex:?}"),
    );
    must(
        claude.is_some_and(|event| event["data"]["usd"].as_f64() > Some(0.0)),
        format!("claude cost nothing: {claude:?}"),
    );
    let cost: Vec<&str> = text("report")
        .lines()
        .filter(|line| line.contains('$') || line.to_lowercase().contains("tokens"))
        .collect();
    must(!cost.is_empty(), "the report shows no cost".to_owned());
    let zombies = seen["zombies"]["zombies"].as_array().map_or(0, Vec::len);
    must(zombies == 0, format!("left over: {}", seen["zombies"]));
    report
        .seen
        .push(("landed", "both files, two merges".to_owned()));
    report
        .seen
        .push(("cost", cost.first().unwrap_or(&"").trim().to_owned()));
    Ok(report)
}

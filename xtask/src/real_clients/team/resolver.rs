//! Codex in its own sandbox resolves a conflict: git cannot write to the repository there, and the patch file is the way.
//!
//! Two workers change the same line at the same time. Whoever is merged later has to bring both together: it tries
//! `git cherry-pick` first, which its sandbox does not let through, and then what its prompt proposes.

use anyhow::{Context, Result};

use super::super::Report;
use super::super::model_server::{ModelRequest, Role, Step};
use super::{Surroundings, done, git, new_project, shown};
use crate::product::Finished;

const TEAM: &str = "resolver";
const FILE: &str = "shared.txt";

/// Plays the scene, inside the lab.
pub(super) fn play() -> Result<Report> {
    let lab = Surroundings::make(script)?;
    let project = new_project(TEAM, &[(FILE, "begin\n")])?;
    let plan = project.with_extension("toml");
    std::fs::write(
        &plan,
        "[[tasks]]\nid = \"a\"\nsubject = \"Say one\"\nowner = \"worker-1\"\n\n\
         [[tasks]]\nid = \"b\"\nsubject = \"Say two\"\nowner = \"worker-2\"\n",
    )?;
    let plan = plan.display().to_string();
    let words = [
        "run",
        "2:codex",
        "say one and two",
        "--team",
        TEAM,
        "--plan",
        &plan,
    ];
    let check = format!("grep -q one {FILE} && grep -q two {FILE}");
    let more = [
        "--review",
        "off",
        "--verify",
        &check,
        "--approve",
        "auto",
        "--yes",
    ];
    let ran = Finished::of(&mut lab.command(&project, &[&words[..], &more].concat()))?;
    let mut report = Report::default();
    let requests = lab.server.requests();
    let resolution = requests
        .iter()
        .filter(|request| is_resolution(request))
        .max_by_key(|request| request.results.len())
        .context("nobody was asked to resolve a conflict")?;
    let facts = ["Say one", "Say two", FILE, ".patch"];
    let is_told = facts.iter().all(|fact| resolution.prompt.contains(fact));
    report.claim(
        "the resolver is told both sides, and where the patch is",
        is_told,
        format!("{} characters", resolution.prompt.chars().count()),
    );
    let result = |turn: usize| resolution.results.get(turn).cloned().unwrap_or_default();
    let is_refused = result(0).contains("picked=") && !result(0).contains("picked=0");
    report.claim(
        "codex's sandbox does not let `git cherry-pick` write",
        is_refused,
        shown(&result(0)),
    );
    let is_applied = result(1).contains("patched=0") || result(1).contains("patched=1");
    report.claim(
        "the patch can be read and applied inside of it",
        is_applied,
        shown(&result(1)),
    );
    report.claim("the run ends with 0", ran.success(), shown(&ran.describe()));
    let landed = git(&project, &["show", &format!("HEAD:{FILE}")]).unwrap_or_default();
    let has_both = landed.contains("one") && landed.contains("two") && !landed.contains("<<<<");
    report.claim(
        "what lands has the work of both",
        has_both,
        format!("{landed:?}"),
    );
    Ok(report)
}

fn is_resolution(request: &ModelRequest) -> bool {
    request.prompt.contains("bring the work of task")
}

fn script(request: &ModelRequest) -> Step {
    let turn = request.results.len();
    let Some(Role::Worker { task, .. }) = &request.role else {
        return Step::Say("ok".to_owned());
    };
    if !is_resolution(request) {
        let word = if task == "1" { "one" } else { "two" };
        return match turn {
            // Both begin before either is done.
            0 => Step::Shell(format!("sleep 4; echo {word} > {FILE}")),
            _ => done(&format!("It says {word}."), ""),
        };
    }
    let patch = quoted_after(&request.prompt, "are in the patch `");
    let commit = quoted_after(&request.prompt, "git diff HEAD...");
    match turn {
        0 => {
            let commit = commit.unwrap_or_else(|| "--all".to_owned());
            let branch =
                format!("git cherry-pick {commit} || git commit --allow-empty --message try");
            Step::Shell(format!("{branch}; echo picked=$?"))
        }
        1 => {
            let patch = patch.unwrap_or_default();
            let apply = format!("test -r {patch} && git apply --reject {patch}; echo patched=$?");
            Step::Shell(format!(
                "{apply}; printf 'one\\ntwo\\n' > {FILE}; test ! -e {FILE}.rej || rm {FILE}.rej"
            ))
        }
        _ => done("Both are there.", ""),
    }
}

/// Returns what stands between these words and the next backtick.
fn quoted_after(text: &str, words: &str) -> Option<String> {
    let rest = text.split_once(words)?.1;
    Some(rest.split('`').next().unwrap_or_default().to_owned())
}

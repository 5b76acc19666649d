//! Codex in its own sandbox resolves a conflict: git cannot write to the repository there, so it uses the patch file.
//!
//! Two workers change the same line at the same time. The one that is merged later has to combine both changes: it
//! tries `git cherry-pick` first, which its sandbox blocks, and then what its prompt proposes.

use anyhow::{Context, Result};
use teamster_testkit::RunCmd;

use super::super::Report;
use super::super::model_server::{ModelRequest, PromptRole, Step};
use super::{Surroundings, claim, done, shown};
use crate::product::Finished;

const TEAM: &str = "resolver";
const FILE: &str = "shared.txt";
const PLAN: &str = r#"
[[tasks]]
id = "a"
subject = "Say one"
owner = "worker-1"

[[tasks]]
id = "b"
subject = "Say two"
owner = "worker-2"
"#;

/// Plays the scene, inside the lab.
pub(super) fn play() -> Result<Report> {
    let lab = Surroundings::make(script)?;
    let team = lab.new_project(TEAM, &[(FILE, "begin\n")])?;
    let run = RunCmd::new(TEAM, "2:codex", "say one and two")
        .plan(&team.write_plan(PLAN)?)
        .verify(&format!("grep -q one {FILE} && grep -q two {FILE}"))
        .approve("auto")
        .more(&["--review", "off", "--yes"]);
    let ran = Finished::of(&mut team.run(&run))?;
    let mut report = Report::default();
    let requests = lab.server.requests();
    let resolution = requests
        .iter()
        .filter(|request| is_resolution(request))
        .max_by_key(|request| request.results.len())
        .context("nobody was asked to resolve a conflict")?;
    let facts = ["Say one", "Say two", FILE, ".patch"];
    let is_told = facts.iter().all(|fact| resolution.prompt.contains(fact));
    claim!(report, is_told => "the resolver is told both sides, and where the patch is",
        "{} characters", resolution.prompt.chars().count());
    let result = |turn: usize| resolution.results.get(turn).map_or("", String::as_str);
    let (picked, patched) = (result(0), result(1));
    let is_refused = picked.contains("picked=") && !picked.contains("picked=0");
    claim!(report, is_refused =>
        "codex's sandbox does not let `git cherry-pick` write", "{}", shown(picked));
    let is_applied = patched.contains("patched=0") || patched.contains("patched=1");
    claim!(report, is_applied =>
        "the patch can be read and applied inside of it", "{}", shown(patched));
    claim!(report, ran.success() => "the run ends with 0", "{}", shown(&ran.describe()));
    let landed = team.git(&format!("show HEAD:{FILE}")).unwrap_or_default();
    let has_both = landed.contains("one") && landed.contains("two") && !landed.contains("<<<<");
    claim!(report, has_both => "what lands has the work of both", "{landed:?}");
    Ok(report)
}

fn is_resolution(request: &ModelRequest) -> bool {
    request.prompt.contains("bring the work of task")
}

fn script(request: &ModelRequest) -> Step {
    let turn = request.results.len();
    if request.role != PromptRole::Worker {
        return Step::Say("ok".to_owned());
    }
    if !is_resolution(request) {
        let word = if request.task == "1" { "one" } else { "two" };
        return match turn {
            // Both begin before either is done.
            0 => Step::Shell(format!("sleep 4; echo {word} > {FILE}")),
            _ => done(&format!("It says {word}."), ""),
        };
    }
    match turn {
        0 => {
            let commit = quoted_after(&request.prompt, "git diff HEAD...").unwrap_or("--all");
            Step::Shell(format!(
                "git cherry-pick {commit} || git commit --allow-empty --message try; echo picked=$?"
            ))
        }
        1 => {
            let patch = quoted_after(&request.prompt, "are in the patch `").unwrap_or_default();
            let apply = format!("test -r {patch} && git apply --reject {patch}; echo patched=$?");
            Step::Shell(format!(
                "{apply}; printf 'one\\ntwo\\n' > {FILE}; test ! -e {FILE}.rej || rm {FILE}.rej"
            ))
        }
        _ => done("Both are there.", ""),
    }
}

/// Returns the text between these words and the next backtick.
fn quoted_after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.split_once(words)?.1.split('`').next()
}

//! Implements `teamster worktree gc`.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use teamster_app::gc;
use teamster_gc::old_runs::OldRun;
use teamster_gc::worktrees::WorktreeStatus;
use teamster_isolate::git::{KeptRef, Removal};
use teamster_store::{Clock, SystemClock};
use teamster_types::time::say_span;

use super::to_json;
use crate::commands::all_removed;
use crate::context::Context;
use crate::error::Result;
use crate::shown::{display_line, redacted};

/// Remove merged worktrees and leftovers of old runs
#[derive(Args, Debug)]
#[command(after_help = "\
A worktree and its branch are removed when it is clean, all its commits are in the integration
branch or in a branch of your own, and no worker uses it, whatever TEAMSTER_CLAUDE_DIR it was
started with. All others are kept, and listed with the command that would remove them anyway.
Finding nothing is not an error.

For runs that ended for good before the setting `gc.keep` (30 days), references below
refs/teamster/ whose commits are in a branch of your own are removed, then the report, and for
teams that no longer exist also logs and records. Commits that are in no branch of yours are kept.

Examples:
  teamster worktree gc
  teamster worktree gc --team fix-auth --dry-run --json")]
pub struct WorktreeGcArgs {
    /// Only the worktrees of this team [default: all]
    #[arg(long, value_name = "TEAM")]
    team: Option<String>,
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// A worktree that is kept, and why.
struct KeptWorktree {
    seen: WorktreeStatus,
    why: String,
}

impl WorktreeGcArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("removing worktrees")?;
        let gc = gc::project(context);
        let repo = gc.repo()?;
        let (mut removed, mut left, mut failed) = (Vec::new(), Vec::new(), 0);
        for seen in gc.worktrees(&repo, self.team.as_deref())? {
            let why = match seen.kept_because() {
                Some(why) => Some(why),
                None if self.dry_run => None,
                None => match seen.remove(&repo) {
                    Ok(Removal::Removed) => None,
                    Ok(Removal::Kept { why }) => Some(why),
                    Err(error) => {
                        failed += 1;
                        Some(error.to_string())
                    }
                },
            };
            match why {
                Some(why) => left.push(KeptWorktree { seen, why }),
                None => removed.push(seen),
            }
        }
        let (mut old, mut kept_runs) = (Vec::new(), Vec::new());
        context.check_home()?;
        let keep = context.config.gc_keep.value;
        let only = self.team.as_deref();
        for run in OldRun::find(&gc, &repo, only, keep, SystemClock.now())? {
            let removed = if run.goes() {
                run.remove(&repo, self.dry_run)
            } else {
                Ok(None)
            };
            let why = removed.unwrap_or_else(|error| {
                failed += 1;
                Some(error.to_string())
            });
            match why {
                Some(why) => kept_runs.push((run, why)),
                None => old.push(run),
            }
        }
        context.out.answer(
            || {
                let removed: Vec<Value> = removed.iter().map(to_json).collect();
                let kept: Vec<Value> = left.iter().map(KeptWorktree::to_json).collect();
                let runs: Vec<Value> = old.iter().map(run_to_json).collect();
                let failed_runs = kept_runs
                    .iter()
                    .map(|(run, why)| json!({ "team": run.team, "kept": why }));
                let failed_runs: Vec<Value> = failed_runs.collect();
                redacted(json!({
                    "removed": removed, "kept": kept, "runs": runs, "keptRuns": failed_runs,
                    "dryRun": self.dry_run,
                }))
            },
            || {
                let mut text = worktrees_text(&removed, &left, self.dry_run);
                add_runs(&mut text, &old, &kept_runs, self.dry_run);
                if text.is_empty() {
                    text.push_str("no worker has a worktree here\n");
                }
                text
            },
        )?;
        all_removed(failed)
    }
}

impl KeptWorktree {
    fn to_json(&self) -> Value {
        let mut object = to_json(&self.seen);
        object["kept"] = json!(self.why);
        object["command"] = json!(self.seen.removal_command());
        object
    }
}

fn worktrees_text(removed: &[WorktreeStatus], left: &[KeptWorktree], dry_run: bool) -> String {
    let mut text = String::new();
    let done = if dry_run { "would remove" } else { "removed" };
    for seen in removed {
        let listed = &seen.listed;
        let _ = writeln!(
            text,
            "{done} {}/{}",
            listed.team,
            display_line(&listed.name)
        );
    }
    for KeptWorktree { seen, why } in left {
        let listed = &seen.listed;
        let name = display_line(&listed.name);
        let _ = writeln!(text, "kept {}/{name}: {}", listed.team, display_line(why));
        let _ = writeln!(text, "  {}", display_line(&seen.removal_command()));
    }
    text
}

fn add_runs(text: &mut String, old: &[OldRun], failed: &[(OldRun, String)], dry_run: bool) {
    let done = if dry_run { "would remove" } else { "removed" };
    for run in old {
        if run.goes() {
            let _ = writeln!(text, "{done} {}", display_line(&what_goes(run)));
        }
        if let Some((why, command)) = run.kept() {
            let _ = writeln!(
                text,
                "kept {}\n  {}",
                display_line(&why),
                display_line(&command)
            );
        }
    }
    for (run, why) in failed {
        let _ = writeln!(text, "kept the run of {}: {}", run.team, display_line(why));
    }
}

/// Describes what is removed of an old run.
fn what_goes(run: &OldRun) -> String {
    let mut parts = Vec::new();
    match run.landed.len() {
        0 => {}
        1 => parts.push("1 reference".to_owned()),
        count => parts.push(format!("{count} references")),
    }
    parts.extend(run.folders.iter().map(|folder| folder.join("/")));
    let (team, age) = (&run.team, say_span(run.age));
    format!(
        "leftovers of the run of {team} from {age} ago: {}",
        parts.join(", ")
    )
}

fn run_to_json(run: &OldRun) -> Value {
    let names =
        |refs: &[KeptRef]| -> Vec<String> { refs.iter().map(|kept| kept.name.clone()).collect() };
    let folders = run.folders.iter().map(|folder| folder.join("/"));
    let kept = run.kept();
    json!({
        "team": run.team,
        "ageSeconds": run.age.as_secs(),
        "references": names(&run.landed),
        "folders": folders.collect::<Vec<_>>(),
        "keptReferences": names(&run.unlanded),
        "kept": kept.as_ref().map(|(why, _)| why),
        "command": kept.as_ref().map(|(_, command)| command),
    })
}

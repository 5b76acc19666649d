//! Implements `teamster zombies`: `scan`, `reap` and `restore`.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use teamster_app::gc;
use teamster_gc::zombies::{self, ReapOptions, ReapReport, Zombie, ZombieAction, ZombieKind};
use teamster_types::text::clean;
use teamster_types::time::say_span;

use crate::commands::{all_removed, span};
use crate::context::Context;
use crate::error::Result;
use crate::shown::{display_line, redacted};
use crate::table::{TableCell, TextTable, Tone};

/// Find and remove teams, processes and worktrees left behind
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster zombies scan
  teamster zombies reap --dry-run")]
pub struct ZombiesArgs {
    #[command(subcommand)]
    command: ZombiesCommand,
}

#[derive(Debug, Subcommand)]
enum ZombiesCommand {
    Scan(ZombiesScanArgs),
    Reap(ZombiesReapArgs),
    Restore(ZombiesRestoreArgs),
}

impl ZombiesArgs {
    pub fn run(self, context: &Context) -> Result {
        match self.command {
            ZombiesCommand::Scan(command) => command.run(context),
            ZombiesCommand::Reap(command) => command.run(context),
            ZombiesCommand::Restore(command) => command.run(context),
        }
    }
}

/// Show teams, processes and worktrees left behind, with the evidence
#[derive(Args, Debug)]
#[command(after_help = "\
Nothing is changed. A team is old when it was created longer ago than --ttl and nothing in its
folders has changed since. `reap` marks what `teamster zombies reap` removes; `keep` marks what
shows a sign of life, cannot be judged from here, or needs your decision. In --json, `age` is in
seconds.

Examples:
  teamster zombies scan
  teamster zombies scan --ttl 1h --json")]
pub struct ZombiesScanArgs {
    /// The age at which a team without a sign of life counts as left behind
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "24h")]
    ttl: Duration,
}

impl ZombiesScanArgs {
    pub fn run(self, context: &Context) -> Result {
        let found = gc::scan(context, self.ttl)?;
        context.out.answer(
            || redacted(json!({ "zombies": found })),
            || scan_text(&found, context.out.has_colour()),
        )
    }
}

/// Remove what is proven dead
#[derive(Args, Debug)]
#[command(after_help = "\
Teams are moved to the trash and stay there for 7 days: `teamster zombies restore TEAM` brings one
back. Stale locks, temp files of dead processes, heartbeats of dead workers, and clean and merged
worktrees of teams that no longer exist are removed. A team with a sign of life is never touched,
whatever its age, nor is anything of another user. Finding nothing is not an error.

With --kill, teamster workers that run without their run or team are ended: each gets SIGTERM, has
5 s to exit, is then killed, and is reported as reaped only when it is gone. A process counts as a
teamster worker only if the pid, start time, boot and pid namespace in its heartbeat all match.
Dead panes of this project's own tmux server are closed. Without --kill both are only listed. No
hook ever does this.

Examples:
  teamster zombies reap
  teamster zombies reap --ttl 7d --dry-run --json
  teamster zombies reap --kill --dry-run")]
pub struct ZombiesReapArgs {
    /// The age at which a team without a sign of life counts as left behind
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "24h")]
    ttl: Duration,
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Also end teamster workers that run without their run or team, and close dead panes of the project's tmux server
    #[arg(long)]
    kill: bool,
}

impl ZombiesReapArgs {
    pub fn run(self, context: &Context) -> Result {
        context
            .actor
            .must_be_person("removing what was left behind")?;
        let report = gc::reap(
            context,
            self.ttl,
            ReapOptions {
                dry_run: self.dry_run,
                kill: self.kill,
            },
        )?;
        let kept =
            |done: &zombies::ReapResult| !done.reaped && done.zombie.kind == ZombieKind::Worker;
        if self.kill && !self.dry_run && report.zombies.iter().any(kept) {
            context
                .out
                .remark("--kill ends only what provably belongs to teamster; the list says how to end the rest");
        }
        context.out.answer(
            || {
                redacted(json!({
                    "zombies": report.zombies,
                    "purged": report.purged,
                    "problems": report.problems,
                    "killed": report.killed,
                    "dryRun": self.dry_run,
                }))
            },
            || reap_text(&report, self.dry_run, context.out.has_colour()),
        )?;
        let failed = report.zombies.iter();
        let failed = failed.filter(|done| done.problem.is_some()).count();
        all_removed(failed + report.problems.len())
    }
}

/// Restore a removed team from the trash
#[derive(Args, Debug)]
#[command(after_help = "\
The newest team of that name in the trash is restored as it was, whether `zombies reap`, a hook or
`team delete` removed it. If a team of that name exists, nothing is changed (exit 4).

Examples:
  teamster team create a && teamster team delete a && teamster zombies restore a
  teamster zombies restore fix-auth   # exits 3")]
pub struct ZombiesRestoreArgs {
    /// The team
    #[arg(value_name = "TEAM")]
    team: String,
}

impl ZombiesRestoreArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("restoring a team")?;
        let restored = gc::restore(context, &self.team)?;
        context.out.answer(
            || json!({ "restored": restored }),
            || {
                let tasks = if restored.tasks { " and its tasks" } else { "" };
                format!("restored team {}{tasks}", escaped_name(&restored.team))
            },
        )
    }
}

/// Returns a name that a foreign program chose, with everything escaped that would control a terminal or mislead the
/// eye.
fn escaped_name(text: &str) -> String {
    text.chars().fold(String::new(), |mut shown, c| {
        let mut bytes = [0; 4];
        if c.is_control() || clean(c.encode_utf8(&mut bytes), usize::MAX).is_empty() {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
        shown
    })
}

/// Formats the result of `scan`.
fn scan_text(found: &[Zombie], colour: bool) -> String {
    if found.is_empty() {
        return "nothing is left behind".to_owned();
    }
    let mut table = TextTable::new(["KIND", "NAME", "TEAM", "AGE", "ACTION", "EVIDENCE"]);
    for zombie in found {
        let tone = match zombie.action {
            ZombieAction::Reap => Tone::Notable,
            ZombieAction::Keep => Tone::Plain,
        };
        let action = TableCell::new(zombie.action.as_str(), tone);
        table.row(zombie_cells(zombie, action, &zombie.evidence.join(", ")));
    }
    let mut text = table.render(colour);
    by_hand(&mut text, found.iter());
    text
}

/// Formats the result of `reap`.
fn reap_text(report: &ReapReport, dry_run: bool, colour: bool) -> String {
    let mut text = String::new();
    if report.zombies.is_empty() {
        text.push_str("nothing is left behind\n");
    } else {
        let mut table = TextTable::new(["KIND", "NAME", "TEAM", "AGE", "DONE", "EVIDENCE"]);
        for done in &report.zombies {
            let mut evidence = done.zombie.evidence.join(", ");
            if let Some(problem) = &done.problem {
                evidence = format!("{problem} ({evidence})");
            }
            let would_go = dry_run && done.zombie.action == ZombieAction::Reap;
            let (word, tone) = match (done.reaped, &done.problem) {
                (_, Some(_)) => ("failed", Tone::Bad),
                (true, None) => ("reaped", Tone::Good),
                (false, None) if would_go => ("would reap", Tone::Notable),
                (false, None) => ("kept", Tone::Plain),
            };
            table.row(zombie_cells(
                &done.zombie,
                TableCell::new(word, tone),
                &evidence,
            ));
        }
        text.push_str(&table.render(colour));
    }
    if report.zombies.iter().any(|done| done.trash.is_some()) {
        text.push_str("\nteams are kept in the trash for 7 days; `teamster zombies restore TEAM` brings one back\n");
    }
    if report.purged > 0 {
        let teams = if report.purged == 1 { "team" } else { "teams" };
        let _ = writeln!(
            text,
            "\n{} {teams} deleted from the trash after more than 7 days",
            report.purged
        );
    }
    for problem in &report.problems {
        let _ = writeln!(
            text,
            "\nin the trash: {}",
            display_line(&escaped_name(problem))
        );
    }
    let left = report.zombies.iter().filter(|done| !done.reaped);
    by_hand(&mut text, left.map(|done| &done.zombie));
    text
}

fn zombie_cells(zombie: &Zombie, action: TableCell, evidence: &str) -> [TableCell; 6] {
    [
        zombie.kind.as_str().into(),
        escaped_name(&zombie.name).into(),
        escaped_name(&zombie.team).into(),
        say_span(zombie.age).into(),
        action,
        TableCell::new(display_line(&escaped_name(evidence)), Tone::Faint),
    ]
}

/// Lists the commands for what is left to a person's decision.
fn by_hand<'a>(text: &mut String, zombies: impl Iterator<Item = &'a Zombie>) {
    let kept: Vec<&str> = zombies
        .filter(|zombie| zombie.action == ZombieAction::Keep)
        .map(|zombie| zombie.command.as_str())
        .collect();
    if kept.is_empty() {
        return;
    }
    text.push_str("\nhow to deal with what is kept:\n");
    for command in kept {
        let _ = writeln!(text, "  {command}");
    }
}

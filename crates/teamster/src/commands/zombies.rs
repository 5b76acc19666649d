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
use crate::shown::{redacted, viewed_line};
use crate::table::{Cell, TextTable, Tone};

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

/// Show teams, processes and worktrees left behind, with the evidence for it
#[derive(Args, Debug)]
#[command(after_help = "\
Nothing is changed. A team is old when it was made longer ago than --ttl and nothing in its
folders was changed since. `reap` marks what `teamster zombies reap` removes; `keep` marks what
shows a sign of life, cannot be judged from here, or is for a person to decide. In --json `age`
is in seconds.

Examples:
  teamster zombies scan
  teamster zombies scan --ttl 1h --json")]
pub struct ZombiesScanArgs {
    /// From which age on a team without a sign of life is over
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

/// Remove those that are proven dead
#[derive(Args, Debug)]
#[command(after_help = "\
Teams go to the trash, where they stay for 7 days: `teamster zombies restore TEAM` brings one
back. Stale locks, temp files of dead processes, heartbeats of dead workers and worktrees of
teams that are gone, if they are clean and merged, are removed. No
team with a sign of life is touched, at no age, nor anything of another user. To find nothing
is no failure.

With --kill, workers of ours that go on without their run or team are ended: each is asked
(SIGTERM), given 5 s, then killed, and only called reaped when it is gone. A worker is ours when
its heartbeat names its pid, start time, boot and pid namespace, and all of them fit the process
that runs. Dead panes of this project's own tmux server are closed. Without --kill both are only
listed. No hook ever does this.

Examples:
  teamster zombies reap
  teamster zombies reap --ttl 7d --dry-run --json
  teamster zombies reap --kill --dry-run")]
pub struct ZombiesReapArgs {
    /// From which age on a team without a sign of life is over
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "24h")]
    ttl: Duration,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Also end workers of ours that go on without their run or team, and close dead panes of our tmux server
    #[arg(long)]
    kill: bool,
}

impl ZombiesReapArgs {
    pub fn run(self, context: &Context) -> Result {
        context.actor.must_be_person("removing what is over")?;
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
                .remark("--kill ends only what is proven ours; the list says how to end the rest");
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

/// Bring a removed team back from the trash
#[derive(Args, Debug)]
#[command(after_help = "\
The newest team of that name in the trash comes back as it was, whether `zombies reap`, a hook or
`team delete` removed it. If there is a team of that name now, nothing is changed (exit 4).

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

/// A name that a foreign program chose, with everything escaped that would drive a terminal or deceive the eye.
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

/// What `scan` found.
fn scan_text(found: &[Zombie], colour: bool) -> String {
    if found.is_empty() {
        return "nothing is left over".to_owned();
    }
    let mut table = TextTable::new(["KIND", "NAME", "TEAM", "AGE", "ACTION", "EVIDENCE"]);
    for zombie in found {
        let tone = match zombie.action {
            ZombieAction::Reap => Tone::Notable,
            ZombieAction::Keep => Tone::Plain,
        };
        let action = Cell::new(zombie.action.as_str(), tone);
        table.row(zombie_cells(zombie, action, &zombie.evidence.join(", ")));
    }
    let mut text = table.render(colour);
    by_hand(&mut text, found.iter());
    text
}

/// What `reap` did.
fn reap_text(report: &ReapReport, dry_run: bool, colour: bool) -> String {
    let mut text = String::new();
    if report.zombies.is_empty() {
        text.push_str("nothing is left over\n");
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
            table.row(zombie_cells(&done.zombie, Cell::new(word, tone), &evidence));
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
            "\n{} {teams} in the trash for more than 7 days removed for good",
            report.purged
        );
    }
    for problem in &report.problems {
        let _ = writeln!(
            text,
            "\nin the trash: {}",
            viewed_line(&escaped_name(problem))
        );
    }
    let left = report.zombies.iter().filter(|done| !done.reaped);
    by_hand(&mut text, left.map(|done| &done.zombie));
    text
}

fn zombie_cells(zombie: &Zombie, action: Cell, evidence: &str) -> [Cell; 6] {
    [
        zombie.kind.as_str().into(),
        escaped_name(&zombie.name).into(),
        escaped_name(&zombie.team).into(),
        say_span(zombie.age).into(),
        action,
        Cell::new(viewed_line(&escaped_name(evidence)), Tone::Faint),
    ]
}

/// The commands for what a person decides about.
fn by_hand<'a>(text: &mut String, zombies: impl Iterator<Item = &'a Zombie>) {
    let kept: Vec<&str> = zombies
        .filter(|zombie| zombie.action == ZombieAction::Keep)
        .map(|zombie| zombie.command.as_str())
        .collect();
    if kept.is_empty() {
        return;
    }
    text.push_str("\nwhat can be done about what is kept:\n");
    for command in kept {
        let _ = writeln!(text, "  {command}");
    }
}

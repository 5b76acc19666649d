//! What was found and done, as text for people.

use std::fmt::Write as _;

use teamster_gc::zombies::{ReapReport, Zombie, ZombieAction};
use teamster_types::text::clean;
use teamster_types::time::say_span;

use crate::shown::viewed_line;
use crate::table::{Cell, Table, Tone};

/// A name that a foreign program chose, with everything escaped that would drive a terminal or deceive the eye.
pub(super) fn name(text: &str) -> String {
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
pub(super) fn list(found: &[Zombie], colour: bool) -> String {
    if found.is_empty() {
        return "nothing is left over".to_owned();
    }
    let mut table = Table::new(["KIND", "NAME", "TEAM", "AGE", "ACTION", "EVIDENCE"]);
    for zombie in found {
        let tone = match zombie.action {
            ZombieAction::Reap => Tone::Notable,
            ZombieAction::Keep => Tone::Plain,
        };
        let action = Cell::new(zombie.action.as_str(), tone);
        table.row(row(zombie, action, &zombie.evidence.join(", ")));
    }
    let mut text = table.render(colour);
    by_hand(&mut text, found.iter());
    text
}

/// What `reap` did.
pub(super) fn done(report: &ReapReport, dry_run: bool, colour: bool) -> String {
    let mut text = String::new();
    if report.zombies.is_empty() {
        text.push_str("nothing is left over\n");
    } else {
        let mut table = Table::new(["KIND", "NAME", "TEAM", "AGE", "DONE", "EVIDENCE"]);
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
            table.row(row(&done.zombie, Cell::new(word, tone), &evidence));
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
        let _ = writeln!(text, "\nin the trash: {}", viewed_line(&name(problem)));
    }
    let left = report.zombies.iter().filter(|done| !done.reaped);
    by_hand(&mut text, left.map(|done| &done.zombie));
    text
}

fn row(zombie: &Zombie, action: Cell, evidence: &str) -> [Cell; 6] {
    [
        zombie.kind.as_str().into(),
        name(&zombie.name).into(),
        name(&zombie.team).into(),
        say_span(zombie.age).into(),
        action,
        Cell::new(viewed_line(&name(evidence)), Tone::Faint),
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
    text.push_str("\nwhat is kept would be removed by:\n");
    for command in kept {
        let _ = writeln!(text, "  {command}");
    }
}

//! The scan for everything that is left behind. It changes nothing.

use std::time::Duration;

use teamster_fs::{Dir, FileKind, FsError, layout};
use teamster_store::Result;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::ProcessId;

use super::folder::{self, ScanInterrupted, TeamFolderEntry};
use super::leftovers::{self, DeadGuest, FileLocation, Leftover};
use super::panes::{self, ListedPane};
use super::scanner::{ScanOptions, ZombieScanner};
use super::verdict::{self, TeamVerdict};
use super::{Zombie, ZombieAction, ZombieKind, members, trash};
use crate::shell;

/// How `zombies reap` removes an item.
#[derive(Debug)]
pub(super) enum RemovalTarget {
    /// It is left to the user.
    None,
    /// Move this team to the trash.
    Team,
    /// Finish a removal that was interrupted.
    HalfMoved,
    /// Remove a file.
    File(FileLocation),
    /// Remove this dead teamster worker from a team of Claude Code.
    Guest(DeadGuest),
    /// End this teamster process, if requested.
    Process(ProcessId),
    /// Close this pane of teamster's own server, if requested.
    Pane(ListedPane),
}

/// An item that was found, and how it is removed.
#[derive(Debug)]
pub(super) struct FoundItem {
    pub(super) zombie: Zombie,
    pub(super) target: RemovalTarget,
}

impl FoundItem {
    /// Returns the item's process, if it is one that may be ended.
    pub(super) fn process(&self) -> Option<ProcessId> {
        match &self.target {
            RemovalTarget::Process(process) => Some(process.clone()),
            _ => None,
        }
    }
}

/// Finds everything that is left behind.
pub fn scan(options: &ScanOptions<'_>) -> Result<Vec<Zombie>> {
    let Some(scanner) = ZombieScanner::open(options, None)? else {
        return Ok(Vec::new());
    };
    Ok(items(&scanner)?
        .into_iter()
        .map(|item| item.zombie)
        .collect())
}

pub(super) fn items(scanner: &ZombieScanner<'_>) -> Result<Vec<FoundItem>> {
    let mut found = Vec::new();
    let names = scanner.team_names()?;
    for name in names.iter().filter(|name| !name.starts_with('.')) {
        of_team(scanner, name, &mut found);
    }
    found.extend(odd_names(scanner)?.into_iter().map(|zombie| FoundItem {
        zombie,
        target: RemovalTarget::None,
    }));
    found.extend(
        leftovers::unfinished_teams(scanner, &names)
            .into_iter()
            .map(FoundItem::from),
    );
    found.extend(
        trash::half_moved(scanner)?
            .into_iter()
            .map(|zombie| FoundItem {
                zombie,
                target: RemovalTarget::HalfMoved,
            }),
    );
    // The project may be any folder; unreadable files there must not hide a team.
    for left in leftovers::workers_without_team(scanner).unwrap_or_default() {
        found.push(left.into());
    }
    for (zombie, pane) in panes::dead_of_ours(scanner) {
        found.push(FoundItem {
            zombie,
            target: RemovalTarget::Pane(pane),
        });
    }
    for zombie in worktrees_without_team(scanner).unwrap_or_default() {
        found.push(FoundItem {
            zombie,
            target: RemovalTarget::None,
        });
    }
    Ok(found)
}

/// Returns everything in `teams` whose name is not UTF-8: neither teamster nor Claude Code creates or uses such names.
/// It is listed, and never touched.
fn odd_names(scanner: &ZombieScanner<'_>) -> Result<Vec<Zombie>> {
    let Some(teams) = &scanner.teams else {
        return Ok(Vec::new());
    };
    let found = teams.odd_names()?.into_iter().map(|name| {
        let name = name.as_os_str();
        let path = scanner.options.layout.claude.join(layout::TEAMS).join(name);
        Zombie {
            kind: ZombieKind::Team,
            name: shell::readable(name),
            team: shell::readable(name),
            age: Duration::ZERO,
            evidence: vec![Phrase::new(PhraseCode::NameNotUtf8, [])],
            action: ZombieAction::Keep,
            command: shell::remove(&[&path]),
        }
    });
    Ok(found.collect())
}

/// Returns the worktrees in this project whose team is gone. Only git can tell whether one is clean and merged.
fn worktrees_without_team(scanner: &ZombieScanner<'_>) -> Result<Vec<Zombie>, FsError> {
    let project = &scanner.options.layout.project;
    let Some(dir) = Dir::open_at(project, &layout::WORKTREES)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for team in dir.entries()? {
        let team = team.name;
        let is_folder = dir
            .stamp(&team)?
            .is_some_and(|stamp| stamp.kind == FileKind::Folder);
        let is_elsewhere = || {
            let name = team.parse();
            name.is_ok_and(|name| scanner.may_be_elsewhere(&name))
        };
        if !is_folder || scanner.has_team(&team) || is_elsewhere() {
            continue;
        }
        let Some(workers) = dir.child(&team)? else {
            continue;
        };
        for worker in workers.entries()? {
            let Some(stamp) = workers.stamp(&worker.name)? else {
                continue;
            };
            if stamp.kind != FileKind::Folder {
                continue;
            }
            found.push(Zombie {
                kind: ZombieKind::Worktree,
                age: scanner.age(stamp.modified),
                evidence: vec![Phrase::new(PhraseCode::TeamGone, [])],
                action: ZombieAction::Keep,
                command: format!(
                    "git -C {} worktree remove {}",
                    shell::word(&project.to_string_lossy()),
                    shell::word(&workers.join(&worker.name).to_string_lossy())
                ),
                name: worker.name,
                team: team.clone(),
            });
        }
    }
    found.sort_by(|a, b| (&a.team, &a.name).cmp(&(&b.team, &b.name)));
    Ok(found)
}

fn of_team(scanner: &ZombieScanner<'_>, name: &str, found: &mut Vec<FoundItem>) {
    let judged = match verdict::judge(scanner, name) {
        Ok(judged) => judged,
        Err(ScanInterrupted::OutOfTime) => return,
        Err(ScanInterrupted::Failed(error)) => {
            found.push(FoundItem {
                zombie: verdict::odd(scanner, name, Phrase::verbatim(&error.to_string())).zombie,
                target: RemovalTarget::None,
            });
            return;
        }
    };
    let mut goes = false;
    if let Some(TeamVerdict {
        zombie, members, ..
    }) = judged
    {
        goes = zombie.action == ZombieAction::Reap;
        let target = if goes {
            RemovalTarget::Team
        } else {
            RemovalTarget::None
        };
        found.push(FoundItem { zombie, target });
        found.extend(members.into_iter().map(|zombie| FoundItem {
            zombie,
            target: RemovalTarget::None,
        }));
    }
    if goes {
        return;
    }
    if let TeamFolderEntry::Team(team) = folder::open(scanner, name) {
        let left = [
            leftovers::locks(scanner, &team),
            leftovers::workers(scanner, &team),
        ];
        if scanner.is_thorough() {
            found.extend(members::ended(scanner, &team).into_iter().map(|zombie| {
                let target = RemovalTarget::None;
                FoundItem { zombie, target }
            }));
        }
        // Read errors here were reported above, or the file has just disappeared.
        found.extend(left.into_iter().flatten().flatten().map(FoundItem::from));
    }
}

impl From<Leftover> for FoundItem {
    fn from(left: Leftover) -> Self {
        let target = match (left.place, left.process, left.guest) {
            (Some(place), ..) => RemovalTarget::File(place),
            (None, Some(process), _) => RemovalTarget::Process(process),
            (None, None, Some(guest)) => RemovalTarget::Guest(guest),
            (None, None, None) => RemovalTarget::None,
        };
        Self {
            zombie: left.zombie,
            target,
        }
    }
}

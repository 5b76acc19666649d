//! The two folders of one team, opened, and when they were last changed.

use teamster_fs::{Dir, FsError, FsProblem, layout};
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::team::{TeamConfig, TeamOrigin};

use super::scanner::{TimeBudget, ZombieScanner};

/// The largest registry that is read: a larger one would cost a hook its time.
const LARGEST_REGISTRY: u64 = 8 * 1024 * 1024;
/// Claude Code rewrites its registry in place, so a torn one is read again before it is called unreadable.
const READS: usize = 3;
/// How deep a folder is looked into. A team's folders are three deep at most.
const DEEPEST: usize = 6;

/// What `config.json` says.
#[derive(Debug)]
pub(super) enum TeamRegistry {
    /// There is none: Claude Code leaves such folders behind.
    Missing,
    /// It was read.
    Read(TeamConfig),
    /// It is there, and this is wrong with it.
    Unreadable(String),
}

/// A team's folders.
#[derive(Debug)]
pub(super) struct TeamFolder {
    pub(super) name: String,
    /// The folder in `teams`.
    pub(super) dir: Dir,
    /// The folder in `tasks`, if there is one.
    pub(super) tasks: Option<Dir>,
    pub(super) registry: TeamRegistry,
}

/// What stands under a name in `teams`.
#[derive(Debug)]
pub(super) enum TeamFolderEntry {
    /// A folder of this user.
    Team(Box<TeamFolder>),
    /// Something that is not touched, and why.
    Odd(Phrase),
    /// Nothing, by now.
    Nothing,
}

/// The state of a team's files, to notice any change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderFingerprint {
    /// The newest modification time, in nanoseconds.
    pub(super) newest: i64,
    /// The newest modification time without the two folders themselves.
    inside: i64,
    entries: u64,
    bytes: u64,
}

impl FolderFingerprint {
    /// Returns whether nothing in the folders changed. Moving a folder may change its own time on some file systems.
    pub(super) fn is_same_inside(&self, other: &FolderFingerprint) -> bool {
        (self.inside, self.entries, self.bytes) == (other.inside, other.entries, other.bytes)
    }
}

/// Why a scan ended early.
#[derive(Debug)]
pub(super) enum ScanInterrupted {
    /// The time is up.
    OutOfTime,
    /// Something cannot be read.
    Failed(FsError),
}

impl From<FsError> for ScanInterrupted {
    fn from(error: FsError) -> Self {
        Self::Failed(error)
    }
}

/// Opens what stands under `name`.
pub(super) fn open(scanner: &ZombieScanner<'_>, name: &str) -> TeamFolderEntry {
    match try_open(scanner, name) {
        Ok(found) => found,
        Err(error) => TeamFolderEntry::Odd(match error.problem {
            FsProblem::Link => {
                let path = error.path.display();
                Phrase::new(PhraseCode::LinkNotFollowed, [("path", &path)])
            }
            FsProblem::NotA(wanted) => {
                Phrase::verbatim(&format!("{} is not a {wanted}", error.path.display()))
            }
            _ => Phrase::verbatim(&error.to_string()),
        }),
    }
}

fn try_open(scanner: &ZombieScanner<'_>, name: &str) -> Result<TeamFolderEntry, FsError> {
    let Some(teams) = &scanner.teams else {
        return Ok(TeamFolderEntry::Nothing);
    };
    let Some(dir) = teams.child(name)? else {
        return Ok(TeamFolderEntry::Nothing);
    };
    let tasks = match &scanner.tasks {
        Some(tasks) => tasks.child(name)?,
        None => None,
    };
    for folder in [Some(&dir), tasks.as_ref()].into_iter().flatten() {
        let owner = folder.owner()?;
        if owner != scanner.user {
            let path = folder.path().display();
            return Ok(TeamFolderEntry::Odd(Phrase::new(
                PhraseCode::OfAnotherUser,
                [("path", &path), ("owner", &owner)],
            )));
        }
    }
    Ok(TeamFolderEntry::Team(Box::new(TeamFolder {
        name: name.to_owned(),
        registry: registry(&dir),
        dir,
        tasks,
    })))
}

fn registry(dir: &Dir) -> TeamRegistry {
    let mut problem = String::new();
    for _ in 0..READS {
        match dir.stamp(layout::CONFIG) {
            Ok(Some(stamp)) if stamp.size > LARGEST_REGISTRY => {
                return TeamRegistry::Unreadable("it is larger than 8 MiB".to_owned());
            }
            _ => {}
        }
        match dir.read(layout::CONFIG) {
            Ok(None) => return TeamRegistry::Missing,
            Ok(Some((bytes, _))) => match TeamConfig::parse(&bytes) {
                Ok(config) => return TeamRegistry::Read(config),
                Err(error) => problem = error,
            },
            Err(error) => return TeamRegistry::Unreadable(error.problem.to_string()),
        }
        std::thread::yield_now();
    }
    TeamRegistry::Unreadable(problem)
}

impl TeamFolder {
    /// Returns the registry, where it could be read.
    pub(super) fn config(&self) -> Option<&TeamConfig> {
        match &self.registry {
            TeamRegistry::Read(config) => Some(config),
            _ => None,
        }
    }

    /// Returns whether teamster made it.
    pub(super) fn is_ours(&self) -> bool {
        self.config()
            .is_some_and(|config| config.kind() == TeamOrigin::Teamster)
    }

    /// Returns the state of all its files. Something newer than `enough` is enough to know that the team is young.
    pub(super) fn seen(
        &self,
        budget: &TimeBudget,
        enough: Option<i64>,
    ) -> Result<FolderFingerprint, ScanInterrupted> {
        let mut seen = FolderFingerprint::default();
        for folder in [Some(&self.dir), self.tasks.as_ref()].into_iter().flatten() {
            if !walk(
                folder,
                DEEPEST,
                budget,
                enough.unwrap_or(i64::MAX),
                &mut seen,
            )? {
                break;
            }
        }
        Ok(seen)
    }
}

/// Adds everything in a folder to what was seen, and returns false as soon as that is enough.
fn walk(
    dir: &Dir,
    deep: usize,
    budget: &TimeBudget,
    enough: i64,
    seen: &mut FolderFingerprint,
) -> Result<bool, ScanInterrupted> {
    seen.newest = seen.newest.max(dir.own_stamp()?.modified);
    for entry in dir.entries()? {
        if seen.newest > enough {
            return Ok(false);
        }
        if budget.is_spent() {
            return Err(ScanInterrupted::OutOfTime);
        }
        let Some(stamp) = dir.stamp(&entry.name)? else {
            continue;
        };
        seen.entries += 1;
        seen.inside = seen.inside.max(stamp.modified);
        seen.newest = seen.newest.max(stamp.modified);
        if stamp.kind != teamster_fs::FileKind::Folder {
            seen.bytes = seen.bytes.wrapping_add(stamp.size);
        } else if deep > 0
            && let Some(child) = dir.child(&entry.name)?
            && !walk(&child, deep - 1, budget, enough, seen)?
        {
            return Ok(false);
        }
    }
    Ok(seen.newest <= enough)
}

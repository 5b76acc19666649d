//! The two folders of one team, and when they last changed.

use teamster_fs::{Dir, FsError, FsProblem, layout};
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::team::{TeamConfig, TeamOrigin};

use super::scanner::{TimeBudget, ZombieScanner};

/// The size limit of a registry: reading a larger one would take a hook too long.
const LARGEST_REGISTRY: u64 = 8 * 1024 * 1024;
/// How often a registry is read before it counts as unreadable: Claude Code rewrites it in place, so a read may be
/// torn.
const READS: usize = 3;
/// The maximum depth of the scan of a folder. A team's folders are at most three levels deep.
const DEEPEST: usize = 6;

/// The content of `config.json`.
#[derive(Debug)]
pub(super) enum TeamRegistry {
    /// There is no registry: Claude Code leaves such folders behind.
    Missing,
    /// It was read.
    Read(TeamConfig),
    /// The registry exists but cannot be read, for this reason.
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

/// What a name in `teams` refers to.
#[derive(Debug)]
pub(super) enum TeamFolderEntry {
    /// A team folder of this user.
    Team(Box<TeamFolder>),
    /// Something else that is never touched, with the reason.
    Odd(Phrase),
    /// Nothing: the entry has disappeared.
    Nothing,
}

/// The state of a team's files, for detecting changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FolderFingerprint {
    /// The newest modification time, in nanoseconds.
    pub(super) newest: i64,
    /// The newest modification time, not counting the two folders themselves.
    inside: i64,
    entries: u64,
    bytes: u64,
}

impl FolderFingerprint {
    /// Returns whether nothing inside the folders has changed. Some file systems change a folder's own time when it is
    /// moved.
    pub(super) fn is_same_inside(&self, other: &FolderFingerprint) -> bool {
        (self.inside, self.entries, self.bytes) == (other.inside, other.entries, other.bytes)
    }
}

/// Why a scan ended early.
#[derive(Debug)]
pub(super) enum ScanInterrupted {
    /// The time budget is exhausted.
    OutOfTime,
    /// A file cannot be read.
    Failed(FsError),
}

impl From<FsError> for ScanInterrupted {
    fn from(error: FsError) -> Self {
        Self::Failed(error)
    }
}

/// Opens the entry `name` of `teams`.
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
    /// Returns the registry, if it could be read.
    pub(super) fn config(&self) -> Option<&TeamConfig> {
        match &self.registry {
            TeamRegistry::Read(config) => Some(config),
            _ => None,
        }
    }

    /// Returns whether teamster created the team.
    pub(super) fn is_ours(&self) -> bool {
        self.config()
            .is_some_and(|config| config.kind() == TeamOrigin::Teamster)
    }

    /// Returns the state of all the team's files. The scan stops at a file newer than `enough`, which proves that the
    /// team is young.
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

/// Adds everything in a folder to the fingerprint, and returns false once a file is newer than `enough`.
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

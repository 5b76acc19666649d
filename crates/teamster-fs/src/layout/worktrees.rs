//! Paths of workers' worktrees, and of the tmux server that shows the workers.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use teamster_types::{TeamName, WorkerName};

/// Path from a project to its workers' worktrees, which are grouped by team.
pub const WORKTREES: [&str; 2] = [".omc", "worktrees"];
/// The worktree in which a team's finished tasks are merged; no worker may have this name.
pub const INTEGRATION: &str = "integration";
/// The separator between a worker's name and a number, in the name of a worktree that was moved aside. Worker names
/// contain no dot.
const KEPT: &str = ".kept-";
/// The maximum length of a unix socket path, without the terminating zero byte.
#[cfg(target_os = "linux")]
const LONGEST_SOCKET: usize = 107;
#[cfg(not(target_os = "linux"))]
const LONGEST_SOCKET: usize = 103;

/// Returns the path from a project to the worktrees of one team.
pub fn worktree_folders(team: &TeamName) -> [&str; 3] {
    [WORKTREES[0], WORKTREES[1], team.as_str()]
}

/// Returns the folder of all worktrees of a team.
pub fn team_worktrees(project: &Path, team: &TeamName) -> PathBuf {
    worktree_folders(team)
        .iter()
        .fold(project.to_owned(), |path, name| path.join(name))
}

/// Returns the path of a worker's worktree.
pub fn worktree(project: &Path, team: &TeamName, worker: &WorkerName) -> PathBuf {
    team_worktrees(project, team).join(worker.as_str())
}

/// Returns the name of a worktree that was moved aside, beside the worker's current one; numbers start at 1.
pub fn kept_worktree(worker: &WorkerName, number: u32) -> String {
    format!("{worker}{KEPT}{number}")
}

/// The name prefix of worktrees for checks, which no worker name can have.
const CHECK_TREE: &str = ".check-";

/// Returns the folder name of a worktree for checks.
pub fn check_tree(number: &str) -> String {
    format!("{CHECK_TREE}{number}")
}

/// Returns whether a folder among a team's worktrees is one for checks.
pub fn is_check_tree(name: &str) -> bool {
    name.starts_with(CHECK_TREE)
}

/// Returns the worker whose worktree was moved aside to this name.
pub fn worker_of_kept(name: &str) -> Option<WorkerName> {
    let (worker, number) = name.split_once(KEPT)?;
    number.parse::<u32>().ok()?;
    worker.parse().ok()
}

/// Returns the name of the lock for creating, moving or removing a worker's worktree, beside it.
pub fn worktree_lock(name: &str) -> String {
    format!(".{name}.lock")
}

/// Returns the name of a temporary git index for a single call, beside the worktree that it describes.
pub fn spare_index(name: &str) -> String {
    format!(".{name}.{}.index", crate::unique_name())
}

/// Returns the name of the lock that a worker's bridge holds for as long as it lives, in the team's folder.
pub fn bridge_lock(worker: &WorkerName) -> String {
    format!("bridge-{worker}.lock")
}

/// Returns the socket of the project's own tmux server. If its path would be too long for a socket, it is in the user's
/// runtime folder (`XDG_RUNTIME_DIR`), else in a folder of the user's own in `/tmp`.
pub fn tmux_socket(project: &Path, run_folder: Option<&Path>) -> PathBuf {
    let near = project.join(".omc").join("state").join("tmux.sock");
    if near.as_os_str().len() <= LONGEST_SOCKET {
        return near;
    }
    let name = format!("{:016x}.sock", digest(project.as_os_str().as_bytes()));
    let far = run_folder
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("teamster").join(&name));
    far.filter(|path| path.as_os_str().len() <= LONGEST_SOCKET)
        .unwrap_or_else(|| {
            let user = crate::proc::user();
            PathBuf::from(format!("/tmp/teamster-{user}")).join(name)
        })
}

/// Computes the FNV-1a hash, which is the same in every build: it names a socket that another build may have created.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_worktree_has_no_workers_name() {
        let worker: WorkerName = "worker-1".parse().unwrap();
        let name = kept_worktree(&worker, 2);
        assert_eq!(name, "worker-1.kept-2");
        assert!(name.parse::<WorkerName>().is_err());
        assert_eq!(worker_of_kept(&name), Some(worker));
        for other in ["worker-1", "worker-1.kept-", "worker-1.kept-x", ".kept-1"] {
            assert_eq!(worker_of_kept(other), None, "{other}");
        }
    }

    #[test]
    fn a_socket_is_never_longer_than_a_socket_may_be() {
        let near = tmux_socket(Path::new("/p"), None);
        assert_eq!(near, Path::new("/p/.omc/state/tmux.sock"));
        let long = PathBuf::from(format!("/{}", "x".repeat(200)));
        let run = tmux_socket(&long, Some(Path::new("/run/user/7")));
        assert!(run.starts_with("/run/user/7/teamster"), "{run:?}");
        let other = tmux_socket(&long.join("y"), Some(Path::new("/run/user/7")));
        assert_ne!(run, other, "each project has its own");
        for folder in [None, Some(Path::new("relative")), Some(long.as_path())] {
            let path = tmux_socket(&long, folder);
            assert!(path.starts_with("/tmp"), "{path:?}");
            assert!(path.as_os_str().len() <= LONGEST_SOCKET);
        }
    }
}

//! Sockets that only this user can reach, each in a folder of its own.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::dir::{Dir, retry};
use crate::error::{FsError, FsProblem};
use crate::folders::remove_tree;
use crate::proc::user;
use crate::processes::is_below;

/// The name of the socket in its folder.
const SOCKET: &str = "s";
/// The maximum length of a socket path, in bytes, that both macOS and Linux accept.
const LONGEST_PATH: usize = 103;
/// The parent of the socket folder when the path of the temp folder is too long.
const SHORT_FOLDER: &str = "/tmp";

/// A socket file in a folder that only this user can enter. Both are removed on drop.
#[derive(Debug)]
pub struct SocketFile {
    parent: PathBuf,
    folder: String,
    path: PathBuf,
}

impl SocketFile {
    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Ok(Some(parent)) = Dir::open_root(&self.parent) {
            // A later process uses another name, so a leftover folder does no harm.
            let _ = remove_tree(&parent, &self.folder);
        }
    }
}

/// Returns the parent of the socket folder `folder`: `parent`, unless the socket path would be too long.
pub fn socket_parent(parent: &Path, folder: &str) -> PathBuf {
    let path = parent.join(folder).join(SOCKET);
    if path.as_os_str().len() <= LONGEST_PATH {
        parent.to_owned()
    } else {
        PathBuf::from(SHORT_FOLDER)
    }
}

/// Listens on a new socket in the folder `folder` below `parent`. A folder left by a killed process is replaced; one of
/// another user is refused.
pub fn listen_privately(
    parent: &Path,
    folder: &str,
) -> Result<(UnixListener, SocketFile), FsError> {
    let parent = socket_parent(parent, folder);
    let dir = Dir::open_root(&parent)?.ok_or_else(|| FsError::io("open", &parent, Errno::NOENT))?;
    dir.make_dir(folder)?;
    let own = dir.child_or_create(folder)?;
    if own.owner()? != user() {
        return Err(FsError::new(
            "use",
            own.path(),
            FsProblem::NotA("folder of ours"),
        ));
    }
    own.make_private()?;
    own.remove(SOCKET)?;
    let path = own.join(SOCKET);
    let failed = |error: io::Error| FsError::io("listen at", &path, error);
    let listener = UnixListener::bind(&path).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let file = SocketFile {
        parent,
        folder: folder.to_owned(),
        path,
    };
    Ok((listener, file))
}

/// Connects to a socket.
pub fn connect(path: &Path) -> Result<UnixStream, FsError> {
    UnixStream::connect(path).map_err(|error| FsError::io("connect to", path, error))
}

/// Returns whether the peer runs as this user and is a descendant of this process, so that only agents started here can
/// connect. Where the system does not report the peer, the permissions of the folder are the only protection.
pub fn is_from_below(stream: &UnixStream) -> bool {
    #[cfg(target_os = "linux")]
    {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else {
            return false;
        };
        let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
        peer.uid.as_raw() == user() && is_below(pid, std::process::id())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (stream, is_below);
        true
    }
}

/// Returns whether the peer has closed the connection. A peer that has only shut down its sending side is still
/// connected.
pub fn is_hung_up(stream: &UnixStream) -> bool {
    let mut watched = [PollFd::new(stream, PollFlags::HUP)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let is_over = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    let found = retry(|| poll(&mut watched, Some(&at_once)));
    found.is_ok_and(|count| count > 0) && watched[0].revents().intersects(is_over)
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use super::*;

    fn temp() -> PathBuf {
        std::env::temp_dir()
    }

    #[test]
    fn socket_is_ours_alone_and_goes_with_its_file() {
        let folder = format!("teamster-socket-test-{}", std::process::id());
        let (_listener, file) = listen_privately(&temp(), &folder).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(file.path()), 0o600);
        assert_eq!(mode(file.path().parent().unwrap()), 0o700);
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }

    #[test]
    fn socket_that_a_killed_process_left_is_replaced() {
        let folder = format!("teamster-socket-stale-{}", std::process::id());
        let (listener, file) = listen_privately(&temp(), &folder).unwrap();
        let path = file.path().to_owned();
        drop(listener);
        std::mem::forget(file);
        assert!(connect(&path).is_err(), "nobody listens any more");
        let (_listener, file) = listen_privately(&temp(), &folder).unwrap();
        assert_eq!(file.path(), path);
        assert!(connect(&path).is_ok());
    }

    #[test]
    fn long_parent_is_replaced_by_a_short_one() {
        let long = temp().join("x".repeat(120));
        assert_eq!(socket_parent(&long, "f"), Path::new(SHORT_FOLDER));
        assert_eq!(socket_parent(Path::new("/t"), "f"), Path::new("/t"));
    }

    #[test]
    fn hang_up_is_told_from_a_half_closed_connection() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert!(!is_hung_up(&ours));
        theirs.shutdown(Shutdown::Write).unwrap();
        assert!(!is_hung_up(&ours));
        drop(theirs);
        assert!(is_hung_up(&ours));
    }
}

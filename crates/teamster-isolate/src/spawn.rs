//! Starting programs, one at a time.
//!
//! To start a program inside a control group, this process enters the group for a moment. A program that another thread
//! started meanwhile would be in it too, and would be killed with it. So all programs are started through this module.
//!
//! The caller's environment variables for git (`GIT_DIR`, `GIT_INDEX_FILE`, `GIT_CONFIG_…`) refer to another
//! repository: a program that inherits them would change the user's own work tree. So they are removed here, for every
//! program. The same goes for the address of a store, which may contain a password and must not be readable by an
//! agent.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use teamster_fs::cgroup::Cgroup;

static STARTING: Mutex<()> = Mutex::new(());

/// Makes every git process read the stored objects, never those of `refs/replace`.
const NO_REPLACED_OBJECTS: (&str, &str) = ("GIT_NO_REPLACE_OBJECTS", "1");

/// The environment variable with the address of the store, which may contain a password.
pub const STORE: &str = "TEAMSTER_STORE";

/// Returns whether an environment variable is one of git's.
pub(crate) fn is_of_git(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"GIT_")
}

/// Returns whether an environment variable must not be inherited: one of git's, or the address of a store.
fn stays_behind(name: &OsStr) -> bool {
    is_of_git(name) || name == STORE
}

/// Keeps a program from inheriting these variables, except those that `command` sets itself.
pub(crate) fn without_callers_git(command: &mut Command) {
    let own: HashSet<OsString> = command
        .get_envs()
        .filter(|(_, value)| value.is_some())
        .map(|(name, _)| name.to_owned())
        .collect();
    for (name, _) in std::env::vars_os() {
        if stays_behind(&name) && !own.contains(&name) {
            command.env_remove(name);
        }
    }
    command.env(NO_REPLACED_OBJECTS.0, NO_REPLACED_OBJECTS.1);
}

/// Starts a program.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    without_callers_git(command);
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Starts a program in a control group. A child starts in its parent's group, so this process enters the group before
/// and leaves it afterwards: a program that is moved later may have started others by then.
pub(crate) fn spawn_in(
    command: &mut Command,
    group: Option<&Cgroup>,
    me: u32,
) -> io::Result<Child> {
    without_callers_git(command);
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(group) = group.filter(|group| group.add(me)) else {
        return command.spawn();
    };
    let child = command.spawn();
    group.release(me);
    child
}

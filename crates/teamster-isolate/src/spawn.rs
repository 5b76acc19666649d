//! Starting programs, one at a time.
//!
//! To start a program inside a group of the kernel's, this process goes into the group for a moment. Whatever another
//! thread started meanwhile would be in it too, and would be ended with it. So nobody starts anything but through here.
//!
//! What the caller's environment says about git (`GIT_DIR`, `GIT_INDEX_FILE`, `GIT_CONFIG_…`) was said about another
//! repository: a program that inherits it would change the user's own tree. So it is removed here, for every program. The same goes
//! for the address of a store, which may have a password in it: no agent is to read it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use teamster_fs::cgroup::Cgroup;

static STARTING: Mutex<()> = Mutex::new(());

/// Makes every git read the objects that a commit really has, never those of `refs/replace`.
const NO_REPLACED_OBJECTS: (&str, &str) = ("GIT_NO_REPLACE_OBJECTS", "1");

/// The address of the store, which may have a password in it.
pub const STORE: &str = "TEAMSTER_STORE";

/// Returns whether a variable is one of git's.
pub(crate) fn is_of_git(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"GIT_")
}

/// Returns whether a variable is one of git's, or has the address of a store: nobody inherits those.
fn stays_behind(name: &OsStr) -> bool {
    is_of_git(name) || name == STORE
}

/// Removes what stays behind from what a program inherits; those that `command` sets itself stay.
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

/// Starts a program in a group. What a process starts is in its own group, so we go in before and out after: a program
/// that is put in later may have started others by then.
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
    group.let_go(me);
    child
}

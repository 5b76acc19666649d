//! Starting programs, one at a time.
//!
//! To start a program inside a group of the kernel's, this process goes into the group for a moment. Whatever another
//! thread started meanwhile would be in it too, and would be ended with it. So nobody starts anything but through here.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use teamster_fs::cgroup::Group;

static STARTING: Mutex<()> = Mutex::new(());

/// Starts a program.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Starts a program in a group. What a process starts is in its own group, so we go in before and out after: a program
/// that is put in later may have started others by then.
pub(crate) fn spawn_in(command: &mut Command, group: Option<&Group>, me: u32) -> io::Result<Child> {
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(group) = group.filter(|group| group.add(me)) else {
        return command.spawn();
    };
    let child = command.spawn();
    group.let_go(me);
    child
}

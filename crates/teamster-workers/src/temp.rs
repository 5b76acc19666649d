//! A folder for the temp files of everything that one launch starts, so that what an agent leaves there goes with it.

use std::path::PathBuf;

use teamster_fs::{Dir, FsError, layout, remove_tree};

/// The system's folder for temp files.
fn system() -> Result<Option<Dir>, FsError> {
    Dir::open_root(&std::env::temp_dir())
}

/// Makes the folder of a launch. It is ours alone: its name cannot be guessed, and one that is there already is not used.
pub(crate) fn make(launch: &str) -> Option<PathBuf> {
    let name = layout::launch_temp(launch);
    let system = system().ok()??;
    let is_new = system.make_dir(&name).ok()?;
    let is_ours = is_new
        || system
            .child(&name)
            .ok()
            .flatten()
            .is_some_and(|dir| dir.owner().ok() == Some(teamster_fs::proc::user()));
    is_ours.then(|| system.join(&name))
}

/// Takes it away with all that is in it.
pub(crate) fn remove(launch: &str) {
    if let Ok(Some(system)) = system() {
        let _ = remove_tree(&system, &layout::launch_temp(launch));
    }
}

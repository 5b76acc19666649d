//! The person's editor, with a plan in it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use teamster_app::env_vars;
use teamster_fs::{Dir, Sync};
use teamster_run::plan::EDITED_FILE;

/// The editor of a person who has named none.
const DEFAULT: &str = "vi";

/// Lets a person edit a text in the editor of `VISUAL` or `EDITOR`, and returns it as it is then; an error is told in words.
pub fn edit(text: &str) -> Result<String, String> {
    let editor = env_vars::get(env_vars::VISUAL)
        .or_else(|| env_vars::get(env_vars::EDITOR))
        .unwrap_or_else(|| OsString::from(DEFAULT));
    let name = format!("teamster-plan-{}", teamster_fs::random_hex());
    let folder = std::env::temp_dir().join(name);
    let edited = edit_in(&folder, &editor, text);
    if let Err(error) = remove(&folder) {
        return edited.map_err(|why| format!("{why}; {error}"));
    }
    edited
}

fn edit_in(folder: &Path, editor: &OsStr, text: &str) -> Result<String, String> {
    let dir = Dir::open_or_create_root(folder).map_err(|error| error.to_string())?;
    dir.replace(EDITED_FILE, text.as_bytes(), Sync::Fast)
        .map_err(|error| error.to_string())?;
    let shown = editor.to_string_lossy();
    match teamster_isolate::foreground::run_at_terminal(editor, &folder.join(EDITED_FILE)) {
        Ok(true) => {}
        Ok(false) => return Err(format!("the editor `{shown}` failed")),
        Err(error) => {
            return Err(format!(
                "the editor `{shown}` could not be started: {error}"
            ));
        }
    }
    let read = dir.read(EDITED_FILE).map_err(|error| error.to_string())?;
    let (bytes, _) = read.ok_or_else(|| "the edited plan is not there any more".to_owned())?;
    String::from_utf8(bytes).map_err(|_| "the edited plan is no UTF-8".to_owned())
}

/// Removes the folder with everything that the editor has left in it.
fn remove(folder: &Path) -> Result<(), String> {
    let (Some(parent), Some(name)) = (
        folder.parent(),
        folder.file_name().and_then(|name| name.to_str()),
    ) else {
        return Ok(());
    };
    let Some(parent) = Dir::open_root(parent).map_err(|error| error.to_string())? else {
        return Ok(());
    };
    teamster_fs::remove_tree(&parent, name).map_err(|error| error.to_string())
}

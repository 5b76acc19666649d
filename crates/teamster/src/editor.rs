//! Opens a plan in the user's editor.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use teamster_app::env_vars;
use teamster_fs::{Dir, Durability, OrTrace as _};
use teamster_isolate::foreground::TerminalProgram;
use teamster_run::plan::EDITED_FILE;

/// The editor if neither `VISUAL` nor `EDITOR` is set.
const DEFAULT: &str = "vi";

/// A plan that is open in the editor of `VISUAL` or `EDITOR`. Dropping this ends the editor and removes the temporary
/// file, unless the file is kept. Errors are messages for a person.
#[derive(Debug)]
pub struct PlanEditor {
    folder: PathBuf,
    command: OsString,
    before: String,
    program: Option<TerminalProgram>,
    is_kept: bool,
}

impl PlanEditor {
    /// Opens a text.
    pub fn open(text: &str) -> Result<Self, String> {
        let command = env_vars::get(env_vars::VISUAL)
            .or_else(|| env_vars::get(env_vars::EDITOR))
            .unwrap_or_else(|| OsString::from(DEFAULT));
        let name = format!("teamster-plan-{}", teamster_fs::random_hex());
        let mut editor = Self {
            folder: std::env::temp_dir().join(name),
            command,
            before: text.to_owned(),
            program: None,
            is_kept: false,
        };
        Dir::open_or_create_root(&editor.folder)
            .and_then(|dir| dir.replace(EDITED_FILE, text.as_bytes(), Durability::Fast))
            .map_err(|error| error.to_string())?;
        editor.reopen()?;
        Ok(editor)
    }

    /// Opens the file again, as the user left it.
    pub fn reopen(&mut self) -> Result<(), String> {
        let program = TerminalProgram::start(&self.command, &self.file());
        self.program = Some(program.map_err(|error| {
            let shown = self.command.to_string_lossy();
            format!("the editor `{shown}` could not be started: {error}")
        })?);
        Ok(())
    }

    /// Returns the text as it was opened.
    pub fn before(&self) -> &str {
        &self.before
    }

    /// Waits until the editor is closed, and returns the text as it is then.
    pub fn wait(&mut self) -> Result<String, String> {
        let ended = self.program.take().map(|mut program| program.wait());
        self.read(ended.unwrap_or(Ok(true)))
    }

    /// Returns the text once the editor is closed, or `None` while it is open.
    pub fn poll(&mut self) -> Option<Result<String, String>> {
        let ended = match self.program.as_mut()?.poll() {
            Ok(None) => return None,
            Ok(Some(is_well)) => Ok(is_well),
            Err(error) => Err(error),
        };
        self.program = None;
        Some(self.read(ended))
    }

    fn read(&self, ended: std::io::Result<bool>) -> Result<String, String> {
        let shown = self.command.to_string_lossy();
        match ended {
            Ok(true) => {}
            Ok(false) => return Err(format!("the editor `{shown}` failed")),
            Err(error) => return Err(format!("cannot wait for the editor `{shown}`: {error}")),
        }
        let dir = Dir::open_root(&self.folder).map_err(|error| error.to_string())?;
        let read = match dir {
            Some(dir) => dir.read(EDITED_FILE).map_err(|error| error.to_string())?,
            None => None,
        };
        let (bytes, _) = read.ok_or_else(|| "the edited plan no longer exists".to_owned())?;
        String::from_utf8(bytes).map_err(|_| "the edited plan is not valid UTF-8".to_owned())
    }

    /// Ends the editor if it is open, keeps the file, and returns its path.
    pub fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.file()
    }

    fn file(&self) -> PathBuf {
        self.folder.join(EDITED_FILE)
    }
}

impl Drop for PlanEditor {
    fn drop(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.end();
        }
        if !self.is_kept {
            remove(&self.folder).or_trace("remove an edited plan");
        }
    }
}

/// Removes the folder with everything that the editor left in it.
fn remove(folder: &Path) -> Result<(), teamster_fs::FsError> {
    let (Some(parent), Some(name)) = (
        folder.parent(),
        folder.file_name().and_then(|name| name.to_str()),
    ) else {
        return Ok(());
    };
    match Dir::open_root(parent)? {
        Some(parent) => teamster_fs::remove_tree(&parent, name),
        None => Ok(()),
    }
}

//! The git ignore rules of a project that teamster's hooks write to.

use std::path::Path;

use teamster_fs::layout::{BACKUPS_IGNORED, GITIGNORE, Layout, git_exclude};
use teamster_fs::{FileOwner, UserFile};
use teamster_store::StoreError;

use super::ignore::FileEdit;
use super::{FOLDERS, InstallOutcome, PATIENCE, diff, ignore};

/// The mode of a new ignore file, restricted by the umask.
const SHARED: u32 = 0o666;

/// Adds the folders of teamster's state to `.gitignore`, once.
pub(super) fn ignore_folders(layout: &Layout, dry_run: bool, outcome: &mut InstallOutcome) {
    if git_exclude(&layout.project).is_some() {
        let path = layout.project.join(GITIGNORE);
        edit(&path, dry_run, outcome, |text| {
            ignore::add_lines(text, &FOLDERS)
        });
    }
}

/// Removes the folders of teamster's state from `.gitignore`.
pub(super) fn unignore_folders(layout: &Layout, dry_run: bool, outcome: &mut InstallOutcome) {
    let path = layout.project.join(GITIGNORE);
    edit(&path, dry_run, outcome, |text| {
        ignore::remove_lines(text, &FOLDERS)
    });
}

/// Excludes backups from the project's history by a local rule that is not shared: settings may contain secrets.
pub(super) fn exclude_backups(layout: &Layout, dry_run: bool, outcome: &mut InstallOutcome) {
    if let Some(path) = git_exclude(&layout.project) {
        edit(&path, dry_run, outcome, |text| {
            ignore::add_lines(text, &[BACKUPS_IGNORED])
        });
    }
}

/// Removes that rule when there is no backup left.
pub(super) fn unexclude_backups(layout: &Layout, dry_run: bool, outcome: &mut InstallOutcome) {
    if let Some(path) = git_exclude(&layout.project) {
        edit(&path, dry_run, outcome, |text| {
            ignore::remove_lines(text, &[BACKUPS_IGNORED])
        });
    }
}

/// Edits a file that is not essential: a failure becomes a remark, not an error.
fn edit(
    path: &Path,
    dry_run: bool,
    outcome: &mut InstallOutcome,
    change: impl Fn(Option<&str>) -> FileEdit,
) {
    match try_edit(path, dry_run, &change) {
        Ok(None) => {}
        Ok(Some(diff)) => {
            outcome.changed |= !dry_run;
            outcome.diff.push_str(&diff);
        }
        Err(error) => outcome.remarks.push(format!(
            "{} stays as it is: {}",
            path.display(),
            error.message
        )),
    }
}

fn try_edit(
    path: &Path,
    dry_run: bool,
    change: &impl Fn(Option<&str>) -> FileEdit,
) -> Result<Option<String>, StoreError> {
    let Some(file) = UserFile::find(path)? else {
        return Ok(None);
    };
    if file.is_link() {
        return match change(read(&file)?.as_ref().map(|(text, _)| text.as_str())) {
            FileEdit::Nothing => Ok(None),
            _ => Err(StoreError::refused("it is a link")),
        };
    }
    let Some(_lock) = file.lock(PATIENCE)? else {
        return Err(StoreError::busy(
            "another `teamster install` is changing it",
        ));
    };
    loop {
        let was = read(&file)?;
        let old = was.as_ref().map(|(text, _)| text.as_str());
        let new = match change(old) {
            FileEdit::Nothing => return Ok(None),
            FileEdit::Write(new) => Some(new),
            FileEdit::Remove => None,
        };
        let shown = diff(&path.display().to_string(), old, new.as_deref());
        if dry_run {
            return Ok(Some(shown));
        }
        file.sweep()?;
        let was = was.as_ref().map(|(_, was)| was);
        if was.is_some_and(|was| was.is_read_only() || was.owner != FileOwner::Me) {
            return Err(StoreError::refused(
                "it is read-only or belongs to another user",
            ));
        }
        let done = match (&new, was) {
            (Some(new), was) => file.replace(was, new.as_bytes(), SHARED)?,
            (None, Some(was)) => file.remove(was)?,
            (None, None) => true,
        };
        if done {
            return Ok(Some(shown));
        }
    }
}

fn read(file: &UserFile) -> Result<Option<(String, teamster_fs::FileSnapshot)>, StoreError> {
    let Some(was) = file.read()? else {
        return Ok(None);
    };
    match std::str::from_utf8(&was.bytes) {
        Ok(text) => Ok(Some((text.to_owned(), was))),
        Err(_) => Err(StoreError::refused("it is not UTF-8")),
    }
}

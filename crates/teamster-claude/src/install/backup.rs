//! Backups of settings, beside the settings file.

use std::path::{Path, PathBuf};

use teamster_fs::layout::{backup_file, is_backup_of, temp_owner};
use teamster_fs::{Dir, Durability};
use teamster_store::StoreError;
use teamster_types::Time;

use super::{hooks, merge};

/// One backup.
#[derive(Debug)]
pub(super) struct Backup {
    pub(super) path: PathBuf,
    name: String,
    text: String,
}

/// Returns the folder and the name of the settings by their given path: a backup is not put into the folder that a
/// symbolic link leads to.
fn place(settings: &Path) -> Option<(&Path, &str)> {
    Some((settings.parent()?, settings.file_name()?.to_str()?))
}

/// Saves the current settings. The same content is saved once.
pub(super) fn keep(
    settings: &Path,
    bytes: &[u8],
    now: Time,
) -> Result<Option<PathBuf>, StoreError> {
    let Some((folder, name)) = place(settings) else {
        return Ok(None);
    };
    let Some(dir) = Dir::open_root(folder)? else {
        return Ok(None);
    };
    for entry in dir.entries()? {
        if is_backup_temp(&entry.name, name) {
            dir.remove(&entry.name)?;
        } else if is_backup_of(&entry.name, name)
            && let Ok(Some((there, _))) = dir.read(&entry.name)
            && there == bytes
        {
            return Ok(Some(dir.join(&entry.name)));
        }
    }
    let first = backup_file(name, now);
    let mut backup = first.clone();
    let mut number = 1;
    while dir.stamp(&backup)?.is_some() {
        number += 1;
        backup = format!("{first}-{number}");
    }
    dir.replace(&backup, bytes, Durability::Durable)?;
    Ok(Some(dir.join(&backup)))
}

/// Returns whether a killed writer left this temp file instead of a backup. The settings are locked, so no writer is
/// active.
fn is_backup_temp(name: &str, settings: &str) -> bool {
    let file = name.strip_prefix('.').unwrap_or_default();
    temp_owner(name).is_some() && is_backup_of(file, settings)
}

/// Returns the path of the next backup.
pub(super) fn next(settings: &Path, now: Time) -> Option<PathBuf> {
    let (folder, name) = place(settings)?;
    Some(folder.join(backup_file(name, now)))
}

/// Returns every readable backup, newest first.
pub(super) fn all(settings: &Path) -> Result<Vec<Backup>, StoreError> {
    let Some((folder, name)) = place(settings) else {
        return Ok(Vec::new());
    };
    let Some(dir) = Dir::open_root(folder)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in dir.entries()? {
        if is_backup_of(&entry.name, name)
            && let Ok(Some((bytes, _))) = dir.read(&entry.name)
            && let Ok(text) = String::from_utf8(bytes)
        {
            found.push(Backup {
                path: dir.join(&entry.name),
                name: entry.name,
                text,
            });
        }
    }
    found.sort_by(|one, other| other.name.cmp(&one.name));
    Ok(found)
}

/// Returns the settings from before the installation, if a backup proves them: adding the hooks to it results in the
/// current settings.
pub(super) fn original<'a>(backups: &'a [Backup], text: &str) -> Option<&'a str> {
    let (program, there) = merge::installed(text).ok()??;
    // In the order in which they are added, whatever order the text has.
    let events: Vec<&str> = hooks::events(false)
        .into_iter()
        .filter(|event| there.iter().any(|one| one == event))
        .collect();
    let proves = |backup: &&Backup| {
        let is_clean = merge::installed(&backup.text).is_ok_and(|ours| ours.is_none());
        is_clean && merge::add_hooks(&backup.text, &program, &events).is_ok_and(|with| with == text)
    };
    backups
        .iter()
        .find(proves)
        .map(|backup| backup.text.as_str())
}

impl Backup {
    #[cfg(test)]
    pub(super) fn new(name: &str, text: &str) -> Self {
        Self {
            path: name.into(),
            name: name.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Returns whether the backup contains exactly this text.
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    /// Returns whether it contains nothing beyond settings with the text `left`; `None` means no settings.
    pub(super) fn is_redundant(&self, left: Option<&str>) -> bool {
        if left.is_some_and(|left| self.is(left)) {
            return true;
        }
        match merge::remove_hooks(&self.text) {
            Ok((without, events)) if !events.is_empty() => {
                without.as_deref() == left || original_is(without.as_deref(), left)
            }
            _ => false,
        }
    }

    /// Removes the backup.
    pub(super) fn remove(&self) -> Result<(), StoreError> {
        if let Some(folder) = self.path.parent()
            && let Some(dir) = Dir::open_root(folder)?
        {
            dir.remove(&self.name)?;
        }
        Ok(())
    }
}

/// Compares two texts of settings, where an empty object counts as no settings.
fn original_is(without: Option<&str>, left: Option<&str>) -> bool {
    let is_nothing = |text: Option<&str>| {
        text.is_none_or(|text| {
            let text: String = text.split_whitespace().collect();
            text.is_empty() || text == "{}"
        })
    };
    is_nothing(without) && is_nothing(left)
}

//! A digest of the current state of a project's own settings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use teamster_fs::layout::{PROJECT_SETTINGS, PROMPTS};
use teamster_fs::{Dir, FileKind};

use crate::config::{Config, SettingSource};
use crate::error::{AppError, Result};
use crate::presets::{PresetFile, Presets};

/// The maximum number of settings files.
const MOST_FILES: usize = 2_000;
const MOST_BYTES: usize = 32 * 1024 * 1024;
const DEEPEST: usize = 16;

/// The content of a project's settings files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The digest of the content.
    pub digest: String,
    /// The files that it covers.
    pub files: Vec<String>,
    /// The digests of the scripts among them.
    scripts: BTreeSet<String>,
    /// The digests of the prompt templates among them, by name.
    prompts: BTreeMap<String, String>,
}

struct SnapshotBuilder<'a> {
    hash: Sha256,
    files: Vec<String>,
    scripts: BTreeSet<String>,
    prompts: BTreeMap<String, String>,
    bytes: usize,
    /// The settings and presets as they were read, so that exactly what is in effect is trusted.
    read: BTreeMap<String, &'a [u8]>,
}

impl Snapshot {
    /// Takes a snapshot of everything below `.teamster`, and of the scripts that its providers, roles and presets play,
    /// wherever they are.
    pub fn take(project: &Path, config: &Config, presets: &Presets) -> Result<Self> {
        let mut read: BTreeMap<String, &[u8]> = presets.read().collect();
        if let Some(settings) = &config.project_file {
            read.insert(format!("{PROJECT_SETTINGS}/config.toml"), settings);
        }
        let mut taking = SnapshotBuilder {
            hash: Sha256::new(),
            files: Vec::new(),
            scripts: BTreeSet::new(),
            prompts: BTreeMap::new(),
            bytes: 0,
            read,
        };
        let root = Dir::open_root(project)?;
        if let Some(root) = &root
            // It is not a folder, so the project has no settings.
            && let Ok(Some(folder)) = root.child(PROJECT_SETTINGS)
        {
            taking.folder(&folder, PROJECT_SETTINGS, 0)?;
        }
        for provider in &config.providers {
            if let (SettingSource::Project(..), Some(file)) =
                (&provider.source, &provider.section.file)
            {
                taking.script(file)?;
            }
        }
        let roles = config.roles.iter();
        let roles = roles.filter(|role| matches!(role.source, SettingSource::Project(..)));
        let agents = roles.map(|role| role.provider.as_str());
        let presets = presets.of_the_project().flat_map(PresetFile::agent_names);
        for word in agents.chain(presets.map(|(_, word)| word)) {
            if let Some(file) = word.strip_prefix("scripted:") {
                taking.script(&project.join(file))?;
            }
        }
        Ok(Self {
            digest: hex(&taking.hash.finalize()),
            files: taking.files,
            scripts: taking.scripts,
            prompts: taking.prompts,
        })
    }

    /// Returns whether a script of the project has exactly these bytes.
    pub fn has_script(&self, bytes: &[u8]) -> bool {
        self.scripts.contains(&hex(&Sha256::digest(bytes)))
    }

    /// Returns whether a template of the project has exactly this name and these bytes.
    pub fn has_prompt(&self, name: &str, bytes: &[u8]) -> bool {
        self.prompts.get(name) == Some(&hex(&Sha256::digest(bytes)))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl SnapshotBuilder<'_> {
    fn folder(&mut self, folder: &Dir, path: &str, depth: usize) -> Result {
        let mut names: Vec<String> = folder.entries()?.into_iter().map(|e| e.name).collect();
        names.sort_unstable();
        for name in names {
            let inner = format!("{path}/{name}");
            let kind = folder.stamp(&name)?.map(|stamp| stamp.kind);
            match kind {
                Some(FileKind::File) => {
                    let read = match self.read.get(&inner) {
                        Some(bytes) => Some(bytes.to_vec()),
                        None => folder.read(&name)?.map(|(bytes, _)| bytes),
                    };
                    let bytes = read.unwrap_or_default();
                    if inner == format!("{PROJECT_SETTINGS}/{PROMPTS}/{name}") {
                        let number = hex(&Sha256::digest(&bytes));
                        self.prompts.insert(inner.clone(), number);
                    }
                    self.add("file", &inner, &bytes)?;
                }
                Some(FileKind::Folder) if depth < DEEPEST => {
                    if let Some(child) = folder.child(&name)? {
                        self.folder(&child, &inner, depth + 1)?;
                    }
                }
                Some(FileKind::Folder) => return Err(too_much()),
                // Links and pipes are never followed or read there, so only their existence is recorded.
                Some(FileKind::Link | FileKind::Other) => self.add("other", &inner, &[])?,
                None => {}
            }
        }
        for odd in folder.odd_names()? {
            self.add("odd", &format!("{path}/{}", odd.display()), &[])?;
        }
        Ok(())
    }

    fn script(&mut self, file: &Path) -> Result {
        let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
            return Ok(());
        };
        let read = match Dir::open_root(folder)? {
            Some(dir) => dir.read(&name.to_string_lossy())?,
            None => None,
        };
        let bytes = read.map(|(bytes, _)| bytes);
        let kind = if let Some(bytes) = &bytes {
            self.scripts.insert(hex(&Sha256::digest(bytes)));
            "script"
        } else {
            "missing"
        };
        self.add(
            kind,
            &file.display().to_string(),
            bytes.as_deref().unwrap_or_default(),
        )
    }

    /// Lengths precede texts, so that different contents never produce the same bytes.
    fn add(&mut self, kind: &str, path: &str, bytes: &[u8]) -> Result {
        self.bytes += bytes.len();
        if self.files.len() >= MOST_FILES || self.bytes > MOST_BYTES {
            return Err(too_much());
        }
        for part in [kind.as_bytes(), path.as_bytes(), bytes] {
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            self.hash.update(length.to_le_bytes());
            self.hash.update(part);
        }
        self.files.push(path.to_owned());
        Ok(())
    }
}

fn too_much() -> AppError {
    AppError::refused(format!(
        "the project's {PROJECT_SETTINGS} folder holds more than settings: at most {MOST_FILES} files, {} MiB, \
         {DEEPEST} folders deep",
        MOST_BYTES / 1024 / 1024
    ))
    .hint("keep settings, presets and scripts there, and nothing else")
}

//! Presets from files: `teams/*.md` beside the user's settings and in the project's `.teamster`.
//!
//! A project's preset replaces the user's preset of the same name, which replaces the built-in one. The bytes are kept,
//! so that exactly what was read is trusted.

use std::path::{Path, PathBuf};

use teamster_fs::layout::{Layout, PROJECT_SETTINGS, TEAMS};
use teamster_fs::{Dir, FileKind, FsError};
use teamster_run::preset::{Agents, Preset, builtin};

use crate::config::{Config, resolve_script};
use crate::error::{AppError, Result};
use crate::prompts::PromptFiles;

/// The maximum size of a preset file, in bytes.
const LONGEST: usize = 256 * 1024;
/// The maximum number of presets in a folder.
const MOST: usize = 500;

/// A preset and the file it was read from.
#[derive(Clone, Debug)]
pub struct PresetFile {
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub preset: Preset,
    is_of_project: bool,
}

/// Presets that were read from files.
#[derive(Clone, Debug, Default)]
pub struct Presets {
    /// The user's first, then the project's, each in name order.
    pub files: Vec<PresetFile>,
    /// The problems, each with file and line.
    pub faults: Vec<String>,
    /// The project's files as they were read, by their paths relative to the project.
    bytes: Vec<(String, Vec<u8>)>,
    /// The project's prompt templates.
    prompts: PromptFiles,
}

impl PresetFile {
    /// Returns the source of the preset, for `--json`.
    pub fn source(&self) -> &'static str {
        if self.is_of_project {
            "project"
        } else {
            "user"
        }
    }

    /// Returns every name in it that could denote a program, and where it comes from.
    pub fn agent_names(&self) -> impl Iterator<Item = (&str, &str)> {
        let leader = self.preset.leader.iter();
        let leader = leader.map(|one| ("leader", Some(&one.agent), one.provider.as_ref()));
        let members = self.preset.members.iter();
        let members =
            members.map(|one| (one.name.as_str(), Some(&one.agent), one.provider.as_ref()));
        leader.chain(members).flat_map(|(who, agent, provider)| {
            let agents = agent.into_iter().chain(provider);
            agents.map(move |agent| (who, agent.as_str()))
        })
    }
}

impl Presets {
    /// Reads the presets of the user and of the project.
    pub fn load(layout: &Layout, config: &Config) -> Result<Self> {
        let mut presets = Self::default();
        let agents = agents(config);
        let folder = layout.user_folder().join(TEAMS);
        // The user may use links there; a project is not trusted.
        let real = folder.canonicalize().unwrap_or(folder);
        if let Some(dir) = Dir::open_root(&real)? {
            presets.take(&dir, &agents, Some(layout.user_folder()))?;
        }
        presets.take_project(layout, &agents)?;
        Ok(presets)
    }

    /// Reads only the presets of the project.
    pub fn of_project(layout: &Layout, config: &Config) -> Result<Self> {
        let mut presets = Self::default();
        presets.take_project(layout, &agents(config))?;
        Ok(presets)
    }

    /// Returns all presets, in the order in which a later one replaces an earlier one.
    pub fn all(&self) -> Vec<Preset> {
        let own = self.files.iter().map(|file| file.preset.clone());
        builtin().into_iter().chain(own).collect()
    }

    /// Returns an error when one of them cannot be read.
    pub fn check(&self) -> Result {
        if self.faults.is_empty() {
            return Ok(());
        }
        Err(AppError::refused(self.faults.join("\n"))
            .hint("fix the file, or move it out of its folder"))
    }

    /// Returns the presets of the project.
    pub fn of_the_project(&self) -> impl Iterator<Item = &PresetFile> {
        self.files.iter().filter(|file| file.is_of_project)
    }

    /// Returns the project's files as they were read, including its prompt templates.
    pub fn read(&self) -> impl Iterator<Item = (String, &[u8])> {
        let files = self.bytes.iter();
        let files = files.map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        let files = files.chain(self.prompts.project_files());
        files.map(|(name, bytes)| (name.to_owned(), bytes))
    }

    /// Returns the project's prompt templates.
    pub fn prompts(&self) -> &PromptFiles {
        &self.prompts
    }

    fn take_project(&mut self, layout: &Layout, agents: &Agents) -> Result {
        self.prompts = PromptFiles::of_project(layout)?;
        let Some(project) = Dir::open_root(&layout.project)? else {
            return Ok(());
        };
        let folder = project.child(PROJECT_SETTINGS);
        let folder = folder.and_then(|settings| match settings {
            Some(settings) => settings.child(TEAMS),
            None => Ok(None),
        });
        match folder {
            Ok(Some(folder)) => self.take(&folder, agents, None),
            Ok(None) => Ok(()),
            // It is not a folder, so the project has no presets.
            Err(error) => {
                tracing::debug!("no presets of the project are read: {error}");
                Ok(())
            }
        }
    }

    /// Adds every preset of a folder: the user's, whose files are in `base`, or the project's.
    fn take(&mut self, folder: &Dir, agents: &Agents, base: Option<&Path>) -> Result {
        let mut names: Vec<String> = folder.entries()?.into_iter().map(|e| e.name).collect();
        names.retain(|name| is_preset(name));
        names.sort_unstable();
        if names.len() > MOST {
            return Err(AppError::refused(format!(
                "{} holds {} presets; the limit is {MOST}",
                folder.path().display(),
                names.len()
            )));
        }
        let first = self.files.len();
        for name in names {
            let path = folder.join(&name);
            let fault = |why: String| format!("{}:1: {why}", path.display());
            let bytes = match content(folder, &name, base.is_some()) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(error) => {
                    self.faults.push(fault(error.to_string()));
                    continue;
                }
            };
            let read = text(&bytes).map_err(fault).and_then(|text| {
                Preset::parse(&path, text, agents).map_err(|faults| faults.to_string())
            });
            match read {
                Ok(preset) => self.add(path, preset, base, first),
                Err(why) => self.faults.push(why),
            }
            if base.is_none() {
                let name = format!("{PROJECT_SETTINGS}/{TEAMS}/{name}");
                self.bytes.push((name, bytes));
            }
        }
        Ok(())
    }

    /// Adds a preset. Two files of one folder with the same preset are an error, because their order would decide which
    /// one counts.
    fn add(&mut self, path: PathBuf, mut preset: Preset, base: Option<&Path>, first: usize) {
        let same = self.files[first..]
            .iter()
            .find(|file| file.preset.name == preset.name);
        if let Some(same) = same {
            self.faults.push(format!(
                "{}:1: {} is also called {:?}; give one of them another name",
                path.display(),
                same.path.display(),
                preset.name
            ));
            return;
        }
        if let Some(base) = base {
            let members = preset.members.iter_mut();
            let agents =
                members.flat_map(|one| Some(&mut one.agent).into_iter().chain(&mut one.provider));
            let leader = preset.leader.iter_mut();
            let leader =
                leader.flat_map(|one| Some(&mut one.agent).into_iter().chain(&mut one.provider));
            for word in agents.chain(leader) {
                *word = resolve_script(base, word);
            }
        }
        self.files.push(PresetFile {
            path,
            preset,
            is_of_project: base.is_none(),
        });
    }
}

fn is_preset(name: &str) -> bool {
    !name.starts_with('.')
        && Path::new(name)
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("md"))
}

/// Returns the content of a file; `None` when it is something else, such as a folder, or is gone.
pub(crate) fn content(
    folder: &Dir,
    name: &str,
    follow: bool,
) -> std::result::Result<Option<Vec<u8>>, FsError> {
    let read = match folder.stamp(name)?.map(|stamp| stamp.kind) {
        Some(FileKind::Link) if follow => {
            let real = folder
                .join(name)
                .canonicalize()
                .inspect_err(|error| tracing::debug!("{name} is a broken link: {error}"))
                .ok();
            let parts = real
                .as_deref()
                .and_then(|real| Some((real.parent()?, real.file_name()?.to_str()?)));
            match parts {
                Some((parent, name)) => match Dir::open_root(parent)? {
                    Some(dir) => dir.read(name)?,
                    None => None,
                },
                None => None,
            }
        }
        // Reading something that is not a file yields the appropriate error.
        Some(FileKind::File | FileKind::Other | FileKind::Link) => folder.read(name)?,
        Some(FileKind::Folder) | None => None,
    };
    Ok(read.map(|(bytes, _)| bytes))
}

fn text(bytes: &[u8]) -> std::result::Result<&str, String> {
    if bytes.len() > LONGEST {
        return Err(format!(
            "it has {} bytes; a preset has at most {LONGEST}",
            bytes.len()
        ));
    }
    std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// Returns the agents that a preset may name.
fn agents(config: &Config) -> Agents {
    let roles = config.roles.iter();
    let agents = roles.fold(Agents::default(), |all, role| all.with_role(&role.name));
    let providers = config.providers.iter();
    providers.fold(agents, |all, provider| all.with_provider(&provider.name))
}

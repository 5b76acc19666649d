//! Prompt templates from files: `prompts/*.md` beside the user's settings and in the project's `.teamster`.
//!
//! A project's template replaces the user's template of the same name, which replaces the built-in one. Those of a
//! project count only after the user accepted them. The bytes are kept, so that exactly what was read is trusted.

use teamster_fs::Dir;
use teamster_fs::layout::{Layout, PROJECT_SETTINGS, PROMPTS};
use teamster_prompts::{Override, PromptError, PromptKind, Prompts};

use crate::error::{AppError, Result};
use crate::presets::content;

/// The maximum size of a template, in bytes.
const LARGEST: usize = 256 * 1024;

/// Templates that were read from files.
#[derive(Clone, Debug, Default)]
pub struct PromptFiles {
    /// The user's first, then the project's.
    overrides: Vec<Override>,
    /// The project's files as they were read, by their paths relative to the project.
    of_project: Vec<(String, Vec<u8>)>,
    /// The error of a file that is not text.
    fault: Option<PromptError>,
}

impl PromptFiles {
    /// Reads the templates of the user and of the project.
    pub fn load(layout: &Layout) -> Result<Self> {
        let mut files = Self::default();
        let folder = layout.user_folder().join(PROMPTS);
        // The user may use links there; a project is not trusted.
        let real = folder.canonicalize().unwrap_or(folder);
        if let Some(dir) = Dir::open_root(&real)? {
            files.take(&dir, false)?;
        }
        files.take_project(layout)?;
        Ok(files)
    }

    /// Reads only the templates of the project.
    pub fn of_project(layout: &Layout) -> Result<Self> {
        let mut files = Self::default();
        files.take_project(layout)?;
        Ok(files)
    }

    /// Returns the project's files as they were read.
    pub fn project_files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.of_project.iter();
        files.map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// Compiles the templates. The error names file, line and reason.
    pub fn prompts(self) -> std::result::Result<Prompts, PromptError> {
        match self.fault {
            Some(fault) => Err(fault),
            None => Prompts::new(self.overrides),
        }
    }

    /// Compiles the templates, or returns what has to be fixed before anything starts.
    pub fn check(self) -> Result<Prompts> {
        self.prompts().map_err(|error| {
            AppError::refused(error.to_string()).hint("fix the file, or move it out of its folder")
        })
    }

    fn take_project(&mut self, layout: &Layout) -> Result {
        let Some(project) = Dir::open_root(&layout.project)? else {
            return Ok(());
        };
        // It is not a folder, so the project has no templates.
        if let Ok(Some(settings)) = project.child(PROJECT_SETTINGS)
            && let Ok(Some(folder)) = settings.child(PROMPTS)
        {
            self.take(&folder, true)?;
        }
        Ok(())
    }

    fn take(&mut self, folder: &Dir, is_of_project: bool) -> Result {
        for kind in PromptKind::ALL {
            let name = kind.file_name();
            let Some(bytes) = content(folder, name, !is_of_project)? else {
                continue;
            };
            let file = folder.join(name).display().to_string();
            match text(&bytes) {
                Ok(text) => self.overrides.push(Override { kind, file, text }),
                Err(reason) => {
                    self.fault.get_or_insert(PromptError {
                        file,
                        line: None,
                        reason,
                    });
                }
            }
            if is_of_project {
                let name = format!("{PROJECT_SETTINGS}/{PROMPTS}/{name}");
                self.of_project.push((name, bytes));
            }
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> std::result::Result<String, String> {
    if bytes.len() > LARGEST {
        return Err(format!(
            "it has {} bytes; a template has at most {LARGEST}",
            bytes.len()
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok(text.to_owned())
}

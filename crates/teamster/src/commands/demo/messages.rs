//! The demo's texts: the equivalent command, what will happen, and the result.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use teamster_app::env_vars;
use teamster_isolate::find_program;
use teamster_types::shell;
use teamster_workers::launch::own_program;

use super::{TEAM, files, is_foreign};

/// The demo's arguments to `teamster run`, without the team's name.
pub const RUN: [&str; 13] = [
    "--provider",
    "player=scripted:demo/script.toml",
    "--leader",
    "player",
    "--verify",
    "sh test.sh",
    "--verify",
    "sh check.sh",
    "--approve",
    "auto",
    "--yes",
    "3:player,1:player:reviewer",
    "make the till work",
];

/// Folders relative to the project, so that the command also works in a copy of it.
const PLACES: [(&str, &str); 2] = [
    ("TEAMSTER_CLAUDE_DIR", "claude"),
    ("XDG_CONFIG_HOME", "config"),
];

/// The texts about one demo.
pub struct DemoMessages {
    folder: PathBuf,
    pub project: PathBuf,
    /// The equivalent command.
    pub command: String,
    /// The command that resumes the run if it is stopped.
    pub resume: String,
    /// The command that shows the run afterwards.
    studio: String,
}

impl DemoMessages {
    pub fn new(folder: &Path) -> Self {
        let project = folder.join(files::PROJECT);
        let mut start = "TEAMSTER_PROJECT=\"$PWD\"".to_owned();
        for (name, inner) in PLACES {
            start = format!("{start} {name}=../{inner}");
        }
        let start = format!("{start} {}", teamster());
        let args: Vec<String> = RUN.iter().map(|word| shell::word(word)).collect();
        let enter = format!("cd {}", shell::word(&project.display().to_string()));
        Self {
            command: format!("{start} run {}", args.join(" ")),
            resume: format!("{enter} && {start} run --resume {TEAM}"),
            studio: format!("{enter} && {start} studio"),
            folder: folder.to_owned(),
            project,
        }
    }

    /// Returns the environment of the equivalent command.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let kept = std::env::vars_os().filter(|(name, _)| !name.to_str().is_some_and(is_foreign));
        let mut environment: Vec<(OsString, OsString)> = kept.collect();
        environment.retain(|(name, _)| name != "XDG_CONFIG_HOME");
        environment.push(("TEAMSTER_PROJECT".into(), self.project.clone().into()));
        for (name, inner) in PLACES {
            environment.push((name.into(), self.folder.join(inner).into()));
        }
        environment
    }

    pub fn beginning(&self, only_made: bool) -> String {
        let enter = shell::word(&self.project.display().to_string());
        let what = if only_made {
            "Run a team on it:"
        } else {
            "A leader, three workers and a reviewer will fix it. To do the same by hand:"
        };
        let stopped = if only_made {
            String::new()
        } else {
            format!(
                "To continue after Ctrl-C or a crash:\n\n  {}\n\n",
                self.resume
            )
        };
        format!(
            "A small project with failing tests is in {}\n{what}\n\n  cd {enter}\n  {}\n\n{stopped}",
            self.project.display(),
            self.command
        )
    }

    pub fn end(&self, report: &Path, was_shown: bool) -> String {
        let again = if was_shown {
            format!(
                "To look at it again, at any moment of the run:\n\n  {}\n\n",
                self.studio
            )
        } else {
            String::new()
        };
        let project = shell::word(&self.project.display().to_string());
        format!(
            "\nThe report is {}\nThe work is on main: `git -C {project} log --graph --oneline` shows the merges, \
             `sh {project}/test.sh` passes.\n{again}Nothing is running any more; everything is in {}\n",
            report.display(),
            self.folder.display()
        )
    }
}

/// Returns how to call this program: by its name if `PATH` finds it, else by its path.
fn teamster() -> String {
    let own = own_program();
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let real = |path: &Path| path.canonicalize().ok();
    match find_program("teamster", &path) {
        Some(found) if real(&found).is_some() && real(&found) == real(&own) => {
            "teamster".to_owned()
        }
        _ => shell::word(&own.display().to_string()),
    }
}

//! Codex: `exec --json`, the prompt on its standard input, a sandbox around its commands.
//!
//! The npm package's `codex` is a Node program that starts the real one; killing it leaves that one behind. So the
//! real one is looked for and started itself.

mod read;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::detect;
use crate::driver::{
    AgentInput, CannotLaunch, Driver, Interrupt, Job, Launch, OUTER_SESSION_VARS, SoftSignal,
    as_words, whose_work,
};
use crate::permission::Rule;
use crate::reader::OutputReader;

/// Codex.
#[derive(Clone, Copy, Debug, Default)]
pub struct CodexDriver;

const SECRETS: [&str; 4] = [
    "AZURE_OPENAI_API_KEY",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "OPENAI_API_KEY",
];

impl Driver for CodexDriver {
    fn provider(&self) -> &'static str {
        "codex"
    }

    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
        let program = detect::native_codex(&detect::program("codex", job.path)?);
        let mut args: Vec<OsString> = ["exec", "--json", "--skip-git-repo-check", "-C"]
            .map(Into::into)
            .to_vec();
        args.push(job.worktree.into());
        args.extend(["-s".into(), "workspace-write".into()]);
        if let Some(git_dir) = job.git_dir {
            // In its sandbox `.git` is read-only: without these an agent could not commit in a worktree.
            for folder in git_folders(git_dir, job.worktree) {
                args.extend(["--add-dir".into(), folder]);
            }
        }
        if job.temp.is_some() {
            // It has a place for temp files, so it need not leave its traces in the one that all share.
            args.extend([
                "-c".into(),
                "sandbox_workspace_write.exclude_slash_tmp=true".into(),
            ]);
        }
        args.extend(["-c".into(), trust(job.worktree)?]);
        if job.permissions.shell != Rule::Allow {
            args.extend(["--disable".into(), "shell_tool".into()]);
        }
        if let Some(model) = job.model {
            args.extend(["-m".into(), model.into()]);
        }
        if let Some(resume) = &job.resume {
            args.extend(["resume".into(), resume.session.into()]);
        }
        args.push("-".into());
        Ok(Launch {
            program,
            args,
            set: whose_work(job),
            unset: OUTER_SESSION_VARS.to_vec(),
            secrets: SECRETS.map(str::to_owned).to_vec(),
            input: AgentInput::Text(as_words(job.prompt).into_owned().into_bytes()),
        })
    }

    fn reader(&self, job: &Job<'_>) -> Box<dyn OutputReader> {
        Box::new(read::CodexReader::new(job))
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Signal(SoftSignal::Interrupt)
    }
}

/// The repository's `.git` and the part of it that belongs to this worktree, which git may have named otherwise than
/// the folder: two teams can have a `worker-1`.
fn git_folders(git_dir: &Path, worktree: &Path) -> Vec<OsString> {
    let named = worktree
        .file_name()
        .map(|name| git_dir.join("worktrees").join(name));
    let own = own_git_dir(worktree).or(named);
    std::iter::once(git_dir.to_owned())
        .chain(own)
        .map(PathBuf::into_os_string)
        .collect()
}

/// What the `.git` file of a linked worktree says: `gitdir: …`.
fn own_git_dir(worktree: &Path) -> Option<PathBuf> {
    let dir = teamster_fs::Dir::open_root(worktree).ok()??;
    let (bytes, _) = dir.read(".git").ok()??;
    let text = String::from_utf8(bytes).ok()?;
    let path = text.strip_prefix("gitdir:")?.trim();
    (!path.is_empty()).then(|| worktree.join(path))
}

/// `projects={"DIR"={trust_level="trusted"}}`: a folder that nobody has vouched for yet would change its settings. A
/// dotted key would be cut at the dots of the path.
fn trust(worktree: &Path) -> Result<OsString, CannotLaunch> {
    let Some(path) = worktree.to_str() else {
        return Err(CannotLaunch::Unfit(format!(
            "codex cannot work in a folder whose name is not UTF-8: {}",
            worktree.display()
        )));
    };
    // A text is quoted in JSON as it is in TOML.
    let key = serde_json::Value::String(path.to_owned());
    Ok(format!("projects={{{key}={{trust_level=\"trusted\"}}}}").into())
}

//! Installs teamster's MCP server in the settings of the user's own client, and removes it again to the byte.
//!
//! Every other byte of the settings is preserved. A backup is kept beside them, which shows at removal what they were
//! before if the text alone does not (was `mcpServers` missing, or empty?).

use std::path::{Path, PathBuf};
use std::time::Duration;

use teamster_claude::install::{diff, put_server, take_server};
use teamster_fs::{Dir, Durability, UserFile};
use teamster_types::Time;

use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};

/// How long to wait for another installation to finish.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often an edit is retried because another process wrote the settings meanwhile.
const TRIES: usize = 16;
/// The mode of new settings, which may hold secrets.
const PRIVATE: u32 = 0o600;

/// A client that can start teamster's MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolClient {
    /// Claude Code, for every project or for this one.
    Claude {
        /// Whether only the project's settings are changed.
        in_project: bool,
    },
    /// Codex CLI.
    Codex,
    /// Gemini CLI.
    Gemini,
}

/// What was done, or would be done without a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInstall {
    /// The path of the settings.
    pub settings: PathBuf,
    /// Whether anything was changed.
    pub changed: bool,
    /// The change of the text.
    pub diff: String,
    /// The path of the backup.
    pub backup: Option<PathBuf>,
}

impl ToolClient {
    /// Returns the path of the settings in which the client lists its servers.
    fn settings(self, app: &App) -> Result<PathBuf> {
        let home = || {
            env_vars::get("HOME")
                .map(PathBuf::from)
                .ok_or_else(|| AppError::new(ErrorKind::Unreachable, "HOME is not set"))
        };
        let folder = |variable: &str, name: &str| match env_vars::get(variable) {
            Some(folder) => Ok(PathBuf::from(folder)),
            None => home().map(|home| home.join(name)),
        };
        Ok(match self {
            Self::Claude { in_project: true } => app.layout.project.join(".mcp.json"),
            Self::Claude { in_project: false } => match env_vars::get("CLAUDE_CONFIG_DIR") {
                Some(folder) => PathBuf::from(folder).join(".claude.json"),
                None => home()?.join(".claude.json"),
            },
            Self::Codex => folder("CODEX_HOME", ".codex")?.join("config.toml"),
            Self::Gemini => match env_vars::get("GEMINI_CLI_HOME") {
                Some(home) => PathBuf::from(home).join(".gemini/settings.json"),
                None => home()?.join(".gemini/settings.json"),
            },
        })
    }

    fn add_server(self, text: &str, program: &str) -> std::result::Result<String, String> {
        match self {
            Self::Codex => toml_server::add_server(text, program),
            Self::Claude { .. } | Self::Gemini => {
                put_server(text, program).map_err(|unfit| unfit.to_string())
            }
        }
    }

    /// Returns the settings without teamster's server; `None` when nothing else is in them.
    fn remove_server(self, text: &str) -> std::result::Result<Option<String>, String> {
        match self {
            Self::Codex => Ok(toml_server::remove_server(text)),
            Self::Claude { .. } | Self::Gemini => {
                take_server(text).map_err(|unfit| unfit.to_string())
            }
        }
    }
}

/// Adds teamster's server to the settings of a client, which will start `program mcp`. Repeating it changes nothing.
pub fn install(
    app: &App,
    client: ToolClient,
    program: &str,
    dry_run: bool,
    now: Time,
) -> Result<ServerInstall> {
    app.must_be_a_person("registering tools with a client")?;
    let settings = client.settings(app)?;
    if let (Some(folder), false) = (settings.parent(), dry_run) {
        Dir::open_or_create_root(folder)?;
    }
    let file = UserFile::find(&settings)?;
    let _lock = match &file {
        Some(file) => Some(file.lock(PATIENCE)?.ok_or_else(|| busy(&settings))?),
        None => None,
    };
    for _ in 0..TRIES {
        let there = match &file {
            Some(file) => file.read()?,
            None => None,
        };
        let old = text_of(&settings, there.as_ref())?;
        let new = client
            .add_server(old.as_deref().unwrap_or_default(), program)
            .map_err(|why| cannot_edit(&settings, &why))?;
        let mut done = ServerInstall {
            settings: settings.clone(),
            ..ServerInstall::default()
        };
        if old.as_deref() == Some(new.as_str()) {
            return Ok(done);
        }
        done.diff = diff(&settings.display().to_string(), old.as_deref(), Some(&new));
        let Some(file) = file.as_ref().filter(|_| !dry_run) else {
            return Ok(done);
        };
        if let Some(old) = &old {
            done.backup = save_backup(&settings, old, now)?;
        }
        if file.replace(there.as_ref(), new.as_bytes(), PRIVATE)? {
            done.changed = true;
            return Ok(done);
        }
    }
    Err(busy(&settings))
}

/// Removes teamster's server from the settings of a client, and nothing else.
pub fn uninstall(app: &App, client: ToolClient, dry_run: bool) -> Result<ServerInstall> {
    app.must_be_a_person("removing tools from a client")?;
    let settings = client.settings(app)?;
    let mut done = ServerInstall {
        settings: settings.clone(),
        ..ServerInstall::default()
    };
    let Some(file) = UserFile::find(&settings)? else {
        return Ok(done);
    };
    let _lock = file.lock(PATIENCE)?.ok_or_else(|| busy(&settings))?;
    for _ in 0..TRIES {
        let there = file.read()?;
        let (Some(was), Some(old)) = (&there, text_of(&settings, there.as_ref())?) else {
            return Ok(done);
        };
        let without = client
            .remove_server(&old)
            .map_err(|why| cannot_edit(&settings, &why))?;
        if without.as_deref() == Some(old.as_str()) {
            return Ok(done);
        }
        let proof = original(client, &settings, &old)?;
        let new = match &proof {
            Some((_, original)) => Some(original.clone()),
            None if file.is_link() => without.or_else(|| Some(String::new())),
            None => without,
        };
        done.diff = diff(&settings.display().to_string(), Some(&old), new.as_deref());
        if dry_run {
            return Ok(done);
        }
        let is_done = match &new {
            Some(new) => file.replace(Some(was), new.as_bytes(), PRIVATE)?,
            None => file.remove(was)?,
        };
        if is_done {
            done.changed = true;
            if let Some((backup, _)) = proof {
                remove(&backup)?;
            }
            return Ok(done);
        }
    }
    Err(busy(&settings))
}

fn text_of(path: &Path, was: Option<&teamster_fs::FileSnapshot>) -> Result<Option<String>> {
    let text = was
        .map(|was| String::from_utf8(was.bytes.clone()))
        .transpose();
    text.map_err(|_| cannot_edit(path, "it is not UTF-8"))
}

fn cannot_edit(settings: &Path, why: &str) -> AppError {
    AppError::refused(format!("{} is not edited: {why}", settings.display()))
        .hint("correct that and try again, or add the server `teamster mcp` by the client's own command; nothing was changed")
}

fn busy(settings: &Path) -> AppError {
    AppError::new(
        ErrorKind::Conflict,
        format!("another program keeps writing {}", settings.display()),
    )
    .hint("nothing was changed; try again in a moment")
}

fn place(settings: &Path) -> Option<(&Path, &str)> {
    Some((settings.parent()?, settings.file_name()?.to_str()?))
}

/// Backs up the current settings beside them.
fn save_backup(settings: &Path, text: &str, now: Time) -> Result<Option<PathBuf>> {
    let Some((folder, name)) = place(settings) else {
        return Ok(None);
    };
    let Some(dir) = Dir::open_root(folder)? else {
        return Ok(None);
    };
    let backup = teamster_fs::layout::backup_file(name, now);
    dir.replace(&backup, text.as_bytes(), Durability::Durable)?;
    Ok(Some(dir.join(&backup)))
}

/// Returns the backup that shows what the settings were: adding the server to it yields the current settings.
fn original(client: ToolClient, settings: &Path, text: &str) -> Result<Option<(PathBuf, String)>> {
    let Some((folder, name)) = place(settings) else {
        return Ok(None);
    };
    let Some(dir) = Dir::open_root(folder)? else {
        return Ok(None);
    };
    for entry in dir.entries()? {
        if !teamster_fs::layout::is_backup_of(&entry.name, name) {
            continue;
        }
        let Some((bytes, _)) = dir.read(&entry.name)? else {
            continue;
        };
        let Ok(before) = String::from_utf8(bytes) else {
            continue;
        };
        let program = program_in(client, text);
        let with = program.and_then(|program| client.add_server(&before, &program).ok());
        if with.as_deref() == Some(text) {
            return Ok(Some((dir.join(&entry.name), before)));
        }
    }
    Ok(None)
}

/// Returns the program that these settings start teamster's server with.
fn program_in(client: ToolClient, text: &str) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}');
    match client {
        ToolClient::Codex => {
            let settings: toml::Table = toml::from_str(text).ok()?;
            let server = settings.get("mcp_servers")?.get("teamster")?;
            Some(server.get("command")?.as_str()?.to_owned())
        }
        ToolClient::Claude { .. } | ToolClient::Gemini => {
            let settings: serde_json::Value = serde_json::from_str(text).ok()?;
            let command = settings.pointer("/mcpServers/teamster/command")?;
            Some(command.as_str()?.to_owned())
        }
    }
}

fn remove(backup: &Path) -> Result {
    if let Some((folder, name)) = place(backup)
        && let Some(dir) = Dir::open_root(folder)?
    {
        dir.remove(name)?;
    }
    Ok(())
}

/// Teamster's server in settings in TOML: one table at the end.
mod toml_server {
    const HEADER: &str = "[mcp_servers.teamster]";

    fn table(program: &str) -> String {
        // JSON strings are quoted like TOML strings.
        let program = serde_json::Value::from(program);
        format!("{HEADER}\ncommand = {program}\nargs = [\"mcp\"]\n")
    }

    /// Returns the settings with teamster's server as their last table.
    pub(super) fn add_server(text: &str, program: &str) -> Result<String, String> {
        let settings: toml::Table =
            toml::from_str(text).map_err(|error| format!("it is not TOML: {}", error.message()))?;
        let there = settings
            .get("mcp_servers")
            .and_then(|servers| servers.get("teamster"));
        if there.is_some() {
            let without = remove_server(text).unwrap_or_default();
            if without == text {
                return Err(
                    "`mcp_servers.teamster` exists and was not created by `teamster install`"
                        .to_owned(),
                );
            }
            let known = there.and_then(|server| server.get("command")?.as_str());
            return match known {
                Some(known) if known == program => Ok(text.to_owned()),
                _ => add_server(&without, program),
            };
        }
        let gap = match text {
            "" => "",
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        let new = format!("{text}{gap}{}", table(program));
        match toml::from_str::<toml::Table>(&new) {
            Ok(_) => Ok(new),
            Err(error) => Err(format!(
                "teamster's table cannot be added to it: {}",
                error.message()
            )),
        }
    }

    /// Returns the settings without teamster's table; `None` when nothing else is in them.
    pub(super) fn remove_server(text: &str) -> Option<String> {
        let Some(start) = text
            .match_indices(HEADER)
            .map(|(at, _)| at)
            .find(|at| *at == 0 || text[..*at].ends_with('\n'))
        else {
            return Some(text.to_owned());
        };
        let body = &text[start + HEADER.len()..];
        let mut lines = body.split_inclusive('\n').skip(1);
        let is_ours = lines
            .next()
            .is_some_and(|line| line.starts_with("command = "))
            && lines.next() == Some("args = [\"mcp\"]\n");
        if !is_ours {
            return Some(text.to_owned());
        }
        let length: usize = body.split_inclusive('\n').take(3).map(str::len).sum();
        let before = text[..start]
            .strip_suffix("\n\n")
            .map_or(&text[..start], |kept| &text[..=kept.len()]);
        let whole = format!("{before}{}", &text[start + HEADER.len() + length..]);
        (!whole.is_empty()).then_some(whole)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn table_comes_in_once_and_goes_without_a_trace() {
            for text in [
                "model = \"x\"\n",
                "# mine\n[mcp_servers.other]\ncommand = \"y\"\n",
                "a = 1\n\n",
            ] {
                let with = add_server(text, "/bin/teamster").unwrap();
                assert_eq!(add_server(&with, "/bin/teamster").unwrap(), with);
                assert_eq!(remove_server(&with).as_deref(), Some(text), "{with}");
                let later = format!("{with}\n[more]\nb = 2\n");
                let left = remove_server(&later).unwrap();
                assert_eq!(left, format!("{text}\n[more]\nb = 2\n"));
            }
            let alone = add_server("", "/bin/teamster").unwrap();
            assert_eq!(remove_server(&alone), None);
        }

        #[test]
        fn settings_without_a_place_for_it_are_not_edited() {
            for text in [
                "mcp_servers = { other = { command = \"y\" } }\n",
                "a = ",
                "[mcp_servers.teamster]\nurl = \"https://x\"\n",
            ] {
                assert!(add_server(text, "/bin/teamster").is_err(), "{text}");
            }
            let moved = add_server("a = 1\n", "/old/teamster").unwrap();
            let moved = add_server(&moved, "/new/teamster").unwrap();
            assert_eq!(moved, add_server("a = 1\n", "/new/teamster").unwrap());
        }
    }
}

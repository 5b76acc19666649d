//! A plugin for the client: teamster's hooks, tools, three commands and a skill, in one folder that can be copied or
//! shared.
//!
//! The hooks and the MCP server call a launcher in the plugin, not the binary: a shared folder must not contain a path
//! of one machine. The launcher uses the `teamster` on `PATH`, else the one that exported the plugin. It is run by `sh`
//! with arguments, so neither its path nor its mode matters. The client calls a plugin's tool by the names of both the
//! plugin and the server: `mcp__plugin_teamster_teamster__run_start`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use teamster_fs::{Dir, random_hex, remove_tree};
use teamster_store::{StoreError, StoreErrorKind};
use teamster_types::shell;

use crate::install::hooks;

const NAME: &str = "teamster";
const MANIFEST: &str = "plugin.json";
const MANIFEST_FOLDER: &str = ".claude-plugin";
const LAUNCHER: &str = "${CLAUDE_PLUGIN_ROOT}/bin/teamster";

const READABLE: u32 = 0o666;
const RUNNABLE: u32 = 0o777;

/// What to export, and where to.
#[derive(Clone, Copy, Debug)]
pub struct ExportRequest<'a> {
    /// The plugin's folder.
    pub folder: &'a Path,
    /// The binary that exports it.
    pub program: &'a str,
    /// The version of that binary.
    pub version: &'a str,
    /// Whether to write into a folder that contains other files.
    pub force: bool,
}

/// The result of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOutcome {
    /// The plugin's folder.
    pub folder: PathBuf,
    /// Its files, relative to that folder.
    pub files: Vec<String>,
}

struct PluginFile {
    path: &'static str,
    content: String,
    mode: u32,
}

/// Writes the plugin. A new folder appears completely or not at all; in an existing one each file is replaced
/// atomically, and the manifest, without which it is no plugin, is written last.
pub fn export(request: &ExportRequest<'_>) -> Result<ExportOutcome, StoreError> {
    let files = files(request)?;
    match Dir::open_root(request.folder)? {
        Some(dir) => {
            if !request.force && !is_ours_to_write(&dir)? {
                return Err(StoreError::refused(format!(
                    "{} holds something other than a plugin that teamster created",
                    request.folder.display()
                ))
                .hint(
                    "name a new or empty folder, or replace what has the same name with --force",
                ));
            }
            write(&dir, &files)?;
        }
        None => write_new(request.folder, &files)?,
    }
    Ok(ExportOutcome {
        folder: request.folder.to_owned(),
        files: files.iter().map(|file| file.path.to_owned()).collect(),
    })
}

fn files(request: &ExportRequest<'_>) -> Result<Vec<PluginFile>, StoreError> {
    let text = |path, content: &str| PluginFile {
        path,
        content: content.to_owned(),
        mode: READABLE,
    };
    let launcher = include_str!("plugin/teamster.sh");
    Ok(vec![
        PluginFile {
            path: "bin/teamster",
            content: launcher.replace("@PROGRAM@", &shell::word(request.program)),
            mode: RUNNABLE,
        },
        text("commands/team.md", include_str!("plugin/team.md")),
        text(
            "commands/team-status.md",
            include_str!("plugin/team-status.md"),
        ),
        text(
            "commands/team-approve.md",
            include_str!("plugin/team-approve.md"),
        ),
        text("skills/teamster/SKILL.md", include_str!("plugin/SKILL.md")),
        text("README.md", include_str!("plugin/README.md")),
        text(".mcp.json", &pretty(&servers_file())?),
        text("hooks/hooks.json", &pretty(&hooks_file())?),
        text(
            ".claude-plugin/plugin.json",
            &pretty(&manifest(request.version))?,
        ),
    ])
}

fn manifest(version: &str) -> Value {
    json!({
        "name": NAME,
        "version": version,
        "description": "Shows every teammate, task, message and death of a session to viewers, and lets the session lead a team of agents",
        "author": { "name": NAME },
        "license": "MIT OR Apache-2.0",
    })
}

/// Returns the file that makes the client start teamster's MCP server.
fn servers_file() -> Value {
    json!({ "mcpServers": { NAME: { "command": "sh", "args": [LAUNCHER, "mcp"] } } })
}

fn hooks_file() -> Value {
    let mut all = hooks::all(&hooks::events(false), |_| "sh".to_owned());
    for (event, groups) in all.as_object_mut().into_iter().flatten() {
        if let Some(hook) = groups.pointer_mut("/0/hooks/0") {
            *hook = json!({
                "type": "command",
                "command": "sh",
                "args": [LAUNCHER, "hook", event],
                "timeout": hooks::TIMEOUT,
            });
        }
    }
    json!({
        "description": "Tells teamster what the agents of a session do",
        "hooks": all,
    })
}

fn pretty(value: &Value) -> Result<String, StoreError> {
    serde_json::to_string_pretty(value)
        .map(|text| text + "\n")
        .map_err(|error| StoreError::new(StoreErrorKind::Failed, error.to_string()))
}

/// Returns whether a folder is empty or contains an earlier export.
fn is_ours_to_write(dir: &Dir) -> Result<bool, StoreError> {
    if dir.entries()?.is_empty() {
        return Ok(true);
    }
    let Ok(Some(folder)) = dir.child(MANIFEST_FOLDER) else {
        return Ok(false);
    };
    let manifest = folder.read(MANIFEST).ok().flatten();
    let manifest = manifest.and_then(|(bytes, _)| serde_json::from_slice::<Value>(&bytes).ok());
    Ok(manifest.is_some_and(|manifest| manifest["name"] == NAME))
}

/// Writes the files to a temporary folder beside the target, which is then renamed.
fn write_new(folder: &Path, files: &[PluginFile]) -> Result<(), StoreError> {
    let unnamed = || {
        StoreError::refused(format!("{} cannot be created", folder.display()))
            .hint("name a folder, such as ./teamster-plugin")
    };
    let parent = folder.parent().ok_or_else(unnamed)?;
    let name = folder.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(unnamed)?;
    let beside = Dir::open_root(parent)?.ok_or_else(|| {
        StoreError::not_found(format!("there is no folder {}", parent.display()))
            .hint("create it first; only the last folder is created")
    })?;
    let temp = format!(".{name}.{}.{}.tmp", std::process::id(), random_hex());
    let written = beside
        .shared_child_or_create(&temp)
        .map_err(StoreError::from)
        .and_then(|dir| write(&dir, files))
        .and_then(|()| {
            if beside.rename_new(&temp, &beside, name)? {
                return Ok(());
            }
            Err(StoreError::conflict(format!(
                "another process has just created {}",
                folder.display()
            )))
        });
    if written.is_err() {
        let _ = remove_tree(&beside, &temp);
    }
    written
}

fn write(dir: &Dir, files: &[PluginFile]) -> Result<(), StoreError> {
    for file in files {
        let mut folders: Vec<&str> = file.path.split('/').collect();
        let Some(name) = folders.pop() else {
            continue;
        };
        let mut inner = None;
        for folder in folders {
            let next = inner
                .as_ref()
                .unwrap_or(dir)
                .shared_child_or_create(folder)?;
            inner = Some(next);
        }
        let inner = inner.as_ref().unwrap_or(dir);
        inner.replace_shared(name, file.content.as_bytes(), file.mode)?;
    }
    Ok(dir.sync()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events that every recorded client version knows: an unknown one makes older clients drop all hooks.
    const KNOWN: [&str; 30] = [
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "Notification",
        "UserPromptSubmit",
        "UserPromptExpansion",
        "SessionStart",
        "SessionEnd",
        "Stop",
        "StopFailure",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "PermissionRequest",
        "PermissionDenied",
        "Setup",
        "TeammateIdle",
        "TaskCreated",
        "TaskCompleted",
        "Elicitation",
        "ElicitationResult",
        "ConfigChange",
        "WorktreeCreate",
        "WorktreeRemove",
        "InstructionsLoaded",
        "CwdChanged",
        "FileChanged",
        "MessageDisplay",
    ];

    #[test]
    fn every_client_knows_every_event() {
        let file = hooks_file();
        let hooks = file["hooks"].as_object().unwrap();
        assert_eq!(hooks.len(), 12);
        for (event, groups) in hooks {
            assert!(KNOWN.contains(&event.as_str()), "{event}");
            let hook = &groups[0]["hooks"][0];
            assert_eq!(hook["args"], json!([LAUNCHER, "hook", event]));
            assert_eq!(hook["timeout"], 5, "seconds");
        }
        assert_eq!(hooks["PostToolUse"][0]["matcher"], hooks::TOOLS);
    }

    #[test]
    fn a_place_with_a_quote_in_it_stays_one_word() {
        assert_eq!(shell::word("/o'b $x/teamster"), r"'/o'\''b $x/teamster'");
    }
}

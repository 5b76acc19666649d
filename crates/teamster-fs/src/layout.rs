//! Every path in one place; no other module builds one.
//!
//! A constant is the name of a file or folder, and its comment says which folder it is in. [`Layout`] finds the roots.

mod state_files;
mod worktrees;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use teamster_types::message::Mailbox;
use teamster_types::{TaskId, TeamName, Time, WorkerName};

pub use state_files::*;
pub use worktrees::*;

/// Folder of all teams, below the Claude folder.
pub const TEAMS: &str = "teams";
/// Folders for teams kept in databases, one for each database with a subfolder for each team, below the Claude folder.
/// They hold locks that are local to this machine.
pub const DATABASES: &str = ".teamster-databases";
/// How the address of a database begins.
pub const DATABASE_SCHEME: &str = "postgres";
/// Folder of all task lists, below the Claude folder.
pub const TASKS: &str = "tasks";
/// Removed teams, kept for seven days, below the Claude folder.
pub const TRASH: &str = ".teamster-trash";
/// The lock for moving teams into or out of the trash, in [`TRASH`].
pub const TRASH_LOCK: &str = ".lock";
/// The note in a trash entry that describes the team, beside its folders.
pub const TRASH_NOTE: &str = "reaped.json";
/// Marks a team that a user restored from the trash: dead members alone are then no reason to remove it again.
pub const RESTORED: &str = ".teamster-restored";

/// A team's registry.
pub const CONFIG: &str = "config.json";
/// The journal's live segment.
pub const JOURNAL: &str = "events.jsonl";
/// Folder of long texts that the journal refers to.
pub const BLOBS: &str = "blobs";
/// Folder of messages from the lead to workers.
pub const INBOX: &str = "inbox";
/// Folder of messages from workers to the lead.
pub const OUTBOX: &str = "outbox";
/// Folder of Claude Code's own inboxes.
pub const NATIVE_INBOXES: &str = "inboxes";
/// Folder of stop signals.
pub const SIGNALS: &str = "signals";
/// Staging folder for teamster's lock folders, which are then moved to where Claude Code looks for them.
pub const LOCK_FOLDERS: &str = ".teamster-locks";

/// The stage of a project's run, for external readers, in its state folder.
pub const TEAM_STATE: &str = "team-state.json";
/// The lock of the process that hosts a project's run, in the project's state folder: there is one run at a time.
pub const RUN_LOCK: &str = "run.lock";

/// The lock of the process that hosts a team's run, in the team's folder.
pub const HOST_LOCK: &str = "host.lock";

/// The team's write lock, in its task folder.
pub const TEAM_LOCK: &str = ".teamster.lock";
/// The cache of parsed task files, in the task folder.
pub const INDEX: &str = ".teamster.index";
/// Marks the task folder of a team that is being imported: the team itself may not exist yet.
pub const IMPORTING: &str = ".teamster.importing";
/// The highest task id ever assigned, shared with Claude Code, in the task folder.
pub const HIGH_WATER_MARK: &str = ".highwatermark";

/// Returns the name of a task's file.
pub fn task_file(id: &TaskId) -> String {
    format!("{id}.json")
}

/// Returns the name of a task's claim lock, which exists while a claim is being made.
pub fn claim_lock(id: &TaskId) -> String {
    format!("{id}.lock")
}

/// Returns the name of a task's failure sidecar.
pub fn failure_file(id: &TaskId) -> String {
    format!("{id}.failure.json")
}

/// Returns the name of the folder with which Claude Code locks a file.
pub fn native_lock(file: &str) -> String {
    format!("{file}.lock")
}

/// Returns the task that a file name belongs to, if it is a task file.
pub fn task_of_file(name: &str) -> Option<TaskId> {
    name.strip_suffix(".json")?.parse().ok()
}

/// Returns the name of the staged new content of `name`, which takes effect with the event `seq`.
pub fn next_file(name: &str, seq: u64) -> String {
    format!(".{name}.{seq}.next")
}

/// Returns the name of the mark that the event `seq` removes `name`.
pub fn gone_file(name: &str, seq: u64) -> String {
    format!(".{name}.{seq}.gone")
}

/// Parses a name made by [`next_file`] or [`gone_file`]: returns the file, the event, and whether the file is removed.
pub fn staged(name: &str) -> Option<(&str, u64, bool)> {
    let rest = name.strip_prefix('.')?;
    let (rest, gone) = match rest.strip_suffix(".next") {
        Some(rest) => (rest, false),
        None => (rest.strip_suffix(".gone")?, true),
    };
    let (file, seq) = rest.rsplit_once('.')?;
    Some((file, seq.parse().ok()?, gone))
}

/// Returns the process that created a temp file of [`crate::Dir::replace`]; `None` for any other name.
pub fn temp_owner(name: &str) -> Option<u32> {
    let rest = name.strip_prefix('.')?.strip_suffix(".tmp")?;
    let (rest, _nonce) = rest.rsplit_once('.')?;
    rest.rsplit_once('.')?.1.parse().ok()
}

/// Returns whether a name is that of a temp file for `file`.
pub fn is_temp_of(name: &str, file: &str) -> bool {
    temp_owner(name).is_some()
        && name
            .strip_prefix('.')
            .and_then(|rest| rest.strip_prefix(file))
            .and_then(|rest| rest.strip_suffix(".tmp"))
            .is_some_and(|rest| rest.split('.').count() == 3)
}

/// Claude Code's settings, in its own folder and in [`PROJECT_CLAUDE`].
pub const SETTINGS: &str = "settings.json";
/// A project's settings that are not shared with others.
pub const LOCAL_SETTINGS: &str = "settings.local.json";
/// Claude Code's folder in a project.
pub const PROJECT_CLAUDE: &str = ".claude";
/// Git's ignore file of a project.
pub const GITIGNORE: &str = ".gitignore";
/// The part of a backup's name between the name of the file and the time.
const BACKUP: &str = ".teamster-backup-";
/// The git ignore pattern for all backups of settings.
pub const BACKUPS_IGNORED: &str = ".claude/settings*.teamster-backup-*";

/// Returns the name of the backup of `file` made at `time`.
pub fn backup_file(file: &str, time: Time) -> String {
    let time: String = time
        .to_string()
        .chars()
        .filter(|c| !matches!(c, '-' | ':'))
        .collect();
    format!("{file}{BACKUP}{time}")
}

/// Returns whether a name is that of a backup of `file`.
pub fn is_backup_of(name: &str, file: &str) -> bool {
    name.strip_prefix(file)
        .is_some_and(|rest| rest.starts_with(BACKUP))
}

/// Returns the name of the live file of a mailbox.
pub fn mail_file(mailbox: &Mailbox) -> String {
    format!("{}.jsonl", mailbox.owner())
}

/// Returns the name of a full segment of a mailbox; the first is number 1.
pub fn mail_segment(mailbox: &Mailbox, number: u64) -> String {
    format!("{}.{number}.jsonl", mailbox.owner())
}

/// Returns the name of the file that records how far the reader of a mailbox has acknowledged.
pub fn mail_cursor(mailbox: &Mailbox) -> String {
    match mailbox {
        Mailbox::Inbox(_) | Mailbox::Lead => format!("{}.offset", mailbox.owner()),
        Mailbox::Outbox(_) => format!("{}.outbox-offset", mailbox.owner()),
    }
}

/// Returns the name of a full segment of the journal; the first is number 1.
pub fn journal_segment(number: u64) -> String {
    format!("events.{number}.jsonl")
}

/// Returns the number of a segment `{stem}.{number}.jsonl`.
pub fn segment_number(name: &str, stem: &str) -> Option<u64> {
    name.strip_prefix(stem)?
        .strip_prefix('.')?
        .strip_suffix(".jsonl")?
        .parse()
        .ok()
}

/// Returns the name of a worker's heartbeat, in [`Layout::heartbeats`].
pub fn heartbeat_file(worker: &WorkerName) -> String {
    format!("{worker}.heartbeat.json")
}

/// Returns the worker that a heartbeat file belongs to.
pub fn worker_of_heartbeat(name: &str) -> Option<WorkerName> {
    name.strip_suffix(".heartbeat.json")?.parse().ok()
}

/// Returns the name of the file that records how a worker was started, beside its heartbeat.
pub fn launch_file(worker: &WorkerName) -> String {
    format!("{worker}.launch.json")
}

/// Returns the worker that a file of [`launch_file`] belongs to.
pub fn worker_of_launch(name: &str) -> Option<WorkerName> {
    name.strip_suffix(".launch.json")?.parse().ok()
}

/// The output of a bridge that has no terminal, beside the logs of its tasks.
pub const BRIDGE_LOG: &str = "bridge.log";
/// The previous part of [`BRIDGE_LOG`], which is rotated when it grows too large.
pub const OLD_BRIDGE_LOG: &str = "bridge.old.log";

/// Returns whether a file name is that of a lock held by a worker's bridge.
pub fn is_bridge_lock(name: &str) -> bool {
    let worker = name.strip_prefix("bridge-");
    worker.is_some_and(|worker| worker.strip_suffix(".lock").is_some())
}

/// Returns the name of a stop signal: `{worker}.shutdown` or `{worker}.drain`.
pub fn signal_file(worker: &WorkerName, drain: bool) -> String {
    format!("{worker}.{}", if drain { "drain" } else { "shutdown" })
}

/// Returns the worker that a stop signal is for.
pub fn worker_of_signal(name: &str) -> Option<WorkerName> {
    let worker = name
        .strip_suffix(".drain")
        .or_else(|| name.strip_suffix(".shutdown"))?;
    worker.parse().ok()
}

/// Path from a project to the heartbeats of all its teams.
pub const BRIDGES: [&str; 3] = [".omc", "state", "team-bridge"];

/// The folder of all files of a project's runs, in the project.
pub const OMC: &str = ".omc";

/// Returns the path from [`OMC`] to the logs of one worker.
pub fn log_folders<'a>(team: &'a TeamName, worker: &'a WorkerName) -> [&'a str; 3] {
    ["logs", team.as_str(), worker.as_str()]
}

/// Returns the path from [`OMC`] to the trace of a team's host. Worker names contain no dot, so no worker's log folder
/// can have the name of this file.
pub fn host_log_folders(team: &TeamName) -> [&str; 2] {
    ["logs", team.as_str()]
}

/// The trace log of a team's host.
pub const HOST_LOG: &str = "host.log";
/// The previous part of [`HOST_LOG`].
pub const OLD_HOST_LOG: &str = "host.old.log";
/// The trace log of a worker's bridge, beside the logs of its tasks.
pub const BRIDGE_TRACE: &str = "trace.log";
/// The previous part of [`BRIDGE_TRACE`].
pub const OLD_BRIDGE_TRACE: &str = "trace.old.log";

/// Returns the path from [`OMC`] to the output of the checks of a team's work. A worker named `verify` has its logs
/// there too; the file names do not collide.
pub fn verify_folders(team: &TeamName) -> [&str; 3] {
    ["logs", team.as_str(), "verify"]
}

/// Returns the name of the log of one check: `on` is the commit (`base`, `integration`), followed by the round and the
/// number of the check. An existing log is kept: `again` is 0 for the first attempt and counts up with each later one.
pub fn verify_log(on: &str, round: u32, number: usize, again: u32) -> String {
    match again {
        0 => format!("{on}-{round}-{number}.log"),
        _ => format!("{on}-{round}-{number}.again-{again}.log"),
    }
}

/// Returns the name of the log of the agent's output while it worked on a task.
pub fn task_log(task: &TaskId) -> String {
    format!("{task}.jsonl")
}

/// Returns the name of the previous part of [`task_log`], which is rotated when it grows too large.
pub fn old_task_log(task: &TaskId) -> String {
    format!("{task}.old.jsonl")
}

/// Returns whether a file in a worker's log folder is one of its logs: an agent may put other files there.
pub fn is_worker_log(name: &str) -> bool {
    let task = name.strip_suffix(".jsonl");
    let task = task.map(|task| task.strip_suffix(".old").unwrap_or(task));
    task.is_some_and(|task| task.parse::<TaskId>().is_ok())
        || [BRIDGE_LOG, OLD_BRIDGE_LOG, BRIDGE_TRACE, OLD_BRIDGE_TRACE].contains(&name)
}

/// Returns the path from [`OMC`] to the folder that a worker's bridge keeps for its agent.
pub fn agent_folders<'a>(team: &'a TeamName, worker: &'a WorkerName) -> [&'a str; 4] {
    ["state", "agents", team.as_str(), worker.as_str()]
}

/// The task that an agent works on, without its claim token.
pub const AGENT_TASK: &str = "task.json";

/// The messages that arrive for an agent while it works, in the folder of its temp files.
pub const AGENT_INBOX: &str = "inbox.jsonl";

/// Returns the name of the temp folder for all processes of one launch, in the system's temp folder: socket paths must
/// be short.
pub fn launch_temp(launch: &str) -> String {
    format!("teamster-{}", launch.get(..12).unwrap_or(launch))
}

/// Returns the name of the folder of the socket on which a worker's launch listens for its agent. It is separate from
/// the agent's own folders, which are removed with each task.
pub fn launch_socket(launch: &str) -> String {
    format!("{}.s", launch_temp(launch))
}

/// The environment of a bridge in a pane, until the bridge has read it.
pub const AGENT_ENVIRONMENT: &str = "environment";

/// Returns the path from a project to the heartbeats of one team.
pub fn heartbeat_folders(team: &TeamName) -> [&str; 4] {
    [".omc", "state", "team-bridge", team.as_str()]
}

/// The path or address of the store that a team is kept in, in [`heartbeat_folders`].
pub const TEAM_STORE: &str = "store";

/// Path from a project to the state of its runs.
pub const OUR_STATE: [&str; 2] = [".omc", "state"];
/// The socket of teamster's own tmux server, in [`OUR_STATE`].
pub const TMUX_SOCKET: &str = "tmux.sock";

/// Returns the path from a project to the kept journal and report of one team.
pub fn report_folders(team: &TeamName) -> [&str; 3] {
    [".omc", "reports", team.as_str()]
}

/// Returns the name of a folder beside the last of [`report_folders`] with the files of an earlier team of the same
/// name; numbers start at 1. No team can have such a name.
pub fn earlier_report(team: &TeamName, number: u32) -> String {
    format!("{team}.{number}")
}

/// Returns the path from a project to the files of one team that must not be committed.
pub fn private_folders(team: &TeamName) -> [&str; 3] {
    [".omc", "private", team.as_str()]
}

/// The report on a run's result, in [`report_folders`].
pub const REPORT: &str = "report.md";

/// The folder of logs, in [`OMC`].
pub const LOGS: &str = "logs";
/// The output of a run's host that has no terminal.
pub const RUN_LOG: &str = "run.log";

/// The folder of a project's settings, presets and other files that teamster reads from the repository.
pub const PROJECT_SETTINGS: &str = ".teamster";
/// Folder of prompt templates, beside the user's settings and in [`PROJECT_SETTINGS`].
pub const PROMPTS: &str = "prompts";
/// The commands that the user trusts, by project, beside the user's settings.
pub const TRUST: &str = "trust.json";
/// The lock for changes to [`TRUST`].
pub const TRUST_LOCK: &str = ".trust.lock";

/// Studio's persistent state, beside the user's settings: the access key for browsers, and recent projects.
pub const STUDIO: &str = "studio.json";
/// The trace log of Studio, beside its state: it shows every project, and belongs to none.
pub const STUDIO_LOG: &str = "studio.log";
/// The previous part of [`STUDIO_LOG`].
pub const OLD_STUDIO_LOG: &str = "studio.old.log";

/// Claude Code's configuration folder for one agent, in [`agent_folders`].
pub const AGENT_CLAUDE: &str = "claude";

/// The root folders of all paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `$TEAMSTER_CLAUDE_DIR`, else `$CLAUDE_CONFIG_DIR`, else `~/.claude`.
    pub claude: PathBuf,
    /// The project of the current folder.
    pub project: PathBuf,
    /// The user's configuration file.
    pub user_config: PathBuf,
    /// The project's configuration file.
    pub project_config: PathBuf,
    /// The address, without a password, of the database that teams are kept in; `None` for files.
    pub database: Option<String>,
}

/// There is no home folder to keep teams in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no home folder: HOME is not set")]
pub struct NoHome;

impl Layout {
    /// Finds the roots from the environment (`var`) and the current folder.
    pub fn find(var: impl Fn(&str) -> Option<OsString>, current: &Path) -> Result<Self, NoHome> {
        let folder = |name: &str| {
            var(name)
                .filter(|value| !value.is_empty())
                .map(|value| current.join(value))
        };
        let home = folder("HOME");
        let claude = folder("TEAMSTER_CLAUDE_DIR")
            .or_else(|| folder("CLAUDE_CONFIG_DIR"))
            .or_else(|| home.as_ref().map(|home| home.join(".claude")))
            .ok_or(NoHome)?;
        let project = folder("TEAMSTER_PROJECT")
            .or_else(|| folder("CLAUDE_PROJECT_DIR"))
            .unwrap_or_else(|| project_of(current));
        let config_home =
            folder("XDG_CONFIG_HOME").or_else(|| home.map(|home| home.join(".config")));
        Ok(Self {
            user_config: config_home
                .unwrap_or_else(|| claude.clone())
                .join("teamster")
                .join("config.toml"),
            project_config: project_config(&project),
            claude,
            project,
            database: None,
        })
    }

    /// Returns the path from the Claude folder to the parent of the per-team folders on this machine, which hold locks
    /// and other local files. For teams kept in files it is the folder of the teams themselves.
    pub fn team_folders(&self) -> Vec<String> {
        match &self.database {
            None => vec![TEAMS.to_owned()],
            Some(address) => {
                let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
                vec![DATABASES.to_owned(), address.chars().map(fit).collect()]
            }
        }
    }

    /// Returns the location of the store that is recorded in a project: a folder, or the address of a database.
    pub fn store_note(&self) -> OsString {
        match &self.database {
            None => self.claude.clone().into_os_string(),
            Some(address) => address.into(),
        }
    }

    /// Returns the layout of another project with the same home.
    #[must_use]
    pub fn of_project(&self, project: &Path) -> Self {
        Self {
            project: project.to_owned(),
            project_config: project_config(project),
            ..self.clone()
        }
    }

    /// Returns the folder of the user's settings.
    pub fn user_folder(&self) -> &Path {
        self.user_config.parent().unwrap_or(&self.claude)
    }
}

fn project_config(project: &Path) -> PathBuf {
    project.join(PROJECT_SETTINGS).join("config.toml")
}

/// Returns git's local, unshared ignore file (`info/exclude`) of `project`; `None` outside a work tree.
pub fn git_exclude(project: &Path) -> Option<PathBuf> {
    let dot_git = project.join(".git");
    let repository = if dot_git.is_dir() {
        dot_git
    } else {
        // In a linked work tree `.git` is a file with the path of its own git folder, where `commondir` names the
        // shared one.
        let text = std::fs::read_to_string(&dot_git).ok()?;
        let own = project.join(text.strip_prefix("gitdir:")?.trim());
        match std::fs::read_to_string(own.join("commondir")) {
            Ok(common) => own.join(common.trim()),
            Err(_) => own,
        }
    };
    Some(repository.join("info").join("exclude"))
}

/// Returns the git work tree that contains `current`, or `current` itself. A worker's worktree belongs to the main work
/// tree; a user's own linked worktree has its own state.
fn project_of(current: &Path) -> PathBuf {
    let tree = current
        .ancestors()
        .find(|folder| folder.join(".git").exists())
        .unwrap_or(current);
    let parts: Vec<_> = tree.components().collect();
    let ours = parts
        .windows(2)
        .position(|two| two[0].as_os_str() == ".omc" && two[1].as_os_str() == "worktrees");
    match ours {
        Some(at) if parts.len() == at + 4 => parts[..at].iter().collect(),
        _ => tree.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn find(vars: &[(&str, &str)], current: &str) -> Result<Layout, NoHome> {
        let vars: HashMap<String, OsString> = vars
            .iter()
            .map(|(name, value)| ((*name).to_owned(), OsString::from(value)))
            .collect();
        Layout::find(|name| vars.get(name).cloned(), Path::new(current))
    }

    #[test]
    fn the_claude_folder_is_the_first_that_is_named() {
        let named = |vars: &[(&str, &str)]| find(vars, "/x").map(|layout| layout.claude);
        let all = [
            ("TEAMSTER_CLAUDE_DIR", "/a"),
            ("CLAUDE_CONFIG_DIR", "/b"),
            ("HOME", "/h"),
        ];
        assert_eq!(named(&all), Ok("/a".into()));
        assert_eq!(named(&all[1..]), Ok("/b".into()));
        assert_eq!(named(&all[2..]), Ok("/h/.claude".into()));
        assert_eq!(
            named(&[("HOME", "")]),
            Err(NoHome),
            "an empty variable names nothing"
        );
    }

    #[test]
    fn a_workers_worktree_belongs_to_the_main_project() {
        let root = std::env::temp_dir().join(format!("teamster-layout-{}", crate::random_hex()));
        let worktree = root.join(".omc/worktrees/fix/worker-1");
        let inside = worktree.join("src");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(worktree.join(".git"), "gitdir: elsewhere").unwrap();
        let own = root.join("own");
        std::fs::create_dir_all(own.join(".git")).unwrap();
        assert_eq!(project_of(&inside), root);
        assert_eq!(
            project_of(&own),
            own,
            "a user's own work tree keeps its own state"
        );
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn staged_names_are_read_back() {
        assert_eq!(
            staged(&next_file("3.json", 17)),
            Some(("3.json", 17, false))
        );
        assert_eq!(
            staged(&gone_file("3.failure.json", 18)),
            Some(("3.failure.json", 18, true))
        );
        for other in [
            "3.json",
            ".3.json.next",
            ".teamster.lock",
            ".3.json.x.next",
            "3.json.17.next",
        ] {
            assert_eq!(staged(other), None, "{other}");
        }
        assert_eq!(temp_owner(".config.json.4711.00ff.tmp"), Some(4711));
        assert_eq!(temp_owner("config.json.4711.00ff.tmp"), None);
    }
}

//! Every path, in one place. Nothing else builds one.
//!
//! A constant is the name of a file or folder and says in its comment where it lies. [`Layout`] finds the roots.

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
/// For each database that teams are kept in, a folder with one for each team, below the Claude folder. It has locks of this
/// machine.
pub const DATABASES: &str = ".teamster-databases";
/// How the address of a database begins.
pub const DATABASE_SCHEME: &str = "postgres";
/// Folder of all task lists, below the Claude folder.
pub const TASKS: &str = "tasks";
/// Removed teams, kept for seven days.
pub const TRASH: &str = ".teamster-trash";
/// Whoever moves teams into the trash or out of it holds this, in the trash.
pub const TRASH_LOCK: &str = ".lock";
/// What an entry of the trash was, beside the folders in it.
pub const TRASH_NOTE: &str = "reaped.json";
/// In a team that was taken out of the trash: somebody wants it, whoever of it is dead.
pub const RESTORED: &str = ".teamster-restored";

/// A team's registry.
pub const CONFIG: &str = "config.json";
/// The journal's live segment.
pub const JOURNAL: &str = "events.jsonl";
/// Long texts of the journal.
pub const BLOBS: &str = "blobs";
/// Lead to worker.
pub const INBOX: &str = "inbox";
/// Worker to lead.
pub const OUTBOX: &str = "outbox";
/// Claude Code's own inboxes.
pub const NATIVE_INBOXES: &str = "inboxes";
/// Stop signals.
pub const SIGNALS: &str = "signals";
/// Lock folders of ours, waiting to be moved to where Claude Code looks for them.
pub const LOCK_FOLDERS: &str = ".teamster-locks";

/// The stage of a project's run, for others, in its state folder.
pub const TEAM_STATE: &str = "team-state.json";
/// Held by the process that hosts a run, in the state folder of its project: there is one at a time.
pub const RUN_LOCK: &str = "run.lock";

/// Held by the process that hosts a team's run, in the team's folder.
pub const HOST_LOCK: &str = "host.lock";

/// The team's write lock, in its task folder.
pub const TEAM_LOCK: &str = ".teamster.lock";
/// The cache of what the task files say, in the task folder.
pub const INDEX: &str = ".teamster.index";
/// In the task folder of a team that is being imported: its team may not be there yet.
pub const IMPORTING: &str = ".teamster.importing";
/// The highest task id that was ever handed out, shared with Claude Code.
pub const HIGH_WATER_MARK: &str = ".highwatermark";

/// Returns the name of a task's file.
pub fn task_file(id: &TaskId) -> String {
    format!("{id}.json")
}

/// Returns the name of the lock that exists while a claim is being made.
pub fn claim_lock(id: &TaskId) -> String {
    format!("{id}.lock")
}

/// Returns the name of a task's failure sidecar.
pub fn failure_file(id: &TaskId) -> String {
    format!("{id}.failure.json")
}

/// Returns the name of the folder by which Claude Code locks a file.
pub fn native_lock(file: &str) -> String {
    format!("{file}.lock")
}

/// Returns the task that a file name belongs to, if it is a task file.
pub fn task_of_file(name: &str) -> Option<TaskId> {
    name.strip_suffix(".json")?.parse().ok()
}

/// Returns the name of the file with the new content of `name` that the event `seq` will make real.
pub fn next_file(name: &str, seq: u64) -> String {
    format!(".{name}.{seq}.next")
}

/// Returns the name of the mark that the event `seq` removes `name`.
pub fn gone_file(name: &str, seq: u64) -> String {
    format!(".{name}.{seq}.gone")
}

/// Returns what a name made by [`next_file`] or [`gone_file`] stands for: the file, the event, and whether it is
/// removed.
pub fn staged(name: &str) -> Option<(&str, u64, bool)> {
    let rest = name.strip_prefix('.')?;
    let (rest, gone) = match rest.strip_suffix(".next") {
        Some(rest) => (rest, false),
        None => (rest.strip_suffix(".gone")?, true),
    };
    let (file, seq) = rest.rsplit_once('.')?;
    Some((file, seq.parse().ok()?, gone))
}

/// Returns the process that left a temp file of [`crate::Dir::replace`], if it is one.
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
/// What git leaves alone, in a project.
pub const GITIGNORE: &str = ".gitignore";
/// What a backup's name has between the name of the file and the time.
const BACKUP: &str = ".teamster-backup-";
/// Every backup of settings, as git writes it.
pub const BACKUPS_IGNORED: &str = ".claude/settings*.teamster-backup-*";

/// Returns the name of a copy of `file` as it was at `time`.
pub fn backup_file(file: &str, time: Time) -> String {
    let time: String = time
        .to_string()
        .chars()
        .filter(|c| !matches!(c, '-' | ':'))
        .collect();
    format!("{file}{BACKUP}{time}")
}

/// Returns whether a name is that of a copy of `file`.
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

/// Returns the name of the file that tells how far the reader of a mailbox has acknowledged.
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

/// Returns the name of the file that tells how a worker was started, beside its heartbeat.
pub fn launch_file(worker: &WorkerName) -> String {
    format!("{worker}.launch.json")
}

/// Returns the worker that a file of [`launch_file`] belongs to.
pub fn worker_of_launch(name: &str) -> Option<WorkerName> {
    name.strip_suffix(".launch.json")?.parse().ok()
}

/// What a bridge without a terminal prints, beside the logs of its tasks.
pub const BRIDGE_LOG: &str = "bridge.log";
/// The part before that, once the file grew too large.
pub const OLD_BRIDGE_LOG: &str = "bridge.old.log";

/// Returns whether a file is held by the bridge of a worker.
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

/// Folders on the way from a project to the heartbeats of all its teams.
pub const BRIDGES: [&str; 3] = [".omc", "state", "team-bridge"];

/// Everything of a project's runs, in the project.
pub const OMC: &str = ".omc";

/// Returns the folders on the way from [`OMC`] to the logs of one worker.
pub fn log_folders<'a>(team: &'a TeamName, worker: &'a WorkerName) -> [&'a str; 3] {
    ["logs", team.as_str(), worker.as_str()]
}

/// Returns the folders on the way from [`OMC`] to the trace of a team's host. No worker has a name with a dot, so none has its logs
/// under the name of this file.
pub fn host_log_folders(team: &TeamName) -> [&str; 2] {
    ["logs", team.as_str()]
}

/// The trace of a team's host.
pub const HOST_LOG: &str = "host.log";
/// The part of that trace before the present one.
pub const OLD_HOST_LOG: &str = "host.old.log";
/// The trace of a worker's bridge, beside the logs of its tasks.
pub const BRIDGE_TRACE: &str = "trace.log";
/// The part of that trace before the present one.
pub const OLD_BRIDGE_TRACE: &str = "trace.old.log";

/// Returns the folders on the way from [`OMC`] to what the checks of a team's work printed. A worker of the name
/// `verify` has its logs there too; no file of either has a name of the other's.
pub fn verify_folders(team: &TeamName) -> [&str; 3] {
    ["logs", team.as_str(), "verify"]
}

/// Returns the name of the log of one check: `on` which commit (`base`, `integration`), in which round, as which of the
/// checks. A file that is there already stays, and the next try counts on: `again` is 0 for the first.
pub fn verify_log(on: &str, round: u32, number: usize, again: u32) -> String {
    match again {
        0 => format!("{on}-{round}-{number}.log"),
        _ => format!("{on}-{round}-{number}.again-{again}.log"),
    }
}

/// Returns the name of the log of what the agent sent while it worked on a task.
pub fn task_log(task: &TaskId) -> String {
    format!("{task}.jsonl")
}

/// Returns the name of the part before [`task_log`], once that grew too large.
pub fn old_task_log(task: &TaskId) -> String {
    format!("{task}.old.jsonl")
}

/// Returns whether a file in the folder of a worker's logs is one of them: an agent may put others there.
pub fn is_worker_log(name: &str) -> bool {
    let task = name.strip_suffix(".jsonl");
    let task = task.map(|task| task.strip_suffix(".old").unwrap_or(task));
    task.is_some_and(|task| task.parse::<TaskId>().is_ok())
        || [BRIDGE_LOG, OLD_BRIDGE_LOG, BRIDGE_TRACE, OLD_BRIDGE_TRACE].contains(&name)
}

/// Returns the folders on the way from [`OMC`] to what a worker's bridge keeps for its agent.
pub fn agent_folders<'a>(team: &'a TeamName, worker: &'a WorkerName) -> [&'a str; 4] {
    ["state", "agents", team.as_str(), worker.as_str()]
}

/// The task that an agent works on, without the proof of its claim.
pub const AGENT_TASK: &str = "task.json";

/// The messages that came for a program while it works, in the folder of its temp files.
pub const AGENT_INBOX: &str = "inbox.jsonl";

/// Returns the folder for temp files of everything that one launch starts, in the system's folder for such: paths of
/// sockets must be short.
pub fn launch_temp(launch: &str) -> String {
    format!("teamster-{}", launch.get(..12).unwrap_or(launch))
}

/// Returns the folder of the socket on which a launch of a worker listens for its agent. It is none of the agent's own
/// folders, which go with each task.
pub fn launch_socket(launch: &str) -> String {
    format!("{}.s", launch_temp(launch))
}

/// The environment of a bridge in a pane, until it has read it.
pub const AGENT_ENVIRONMENT: &str = "environment";

/// Returns the folders on the way from a project to its heartbeats of one team.
pub fn heartbeat_folders(team: &TeamName) -> [&str; 4] {
    [".omc", "state", "team-bridge", team.as_str()]
}

/// The path of the store that a team lives in, in [`heartbeat_folders`].
pub const TEAM_STORE: &str = "store";

/// Folders on the way from a project to the state of our runs.
pub const OUR_STATE: [&str; 2] = [".omc", "state"];
/// The socket of our own tmux server, in [`OUR_STATE`].
pub const TMUX_SOCKET: &str = "tmux.sock";

/// Returns the folders on the way from a project to the kept journal and report of one team.
pub fn report_folders(team: &TeamName) -> [&str; 3] {
    [".omc", "reports", team.as_str()]
}

/// Returns the folder beside the last of [`report_folders`] that keeps what an earlier team of the same name left; the first is
/// number 1. No team can have such a name.
pub fn earlier_report(team: &TeamName, number: u32) -> String {
    format!("{team}.{number}")
}

/// Returns the folders on the way from a project to the files of one team that must not get into a commit.
pub fn private_folders(team: &TeamName) -> [&str; 3] {
    [".omc", "private", team.as_str()]
}

/// What a run came to, in [`report_folders`].
pub const REPORT: &str = "report.md";

/// The folder of logs, in the folder of ours in a project.
pub const LOGS: &str = "logs";
/// What the host of a run without a terminal printed.
pub const RUN_LOG: &str = "run.log";

/// The folder of a project's settings, presets and whatever else teamster reads from the repository.
pub const PROJECT_SETTINGS: &str = ".teamster";
/// Folder of templates of what agents are told, beside the user's settings and in a project's own.
pub const PROMPTS: &str = "prompts";
/// What the user accepted of which project, beside the user's settings.
pub const TRUST: &str = "trust.json";
/// The lock that whoever changes the accepted commands holds.
pub const TRUST_LOCK: &str = ".trust.lock";

/// What Studio remembers, beside the user's settings: the key of browsers, and recent projects.
pub const STUDIO: &str = "studio.json";
/// The trace of Studio, beside what it remembers: it shows every project, and belongs to none.
pub const STUDIO_LOG: &str = "studio.log";
/// The part of that trace before the present one.
pub const OLD_STUDIO_LOG: &str = "studio.old.log";

/// Claude Code's own folder of one agent, in [`agent_folders`].
pub const AGENT_CLAUDE: &str = "claude";

/// The roots that everything lies under.
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

/// There is no home to keep teams in.
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

    /// Returns the folders on the way from the Claude folder to the one in which each team has one on this machine, for locks and
    /// what else only this machine needs. For teams in files it is where they are kept.
    pub fn team_folders(&self) -> Vec<String> {
        match &self.database {
            None => vec![TEAMS.to_owned()],
            Some(address) => {
                let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
                vec![DATABASES.to_owned(), address.chars().map(fit).collect()]
            }
        }
    }

    /// Returns what a project notes about where its teams are kept: a folder, or the address of a database.
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

/// Returns the file in which git keeps what it leaves alone in `project` without telling others; `None` outside a work
/// tree.
pub fn git_exclude(project: &Path) -> Option<PathBuf> {
    let dot_git = project.join(".git");
    let repository = if dot_git.is_dir() {
        dot_git
    } else {
        // In a linked work tree it is a file that says where the rest is, and that says what all of them share.
        let text = std::fs::read_to_string(&dot_git).ok()?;
        let own = project.join(text.strip_prefix("gitdir:")?.trim());
        match std::fs::read_to_string(own.join("commondir")) {
            Ok(common) => own.join(common.trim()),
            Err(_) => own,
        }
    };
    Some(repository.join("info").join("exclude"))
}

/// Returns the git work tree that `current` lies in, or `current` itself. A worktree of one of our workers belongs to
/// the main work tree; a user's own worktree keeps its own state.
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

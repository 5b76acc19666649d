//! Settings: variables over the project's file over the user's file over defaults. Each value records its source.
//!
//! An invalid value is an error, never silently replaced by a default, because the user meant something by it. An
//! unknown key is only reported, because a newer version of teamster may know it.

mod endpoint;
mod file;
mod layers;
mod providers;
mod roles;
mod value;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use teamster_agents::{Permissions, Rule};
use teamster_fs::Durability;
use teamster_fs::layout::Layout;
use teamster_run::host::LeaderBounds;
use teamster_store::FileStoreSettings;
use teamster_types::health::Limits;
use teamster_types::paths::Reservations;
use teamster_types::transitions::LEASE;
use teamster_workers::limits::WorkerLimits;

use crate::env_vars;
use crate::error::{AppError, Result};
pub use endpoint::Endpoint;
use layers::Layers;
pub use providers::ProviderSetting;
pub use roles::{RoleSetting, resolve_script};
pub use value::{NotifyMethod, SecretUrl};
use value::{
    agent, count, endpoint, flag, format_span, list, notify_method, percent, reservations, rule,
    small_count, span, span_or_off,
};

/// The value that lets the team choose its leader.
pub const AUTO_LEADER: &str = "auto";

/// The name of a setting in files, and the variable that overrides it.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// The name in files, `section.name`.
    pub name: &'static str,
    variable: &'static str,
    /// The name in a file that has a section with the setting's own name.
    in_section: Option<&'static str>,
}

const CLAIM_LEASE: SettingKey = SettingKey::new("claim.lease", env_vars::CLAIM_LEASE);
const STORE_DURABLE: SettingKey = SettingKey::new("store.durable", env_vars::STORE_DURABLE);
const STORE_PATIENCE: SettingKey = SettingKey::new("store.patience", env_vars::STORE_PATIENCE);
const STORE_URL: SettingKey = SettingKey::new("store.url", env_vars::STORE);
const STORE_URL_FILE: SettingKey = SettingKey::new("store.url_file", env_vars::STORE_URL_FILE);
const SILENT_AFTER: SettingKey =
    SettingKey::new("health.silent_after", env_vars::HEALTH_SILENT_AFTER);
const TEAM_ENABLED: SettingKey = SettingKey::new("team.enabled", env_vars::TEAM_ENABLED);
const WORKER_START: SettingKey =
    SettingKey::new("worker.start_limit", env_vars::WORKER_START_LIMIT);
const WORKER_IDLE: SettingKey = SettingKey::new("worker.idle_limit", env_vars::WORKER_IDLE_LIMIT);
const WORKER_TASK: SettingKey = SettingKey::new("worker.task_limit", env_vars::WORKER_TASK_LIMIT);
const WORKER_HEARTBEAT_MESSAGES: SettingKey = SettingKey::new(
    "worker.heartbeat_messages",
    env_vars::WORKER_HEARTBEAT_MESSAGES,
);
const RUN_MAX_TASKS: SettingKey = SettingKey::new("run.max_tasks", env_vars::RUN_MAX_TASKS);
const LEADER: SettingKey = SettingKey {
    in_section: Some("leader.agent"),
    ..SettingKey::new("leader", env_vars::LEADER)
};
const LEADER_MAX_WAKES: SettingKey =
    SettingKey::new("leader.max_wakes", env_vars::LEADER_MAX_WAKES);
const LEADER_BUDGET_SHARE: SettingKey =
    SettingKey::new("leader.budget_share", env_vars::LEADER_BUDGET_SHARE);
const PERMISSIONS_SHELL: SettingKey =
    SettingKey::new("permissions.shell", env_vars::PERMISSIONS_SHELL);
const PERMISSIONS_OTHER: SettingKey =
    SettingKey::new("permissions.other", env_vars::PERMISSIONS_OTHER);
const WORKTREE_SETUP: SettingKey = SettingKey::new("worktree.setup", env_vars::WORKTREE_SETUP);
const WORKTREE_SETUP_LIMIT: SettingKey =
    SettingKey::new("worktree.setup_limit", env_vars::WORKTREE_SETUP_LIMIT);
const WORKTREE_LINK: SettingKey = SettingKey::new("worktree.link", env_vars::WORKTREE_LINK);
const WORKTREE_LINK_WRITABLE: SettingKey =
    SettingKey::new("worktree.link_writable", env_vars::WORKTREE_LINK_WRITABLE);
const GC_KEEP: SettingKey = SettingKey::new("gc.keep", env_vars::GC_KEEP);
const RESERVATIONS: SettingKey = SettingKey::new("reservations", env_vars::RESERVATIONS);
const NOTIFY: SettingKey = SettingKey::new("notify", env_vars::NOTIFY);
const STUDIO_OTLP: SettingKey = SettingKey::new("studio.otlp", env_vars::STUDIO_OTLP);
const STUDIO_OTLP_EVERY: SettingKey =
    SettingKey::new("studio.otlp_every", env_vars::STUDIO_OTLP_EVERY);
const KEYS: [SettingKey; 26] = [
    CLAIM_LEASE,
    RESERVATIONS,
    NOTIFY,
    STORE_DURABLE,
    STORE_PATIENCE,
    STORE_URL,
    STORE_URL_FILE,
    SILENT_AFTER,
    TEAM_ENABLED,
    WORKER_START,
    WORKER_IDLE,
    WORKER_TASK,
    WORKER_HEARTBEAT_MESSAGES,
    RUN_MAX_TASKS,
    LEADER,
    LEADER_MAX_WAKES,
    LEADER_BUDGET_SHARE,
    PERMISSIONS_SHELL,
    PERMISSIONS_OTHER,
    WORKTREE_SETUP,
    WORKTREE_SETUP_LIMIT,
    WORKTREE_LINK,
    WORKTREE_LINK_WRITABLE,
    GC_KEEP,
    STUDIO_OTLP,
    STUDIO_OTLP_EVERY,
];

/// The default time limit for worktree setup: commands such as `npm ci` take minutes.
const SETUP_LIMIT: Duration = Duration::from_secs(10 * 60);
/// The default number of tasks that may be added to a run: more than a person adds by hand.
const MAX_TASKS: usize = 200;
/// The default retention of finished runs: long enough to look at one after a holiday.
const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const OTLP_EVERY: Duration = Duration::from_secs(15);

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingSource {
    /// The built-in default.
    Default,
    /// A line in the user's file.
    User(PathBuf, usize),
    /// A line in the project's file.
    Project(PathBuf, usize),
    /// A variable.
    Variable(&'static str),
}

impl SettingSource {
    /// Returns the name in `--json`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::User(..) => "user",
            Self::Project(..) => "project",
            Self::Variable(_) => "variable",
        }
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::User(file, line) | Self::Project(file, line) => {
                write!(f, "{}, line {line}", file.display())
            }
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The effective value.
    pub value: T,
    /// The source of the value.
    pub source: SettingSource,
}

/// A problem with the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Its location: a file with a line, or a variable.
    pub place: String,
    /// What is wrong.
    pub error: String,
    /// Whether a given value cannot be used.
    pub fatal: bool,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.error)
    }
}

/// All settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a claim lasts without being renewed.
    pub claim_lease: Setting<Duration>,
    /// What happens to a task whose paths may overlap with those of a running task.
    pub reservations: Setting<Reservations>,
    /// How a person is notified that a run needs them or has ended.
    pub notify: Setting<NotifyMethod>,
    /// Whether writes are flushed to disk before a command returns.
    pub store_durable: Setting<bool>,
    /// How long a command waits for other processes that change the same team.
    pub store_patience: Setting<Duration>,
    /// The URL of the store; `None` for the file store. Only a variable or the user's own file may set it.
    pub store_url: Setting<Option<SecretUrl>>,
    /// The file that contains the URL of the store. Only a variable or the user's own file may set it.
    pub store_url_file: Setting<Option<PathBuf>>,
    /// How long a working agent may produce no output before it is considered silent.
    pub silent_after: Setting<Duration>,
    /// Whether hooks record what they observe.
    pub team_enabled: Setting<bool>,
    /// How long an agent may take to start.
    pub worker_start: Setting<Duration>,
    /// How long an agent may produce no output before its attempt is ended.
    pub worker_idle: Setting<Duration>,
    /// The time limit of a task.
    pub worker_task: Setting<Duration>,
    /// How often a worker sends a `heartbeat` message to its lead; `None` when it sends none.
    pub worker_heartbeat_messages: Setting<Option<Duration>>,
    /// How many tasks may be added to a run, besides those of its plan and those that the run creates itself.
    pub run_max_tasks: Setting<usize>,
    /// The default leader of a run: `auto`, `engine`, or a provider.
    pub leader: Setting<String>,
    /// The maximum number of times that the leader of a run is woken.
    pub leader_max_wakes: Setting<u32>,
    /// The share of each budget that the leader may use, in percent.
    pub leader_budget_share: Setting<u32>,
    /// What happens when an agent wants to run a command.
    pub permissions_shell: Setting<Rule>,
    /// What happens when an agent wants something that is neither a command nor a file of its worktree.
    pub permissions_other: Setting<Rule>,
    /// The commands that prepare a new worktree.
    pub worktree_setup: Setting<Vec<String>>,
    /// The time limit of all commands that prepare a worktree.
    pub worktree_setup_limit: Setting<Duration>,
    /// Folders of the project that are copied into a new worktree.
    pub worktree_link: Setting<Vec<String>>,
    /// Whether those folders are linked instead, so that agents may change them.
    pub worktree_link_writable: Setting<bool>,
    /// How long refs and reports of finished runs are kept.
    pub gc_keep: Setting<Duration>,
    /// Where Studio sends its metrics; `None` when it does not.
    pub studio_otlp: Setting<Option<Endpoint>>,
    /// How often Studio sends its metrics.
    pub studio_otlp_every: Setting<Duration>,
    /// The providers that are defined in the files.
    pub providers: Vec<ProviderSetting>,
    /// The roles that are defined in the files.
    pub roles: Vec<RoleSetting>,
    /// The project's file as it was read, so that exactly the content in effect is trusted.
    pub project_file: Option<Vec<u8>>,
    /// The problems with the files and variables.
    pub problems: Vec<ConfigProblem>,
}

/// Returns whether hooks record what they observe. A hook needs no other setting, and ignores invalid ones.
pub fn team_is_enabled(layout: &Layout) -> bool {
    let mut layers = Layers::read(layout);
    layers.find(TEAM_ENABLED, true, flag).value
}

impl Config {
    /// Reads all settings of the project and the user.
    pub fn load(layout: &Layout) -> Self {
        let mut layers = Layers::read(layout);
        layers.name_unknown_keys();
        let providers = layers.providers(layout);
        let roles = layers.roles(layout, &providers);
        let defaults = FileStoreSettings::default();
        let limits = WorkerLimits::default();
        let permissions = Permissions::default();
        let bounds = LeaderBounds::default();
        Self {
            claim_lease: layers.find(CLAIM_LEASE, LEASE, span),
            reservations: layers.find(RESERVATIONS, Reservations::default(), reservations),
            notify: layers.find(NOTIFY, NotifyMethod::default(), notify_method),
            store_durable: layers.find(STORE_DURABLE, true, flag),
            store_patience: layers.find(STORE_PATIENCE, defaults.patience, span),
            store_url: layers.find_own(STORE_URL, |text| SecretUrl::new(&text)),
            store_url_file: layers.find_own(STORE_URL_FILE, PathBuf::from),
            silent_after: layers.find(SILENT_AFTER, Limits::default().silent, span),
            team_enabled: layers.find(TEAM_ENABLED, true, flag),
            worker_start: layers.find(WORKER_START, limits.start, span),
            worker_idle: layers.find(WORKER_IDLE, limits.idle, span),
            worker_task: layers.find(WORKER_TASK, limits.task, span),
            worker_heartbeat_messages: layers.find(WORKER_HEARTBEAT_MESSAGES, None, span_or_off),
            run_max_tasks: layers.find(RUN_MAX_TASKS, MAX_TASKS, count),
            leader: layers.find(LEADER, AUTO_LEADER.to_owned(), agent),
            leader_max_wakes: layers.find(LEADER_MAX_WAKES, bounds.max_wakes, small_count),
            leader_budget_share: layers.find(LEADER_BUDGET_SHARE, bounds.budget_share, percent),
            permissions_shell: layers.find(PERMISSIONS_SHELL, permissions.shell, rule),
            permissions_other: layers.find(PERMISSIONS_OTHER, permissions.other, rule),
            worktree_setup: layers.find(WORKTREE_SETUP, Vec::new(), list),
            worktree_setup_limit: layers.find(WORKTREE_SETUP_LIMIT, SETUP_LIMIT, span),
            worktree_link: layers.find(WORKTREE_LINK, Vec::new(), list),
            worktree_link_writable: layers.find(WORKTREE_LINK_WRITABLE, false, flag),
            gc_keep: layers.find(GC_KEEP, KEEP, span),
            studio_otlp: layers.find(STUDIO_OTLP, None, endpoint),
            studio_otlp_every: layers.find(STUDIO_OTLP_EVERY, OTLP_EVERY, span),
            providers,
            roles,
            project_file: layers.project.bytes,
            problems: layers.problems,
        }
    }

    /// Returns the first invalid value, as an error.
    pub fn check(&self) -> Result {
        match self.problems.iter().find(|problem| problem.fatal) {
            None => Ok(()),
            Some(problem) => Err(AppError::usage(problem.to_string())
                .hint("`teamster config show` lists every setting and where it comes from")),
        }
    }

    /// Returns the settings of the store.
    pub fn store_settings(&self) -> FileStoreSettings {
        FileStoreSettings {
            lease: self.claim_lease.value,
            patience: self.store_patience.value,
            reservations: self.reservations.value,
            sync: if self.store_durable.value {
                Durability::Durable
            } else {
                Durability::Fast
            },
        }
    }

    /// Returns the limits for judging the health of workers.
    pub fn limits(&self) -> Limits {
        Limits {
            silent: self.silent_after.value,
            ..Limits::default()
        }
    }

    /// Returns the limits that a worker enforces.
    pub fn rules(&self) -> WorkerLimits {
        WorkerLimits {
            start: self.worker_start.value,
            idle: self.worker_idle.value,
            task: self.worker_task.value,
            beat_messages: self.worker_heartbeat_messages.value,
            // A lease is renewed twice before it expires.
            renew: WorkerLimits::default()
                .renew
                .min(self.claim_lease.value / 3),
            ..WorkerLimits::default()
        }
    }

    /// Returns the limits of the leader of a run.
    pub fn leader_bounds(&self) -> LeaderBounds {
        LeaderBounds {
            max_wakes: self.leader_max_wakes.value,
            budget_share: self.leader_budget_share.value,
        }
    }

    /// Returns what an agent may do.
    pub fn permissions(&self) -> Permissions {
        Permissions {
            shell: self.permissions_shell.value,
            other: self.permissions_other.value,
            ..Permissions::default()
        }
    }

    /// Returns every setting with its value in written form, and its source.
    pub fn rows(&self) -> [(SettingKey, Value, &SettingSource); KEYS.len()] {
        fn row<T>(
            key: SettingKey,
            setting: &Setting<T>,
            show: impl Fn(&T) -> Value,
        ) -> (SettingKey, Value, &SettingSource) {
            (key, show(&setting.value), &setting.source)
        }
        let span = |value: &Duration| json!(format_span(*value));
        let flag = |value: &bool| json!(value);
        let rule = |value: &Rule| json!(value.word());
        let list = |value: &Vec<String>| json!(value);
        [
            row(CLAIM_LEASE, &self.claim_lease, span),
            row(RESERVATIONS, &self.reservations, |value| {
                json!(value.word())
            }),
            row(NOTIFY, &self.notify, |value| json!(value.word())),
            row(STORE_DURABLE, &self.store_durable, flag),
            row(STORE_PATIENCE, &self.store_patience, span),
            row(STORE_URL, &self.store_url, |value| match value {
                Some(text) => json!(text.to_string()),
                None => json!("files"),
            }),
            row(STORE_URL_FILE, &self.store_url_file, |value| match value {
                Some(path) => json!(path.display().to_string()),
                None => json!("off"),
            }),
            row(SILENT_AFTER, &self.silent_after, span),
            row(TEAM_ENABLED, &self.team_enabled, flag),
            row(WORKER_START, &self.worker_start, span),
            row(WORKER_IDLE, &self.worker_idle, span),
            row(WORKER_TASK, &self.worker_task, span),
            row(
                WORKER_HEARTBEAT_MESSAGES,
                &self.worker_heartbeat_messages,
                |value| match value {
                    Some(every) => json!(format_span(*every)),
                    None => json!("off"),
                },
            ),
            row(RUN_MAX_TASKS, &self.run_max_tasks, |value| json!(value)),
            row(LEADER, &self.leader, |value| json!(value)),
            row(LEADER_MAX_WAKES, &self.leader_max_wakes, |value| {
                json!(value)
            }),
            row(LEADER_BUDGET_SHARE, &self.leader_budget_share, |value| {
                json!(format!("{value}%"))
            }),
            row(PERMISSIONS_SHELL, &self.permissions_shell, rule),
            row(PERMISSIONS_OTHER, &self.permissions_other, rule),
            row(WORKTREE_SETUP, &self.worktree_setup, list),
            row(WORKTREE_SETUP_LIMIT, &self.worktree_setup_limit, span),
            row(WORKTREE_LINK, &self.worktree_link, list),
            row(WORKTREE_LINK_WRITABLE, &self.worktree_link_writable, flag),
            row(GC_KEEP, &self.gc_keep, span),
            row(STUDIO_OTLP, &self.studio_otlp, |value| match value {
                Some(endpoint) => json!(endpoint.to_string()),
                None => json!("off"),
            }),
            row(STUDIO_OTLP_EVERY, &self.studio_otlp_every, span),
        ]
    }
}

impl SettingKey {
    const fn new(name: &'static str, variable: &'static str) -> Self {
        Self {
            name,
            variable,
            in_section: None,
        }
    }

    /// Returns whether a file may contain it under this name.
    fn is_called(self, name: &str) -> bool {
        self.name == name || self.in_section == Some(name)
    }

    /// Returns the variable that overrides it.
    pub fn variable(self) -> &'static str {
        self.variable
    }
}

fn at(file: &Path, line: usize) -> String {
    format!("{}, line {line}", file.display())
}

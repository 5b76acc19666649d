//! Settings: variables over the project's file over the user's file over defaults. Each knows where it came from.
//!
//! A value that makes no sense is an error, never a silent default: whoever wrote it means something. A key that
//! nobody knows is only remarked on, because a newer teamster may know it.

mod file;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use teamster_fs::Sync;
use teamster_fs::layout::Layout;
use teamster_store::Settings;
use teamster_types::health::Limits;
use teamster_types::paths::Reservations;
use teamster_types::steps::LEASE;
use teamster_types::time::parse_span;
use teamster_workers::rules::Rules;

use crate::env_vars;
use crate::error::{CommandError, Result};
use file::{Raw, SettingsFile};

/// A setting's name in files and the variable that overrides it.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// `section.name`.
    pub name: &'static str,
    variable: &'static str,
}

const CLAIM_LEASE: Key = Key {
    name: "claim.lease",
    variable: env_vars::CLAIM_LEASE,
};
const STORE_DURABLE: Key = Key {
    name: "store.durable",
    variable: env_vars::STORE_DURABLE,
};
const STORE_PATIENCE: Key = Key {
    name: "store.patience",
    variable: env_vars::STORE_PATIENCE,
};
const SILENT_AFTER: Key = Key {
    name: "health.silent_after",
    variable: env_vars::HEALTH_SILENT_AFTER,
};
const TEAM_ENABLED: Key = Key {
    name: "team.enabled",
    variable: env_vars::TEAM_ENABLED,
};
const WORKER_START: Key = Key {
    name: "worker.start_limit",
    variable: env_vars::WORKER_START_LIMIT,
};
const WORKER_IDLE: Key = Key {
    name: "worker.idle_limit",
    variable: env_vars::WORKER_IDLE_LIMIT,
};
const WORKER_TASK: Key = Key {
    name: "worker.task_limit",
    variable: env_vars::WORKER_TASK_LIMIT,
};
const WORKER_SHELL: Key = Key {
    name: "worker.shell",
    variable: env_vars::WORKER_SHELL,
};
const RESERVATIONS: Key = Key {
    name: "reservations",
    variable: env_vars::RESERVATIONS,
};
const KEYS: [Key; 10] = [
    CLAIM_LEASE,
    RESERVATIONS,
    STORE_DURABLE,
    STORE_PATIENCE,
    SILENT_AFTER,
    TEAM_ENABLED,
    WORKER_START,
    WORKER_IDLE,
    WORKER_TASK,
    WORKER_SHELL,
];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything else.
    Default,
    /// The user's file, at this line.
    User(PathBuf, usize),
    /// The project's file, at this line.
    Project(PathBuf, usize),
    /// A variable.
    Variable(&'static str),
}

impl Source {
    /// The word in `--json`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::User(..) => "user",
            Self::Project(..) => "project",
            Self::Variable(_) => "variable",
        }
    }
}

impl fmt::Display for Source {
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

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value that counts.
    pub value: T,
    /// Where it came from.
    pub source: Source,
}

/// Something wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: a file with a line, or a variable.
    pub place: String,
    /// What is wrong there.
    pub error: String,
    /// Whether a value somebody wrote cannot be used.
    pub fatal: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.error)
    }
}

/// All settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long a claim lasts without being renewed.
    pub claim_lease: Setting<Duration>,
    /// What becomes of a task whose paths could be those of a task at work.
    pub reservations: Setting<Reservations>,
    /// Whether what was written is on the disk before a command returns.
    pub store_durable: Setting<bool>,
    /// How long a command waits for others that change the same team.
    pub store_patience: Setting<Duration>,
    /// How long an agent at work may say nothing before it is called silent.
    pub silent_after: Setting<Duration>,
    /// Whether hooks may write what they see.
    pub team_enabled: Setting<bool>,
    /// How long an agent may take to show that it is there.
    pub worker_start: Setting<Duration>,
    /// How long an agent may say nothing before its attempt is ended.
    pub worker_idle: Setting<Duration>,
    /// How long a task may take in all.
    pub worker_task: Setting<Duration>,
    /// Whether agents may run commands.
    pub worker_shell: Setting<bool>,
    /// What is wrong with the files and variables.
    pub problems: Vec<Problem>,
}

/// Whether hooks may write what they see. A hook needs no other setting, and does not stop at a wrong one.
pub fn team_is_enabled(layout: &Layout) -> bool {
    let mut layers = Layers::read(layout);
    layers.find(TEAM_ENABLED, true, flag).value
}

impl Config {
    /// Reads all settings of the project and the user.
    pub fn load(layout: &Layout) -> Self {
        let mut layers = Layers::read(layout);
        layers.name_unknown_keys();
        let defaults = Settings::default();
        let rules = Rules::default();
        Self {
            claim_lease: layers.find(CLAIM_LEASE, LEASE, span),
            reservations: layers.find(RESERVATIONS, Reservations::default(), reservations),
            store_durable: layers.find(STORE_DURABLE, true, flag),
            store_patience: layers.find(STORE_PATIENCE, defaults.patience, span),
            silent_after: layers.find(SILENT_AFTER, Limits::default().silent, span),
            team_enabled: layers.find(TEAM_ENABLED, true, flag),
            worker_start: layers.find(WORKER_START, rules.start, span),
            worker_idle: layers.find(WORKER_IDLE, rules.idle, span),
            worker_task: layers.find(WORKER_TASK, rules.task, span),
            worker_shell: layers.find(WORKER_SHELL, true, flag),
            problems: layers.problems,
        }
    }

    /// The first value that cannot be used, as an error.
    pub fn check(&self) -> Result {
        match self.problems.iter().find(|problem| problem.fatal) {
            None => Ok(()),
            Some(problem) => Err(CommandError::usage(problem.to_string())
                .hint("`teamster config show` lists every setting and where it comes from")),
        }
    }

    /// What the store needs of them.
    pub fn store_settings(&self) -> Settings {
        Settings {
            lease: self.claim_lease.value,
            patience: self.store_patience.value,
            reservations: self.reservations.value,
            sync: if self.store_durable.value {
                Sync::Durable
            } else {
                Sync::Fast
            },
        }
    }

    /// What health is judged by.
    pub fn limits(&self) -> Limits {
        Limits {
            silent: self.silent_after.value,
            ..Limits::default()
        }
    }

    /// What a worker goes by.
    pub fn rules(&self) -> Rules {
        Rules {
            start: self.worker_start.value,
            idle: self.worker_idle.value,
            task: self.worker_task.value,
            // A lease is renewed twice before it ends.
            renew: Rules::default().renew.min(self.claim_lease.value / 3),
            ..Rules::default()
        }
    }

    /// Every setting with its value as it would be written, and its source.
    pub fn rows(&self) -> [(Key, Value, &Source); KEYS.len()] {
        let span = |setting: &Setting<Duration>| json!(say(setting.value));
        [
            (
                CLAIM_LEASE,
                span(&self.claim_lease),
                &self.claim_lease.source,
            ),
            (
                RESERVATIONS,
                json!(self.reservations.value.word()),
                &self.reservations.source,
            ),
            (
                STORE_DURABLE,
                json!(self.store_durable.value),
                &self.store_durable.source,
            ),
            (
                STORE_PATIENCE,
                span(&self.store_patience),
                &self.store_patience.source,
            ),
            (
                SILENT_AFTER,
                span(&self.silent_after),
                &self.silent_after.source,
            ),
            (
                TEAM_ENABLED,
                json!(self.team_enabled.value),
                &self.team_enabled.source,
            ),
            (
                WORKER_START,
                span(&self.worker_start),
                &self.worker_start.source,
            ),
            (
                WORKER_IDLE,
                span(&self.worker_idle),
                &self.worker_idle.source,
            ),
            (
                WORKER_TASK,
                span(&self.worker_task),
                &self.worker_task.source,
            ),
            (
                WORKER_SHELL,
                json!(self.worker_shell.value),
                &self.worker_shell.source,
            ),
        ]
    }
}

impl Key {
    /// The variable that overrides it.
    pub fn variable(self) -> &'static str {
        self.variable
    }
}

struct Layers {
    project: SettingsFile,
    user: SettingsFile,
    problems: Vec<Problem>,
}

impl Layers {
    fn read(layout: &Layout) -> Self {
        Self {
            project: SettingsFile::read(&layout.project_config, false),
            user: SettingsFile::read(&layout.user_config, true),
            problems: Vec::new(),
        }
    }

    fn name_unknown_keys(&mut self) {
        for file in [&self.project, &self.user] {
            self.problems.extend(file.problems.iter().cloned());
            for (name, line) in file.names() {
                let section = name.split('.').next();
                let is_ours = KEYS.iter().any(|key| key.name == name);
                let near = KEYS
                    .iter()
                    .find(|key| key.name.split('.').next() == section)
                    .map_or_else(String::new, |key| format!("; did you mean `{}`?", key.name));
                if !is_ours {
                    self.problems.push(Problem {
                        place: at(&file.path, line),
                        error: format!("nobody knows the setting `{name}`{near}"),
                        fatal: false,
                    });
                }
            }
        }
    }

    /// The value of the highest layer that has one.
    fn find<T>(
        &mut self,
        key: Key,
        default: T,
        parse: fn(&Raw) -> std::result::Result<T, &'static str>,
    ) -> Setting<T> {
        let variable = env_vars::text(key.variable)
            .map(|text| (Raw::Text(text), Source::Variable(key.variable)));
        let project = self
            .project
            .get(key.name)
            .map(|(raw, line)| (raw, Source::Project(self.project.path.clone(), line)));
        let user = self
            .user
            .get(key.name)
            .map(|(raw, line)| (raw, Source::User(self.user.path.clone(), line)));
        if let Some((raw, source)) = variable.or(project).or(user) {
            match parse(&raw) {
                Ok(value) => return Setting { value, source },
                Err(expected) => self.problems.push(Problem {
                    place: source.to_string(),
                    error: format!("`{}` is {raw}, expected {expected}", key.name),
                    fatal: true,
                }),
            }
        }
        Setting {
            value: default,
            source: Source::Default,
        }
    }
}

fn at(file: &Path, line: usize) -> String {
    format!("{}, line {line}", file.display())
}

fn reservations(raw: &Raw) -> std::result::Result<Reservations, &'static str> {
    let word = match raw {
        Raw::Text(text) => Reservations::of(text),
        _ => None,
    };
    word.ok_or("\"enforce\", \"warn\" or \"off\"")
}

fn span(raw: &Raw) -> std::result::Result<Duration, &'static str> {
    let parsed = match raw {
        Raw::Text(text) => parse_span(text),
        _ => None,
    };
    parsed
        .filter(|span| !span.is_zero())
        .ok_or("a time such as \"5s\", \"10m\" or \"24h\"")
}

fn flag(raw: &Raw) -> std::result::Result<bool, &'static str> {
    match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Text(text) if text == "true" || text == "1" => Ok(true),
        Raw::Text(text) if text == "false" || text == "0" => Ok(false),
        _ => Err("true or false"),
    }
}

/// A span in the form that is read back: the largest unit that divides it.
fn say(span: Duration) -> String {
    let millis = span.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    units
        .iter()
        .find(|(unit, _)| millis.is_multiple_of(*unit))
        .map_or_else(
            || format!("{millis}ms"),
            |(unit, word)| format!("{}{word}", millis / unit),
        )
}

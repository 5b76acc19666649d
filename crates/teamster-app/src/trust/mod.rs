//! Whether commands that come with a project may run.
//!
//! A repository may come from anyone. The commands in its `.teamster` folder, the permissions that it grants to agents,
//! and the checks found in its files count only after the user has seen and accepted them. Any change has to be
//! accepted again. Code that runs one of them checks what it actually read once more, immediately before running it
//! ([`CurrentTrust`]), so that nothing can change between the answer and the run.

mod accepted;
mod capabilities;
mod run;
mod snapshot;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use teamster_agents::Provider;
use teamster_fs::layout::Layout;
use teamster_journal::payload::{Check, CheckOrigin};
use teamster_store::{Clock as _, SystemClock};
use teamster_types::text::{plain, plain_line};

use crate::app::App;
use crate::config::Config;
use crate::error::{AppError, Result};
use crate::presets::Presets;
pub use accepted::{TrustRecord, revoke};
pub use run::{CurrentTrust, accepted_prompts, require_for_run, worktree_setup};
pub use snapshot::Snapshot;

/// A capability that the project's files request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProjectCapability {
    /// The setting that requests it.
    pub setting: String,
    /// The command, or what is allowed.
    pub text: String,
    /// The file and its line.
    pub from: String,
    #[serde(skip)]
    needed: CapabilityUse,
    /// Whether it was found in a file that does not belong to teamster, such as a Makefile.
    #[serde(skip)]
    is_found: bool,
}

/// When a capability is used.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CapabilityUse {
    /// Whenever an agent runs.
    Always,
    /// When an agent gets a prompt.
    Prompt,
    /// When an agent of this provider runs.
    By(String),
    /// When a worktree is prepared.
    Setup,
    /// When a run is verified by this command.
    Check,
}

/// The trust state of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustState {
    /// It requests nothing.
    Nothing,
    /// Its requests were accepted.
    Accepted,
    /// The user has never been asked about it.
    New,
    /// It has changed since it was accepted.
    Changed,
}

impl TrustState {
    /// Returns the name in `--json`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Accepted => "accepted",
            Self::New => "new",
            Self::Changed => "changed",
        }
    }
}

/// What a project requests, and what was accepted.
#[derive(Clone, Debug)]
pub struct ProjectDemands {
    layout: Layout,
    /// Every requested capability.
    pub capabilities: Vec<ProjectCapability>,
    /// The current state of its files.
    pub snapshot: Snapshot,
    /// What was accepted, if anything.
    pub accepted: Option<TrustRecord>,
}

/// How to treat a project that is not trusted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntrustedPolicy {
    /// Refuse it.
    Refuse,
    /// Ask the person at the terminal.
    Ask,
    /// Accept it, because the user passed a flag.
    Accept,
}

impl UntrustedPolicy {
    /// Returns the choice that `--trust-project` makes.
    pub fn of_flag(trust_project: bool) -> Self {
        if trust_project {
            Self::Accept
        } else {
            Self::Ask
        }
    }
}

/// An agent that is about to be started.
#[derive(Clone, Copy, Debug)]
pub struct PlannedStart<'a> {
    /// The provider of the agent.
    pub provider: &'a Provider,
    /// The script that it plays, as it was read for that; `None` before it was read.
    pub script: Option<&'a [u8]>,
    /// Whether it gets a worktree, which has to be prepared.
    pub has_worktree: bool,
}

/// A team that is about to be started.
#[derive(Clone, Copy, Debug)]
pub struct TeamPlan<'a> {
    /// The providers of all its members, and of the planner.
    pub providers: &'a [Provider],
    /// Whether they get worktrees.
    pub has_worktrees: bool,
    /// The commands that verify the result.
    pub checks: &'a [Check],
}

impl PlannedStart<'_> {
    fn needs(&self, capability: &ProjectCapability) -> bool {
        TeamPlan {
            providers: std::slice::from_ref(self.provider),
            has_worktrees: self.has_worktree,
            checks: &[],
        }
        .needs(capability)
    }
}

impl TeamPlan<'_> {
    fn needs(&self, capability: &ProjectCapability) -> bool {
        match &capability.needed {
            CapabilityUse::Always | CapabilityUse::Prompt => true,
            // A rule for a kind applies to every provider of that kind.
            CapabilityUse::By(name) => self
                .providers
                .iter()
                .any(|provider| *name == provider.name || name == provider.kind.word()),
            CapabilityUse::Setup => self.has_worktrees,
            CapabilityUse::Check => self.checks.iter().any(|check| {
                check.origin == CheckOrigin::Project && check.command == capability.text
            }),
        }
    }
}

impl ProjectDemands {
    /// Examines a project with the settings that were read from it.
    pub fn read(layout: &Layout, config: &Config) -> Result<Self> {
        Self::read_with(layout, config, &Presets::of_project(layout, config)?)
    }

    /// Examines a project with the settings and presets that were read from it.
    pub fn read_with(layout: &Layout, config: &Config, presets: &Presets) -> Result<Self> {
        Ok(Self {
            layout: layout.clone(),
            capabilities: capabilities::all(layout, config, presets)?,
            snapshot: Snapshot::take(&layout.project, config, presets)?,
            accepted: accepted::find(layout)?,
        })
    }

    /// Returns its trust state.
    pub fn state(&self) -> TrustState {
        match &self.accepted {
            _ if self.capabilities.is_empty() => TrustState::Nothing,
            None => TrustState::New,
            Some(_)
                if self
                    .capabilities
                    .iter()
                    .all(|capability| self.accepts(capability)) =>
            {
                TrustState::Accepted
            }
            Some(_) => TrustState::Changed,
        }
    }

    /// Returns whether the user accepted this: the project's settings in their current state, or a check by its text.
    fn accepts(&self, capability: &ProjectCapability) -> bool {
        self.accepted.as_ref().is_some_and(|accepted| {
            let is_same = !capability.is_found && accepted.digest == self.snapshot.digest;
            is_same
                || capability.needed == CapabilityUse::Check
                    && accepted.checks.contains(&capability.text)
        })
    }

    /// Records that the user accepts it in its current state.
    pub fn accept(&self, app: &App) -> Result {
        app.must_be_a_person("trusting a project")?;
        accepted::put(
            &self.layout,
            &TrustRecord {
                digest: self.snapshot.digest.clone(),
                at: SystemClock.now(),
                files: self.snapshot.files.clone(),
                checks: self.checks(),
            },
        )
    }

    /// Returns every check that was accepted before or is requested now. An accepted check stays accepted when the file
    /// that contains it changes.
    fn checks(&self) -> BTreeSet<String> {
        let before = self.accepted.iter().flat_map(|accepted| &accepted.checks);
        let now = self.capabilities.iter();
        let now = now.filter(|capability| capability.needed == CapabilityUse::Check);
        before
            .chain(now.map(|capability| &capability.text))
            .cloned()
            .collect()
    }

    /// Returns a description of everything it requests, for people.
    pub fn words(&self) -> String {
        self.words_about(|_| true)
    }

    fn words_about(&self, is_shown: impl Fn(&ProjectCapability) -> bool) -> String {
        let mut text = format!(
            "{} comes with settings that {}:\n",
            plain_line(&self.layout.project.display().to_string()),
            match self.state() {
                TrustState::Changed => "have changed since you accepted them",
                TrustState::Accepted => "you accepted",
                _ => "run commands or allow agents more",
            }
        );
        for capability in self
            .capabilities
            .iter()
            .filter(|capability| is_shown(capability))
        {
            let lines = plain(&capability.text).replace('\n', "\n      ");
            let (setting, from) = (
                plain_line(&capability.setting),
                plain_line(&capability.from),
            );
            let _ = writeln!(text, "  {setting}: {lines}\n    ({from})");
        }
        text
    }

    /// Shows what was not accepted yet and asks the user; returns whether it was accepted.
    pub fn ask(&self, app: &App) -> Result<bool> {
        app.must_be_a_person("trusting a project")?;
        let question = self.words_about(|capability| !self.accepts(capability));
        if app
            .confirm
            .is_some_and(|confirm| confirm(&question, "Run them? [y/N] "))
        {
            self.accept(app)?;
            return Ok(true);
        }
        Ok(false)
    }
}

/// Requires that everything of a project that is about to run was accepted.
pub fn require(
    app: &App,
    layout: &Layout,
    config: &Config,
    plan: &PlannedStart<'_>,
    unknown: UntrustedPolicy,
) -> Result {
    let project = ProjectDemands::read(layout, config)?;
    require_those(app, &project, |capability| plan.needs(capability), unknown)?;
    if plan.has_worktree {
        run::refuse_denied_links(layout, config)?;
    }
    project.refuse_other_script(plan)
}

fn require_those(
    app: &App,
    project: &ProjectDemands,
    is_needed: impl Fn(&ProjectCapability) -> bool,
    unknown: UntrustedPolicy,
) -> Result {
    if unknown == UntrustedPolicy::Accept && !project.capabilities.is_empty() {
        return project.accept(app);
    }
    let refused = project.refuse_unaccepted(is_needed);
    if refused.is_err() && unknown == UntrustedPolicy::Ask && app.can_ask() && project.ask(app)? {
        return Ok(());
    }
    refused
}

impl ProjectDemands {
    /// Refuses a script that is not one of the accepted files. It was read slightly before or after them, so its bytes
    /// must match one of them.
    fn refuse_other_script(&self, plan: &PlannedStart<'_>) -> Result {
        let is_named = |capability: &ProjectCapability| {
            matches!(capability.needed, CapabilityUse::By(_)) && plan.needs(capability)
        };
        if let Some(script) = plan.script
            && self.capabilities.iter().any(is_named)
            && !self.snapshot.has_script(script)
        {
            return Err(AppError::refused(format!(
                "the script of {} has changed since it was trusted",
                plan.provider.name
            ))
            .hint("`teamster trust` shows what the project asks for now"));
        }
        Ok(())
    }

    /// Refuses if a needed capability was not accepted.
    fn refuse_unaccepted(&self, is_needed: impl Fn(&ProjectCapability) -> bool) -> Result {
        let capabilities = self.capabilities.iter();
        let open: Vec<&ProjectCapability> = capabilities
            .filter(|capability| is_needed(capability) && !self.accepts(capability))
            .collect();
        if open.is_empty() {
            return Ok(());
        }
        let named: Vec<String> = open
            .iter()
            .map(|capability| {
                format!(
                    "{}: {} ({})",
                    capability.setting, capability.text, capability.from
                )
            })
            .collect();
        let why = match self.state() {
            TrustState::Changed => "has changed since it was trusted",
            _ => "is not trusted",
        };
        let instead = if open.iter().all(|capability| capability.is_found) {
            "; `--verify CMD` runs a command of your own instead"
        } else {
            ""
        };
        Err(AppError::refused(format!(
            "the project {} {why}, and would run: {}",
            self.layout.project.display(),
            named.join("; ")
        ))
        .hint(format!(
            "`teamster trust` shows all of it and asks; `--trust-project` accepts it{instead}"
        )))
    }
}

/// Returns a project's path as unambiguous text.
fn key(project: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let real = project.canonicalize().unwrap_or_else(|error| {
        tracing::debug!("cannot resolve {}: {error}", project.display());
        project.to_owned()
    });
    let mut key = String::new();
    for chunk in real.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' || character.is_control() {
                let _ = write!(key, "%{:02X}", u32::from(character));
            } else {
                key.push(character);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(key, "%{byte:02X}");
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn no_two_paths_have_one_key() {
        let of = |bytes: &[u8]| key(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(of("/no/such/프로젝트 x".as_bytes()), "/no/such/프로젝트 x");
        let odd: [&[u8]; 5] = [b"/n/\xff", b"/n/%FF", b"/n/\xfe", b"/n/\n", b"/n/%0A"];
        let keys: std::collections::BTreeSet<String> = odd.iter().map(|path| of(path)).collect();
        assert_eq!(keys.len(), odd.len(), "{keys:?}");
    }
}

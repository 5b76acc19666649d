//! The trust checks of a run: before it begins, and each time it runs something of the project.

use std::path::Path;

use teamster_agents::{CREDENTIALS, Driver, Provider};
use teamster_fs::layout::Layout;
use teamster_journal::payload::{Check, CheckOrigin, RunSpec};
use teamster_prompts::{PromptError, Prompts};
use teamster_run::host::ProjectTrust;
use teamster_types::denied;
use teamster_workers::workplace::{NotTrusted, WorktreeSetup};

use super::{
    CapabilityUse, PlannedStart, ProjectDemands, TeamPlan, UntrustedPolicy, capabilities,
    require_those,
};
use crate::app::App;
use crate::config::Config;
use crate::error::{AppError, Result};
use crate::presets::Presets;
use crate::prompts::PromptFiles;

/// What the user currently accepts for a project: files and answers are read again for each check.
#[derive(Clone, Debug)]
pub struct CurrentTrust {
    layout: Layout,
}

impl CurrentTrust {
    /// Creates the trust checks for the project of this layout.
    pub fn new(layout: Layout) -> Self {
        Self { layout }
    }
}

impl ProjectTrust for CurrentTrust {
    fn worktree_setup(&self) -> std::result::Result<WorktreeSetup, NotTrusted> {
        worktree_setup(&self.layout)
    }

    fn workers(&self, spec: &RunSpec) -> std::result::Result<(), NotTrusted> {
        let config = current(&self.layout)?;
        let project = ProjectDemands::read(&self.layout, &config)?;
        let providers = providers(&self.layout, &config, spec)?;
        let plan = TeamPlan {
            providers: &providers,
            has_worktrees: !spec.in_place,
            checks: &[],
        };
        Ok(project.refuse_unaccepted(|capability| plan.needs(capability))?)
    }

    fn agent(&self, word: &str) -> std::result::Result<(Provider, Box<dyn Driver>), NotTrusted> {
        let config = current(&self.layout)?;
        let provider = provider(&self.layout, &config, word)?;
        let driver = provider.driver();
        let plan = PlannedStart {
            provider: &provider,
            script: driver.script(),
            has_worktree: false,
        };
        let project = ProjectDemands::read(&self.layout, &config)?;
        project.refuse_unaccepted(|capability| plan.needs(capability))?;
        project.refuse_other_script(&plan)?;
        Ok((provider, driver))
    }

    fn prompts(&self) -> std::result::Result<Prompts, NotTrusted> {
        let config = current(&self.layout)?;
        let (prompts, _) = accepted_prompts(&self.layout, &config)?;
        Ok(prompts)
    }

    fn check(&self, check: &Check) -> std::result::Result<(), NotTrusted> {
        if check.origin == CheckOrigin::Person {
            return Ok(());
        }
        let config = current(&self.layout)?;
        let mut project = ProjectDemands::read(&self.layout, &config)?;
        project.add_checks(std::slice::from_ref(check));
        let is_it = |text: &str| text == check.command;
        Ok(project.refuse_unaccepted(|capability| {
            capability.needed == CapabilityUse::Check && is_it(&capability.text)
        })?)
    }
}

/// Returns the prompt templates, including those of the project if the user currently accepts them. An invalid template
/// is replaced by the built-in one, and the error says why: templates are validated before a run begins, and later
/// changes must not stop it.
pub fn accepted_prompts(
    layout: &Layout,
    config: &Config,
) -> Result<(Prompts, Option<PromptError>)> {
    let files = PromptFiles::load(layout)?;
    if files.project_files().next().is_some() {
        let project = ProjectDemands::read(layout, config)?;
        project.refuse_unaccepted(|capability| capability.needed == CapabilityUse::Prompt)?;
        let mut read = files.project_files();
        if !read.all(|(name, bytes)| project.snapshot.has_prompt(name, bytes)) {
            return Err(AppError::refused(
                "a prompt of the project has changed since it was trusted",
            )
            .hint("`teamster trust` shows what the project asks for now"));
        }
    }
    match files.prompts() {
        Ok(prompts) => Ok((prompts, None)),
        Err(error) => {
            tracing::warn!("uses the built-in prompts: {error}");
            let own = Prompts::new(Vec::new());
            let own = own.map_err(|error| AppError::refused(error.to_string()))?;
            Ok((own, Some(error)))
        }
    }
}

/// Returns the setup of a worktree of the project, if the user currently accepts it.
#[allow(
    clippy::disallowed_methods,
    reason = "this is the one place that looks at what the user accepted"
)]
pub fn worktree_setup(layout: &Layout) -> std::result::Result<WorktreeSetup, NotTrusted> {
    let config = current(layout)?;
    let project = ProjectDemands::read(layout, &config)?;
    project.refuse_unaccepted(|capability| capability.needed == CapabilityUse::Setup)?;
    refuse_denied_links(layout, &config)?;
    Ok(WorktreeSetup::accepted(
        config.worktree_link.value,
        config.worktree_link_writable.value,
        config.worktree_setup.value,
        config.worktree_setup_limit.value,
        CREDENTIALS,
    ))
}

/// Requires that everything of a project that this run may execute was accepted.
pub fn require_for_run(
    app: &App,
    layout: &Layout,
    config: &Config,
    presets: &Presets,
    spec: &RunSpec,
    unknown: UntrustedPolicy,
) -> Result {
    let mut project = ProjectDemands::read_with(layout, config, presets)?;
    // A resumed run may have checks whose file has changed since.
    project.add_checks(&spec.verify);
    let mut providers = providers(layout, config, spec)?;
    if let Some(leader) = spec.leading_agent() {
        providers.push(provider(layout, config, leader)?);
    }
    let plan = TeamPlan {
        providers: &providers,
        has_worktrees: !spec.in_place,
        checks: &spec.verify,
    };
    require_those(app, &project, |capability| plan.needs(capability), unknown)?;
    if spec.in_place {
        return Ok(());
    }
    refuse_denied_links(layout, config)
}

/// Refuses to link folders that no agent may touch, whether the user or the project configured them.
pub(super) fn refuse_denied_links(layout: &Layout, config: &Config) -> Result {
    let setting = &config.worktree_link;
    for link in &setting.value {
        let path = layout.project.join(link);
        let real = teamster_fs::real_path(&path).unwrap_or(path);
        let inside = real.strip_prefix(&layout.project).unwrap_or(&real);
        let denied = denied::folder_pattern(Path::new(link)).or(denied::folder_pattern(inside));
        if let Some(pattern) = denied {
            return Err(AppError::refused(format!(
                "`worktree.link` names `{link}`, which no agent may touch: {pattern} ({})",
                setting.source
            ))
            .hint("take it out of the list"));
        }
    }
    Ok(())
}

impl ProjectDemands {
    fn add_checks(&mut self, checks: &[Check]) {
        for check in checks {
            if check.origin == CheckOrigin::Project {
                let capability = capabilities::of_check(&self.capabilities, check);
                self.capabilities.extend(capability);
            }
        }
    }
}

/// Reads the current settings.
fn current(layout: &Layout) -> Result<Config> {
    let config = Config::load(layout);
    config.check()?;
    Ok(config)
}

fn providers(layout: &Layout, config: &Config, spec: &RunSpec) -> Result<Vec<Provider>> {
    let members = spec.members.iter();
    members
        .map(|member| provider(layout, config, &member.provider))
        .collect()
}

fn provider(layout: &Layout, config: &Config, word: &str) -> Result<Provider> {
    let mut providers = config.providers(&layout.project);
    let named = providers.named(word);
    named.map_err(|error| AppError::usage(error.to_string()))
}

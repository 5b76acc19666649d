//! The capabilities that the files of a project request.

use std::path::Path;

use teamster_agents::Rule;
use teamster_fs::Dir;
use teamster_fs::layout::Layout;
use teamster_journal::payload::Check;
use teamster_run::verify::detect;

use super::{CapabilityUse, ProjectCapability};
use crate::config::{Config, SettingSource};
use crate::env_vars;
use crate::error::Result;
use crate::presets::Presets;

/// Prefixes of providers that run a program named in the settings.
const PROGRAMS: [&str; 2] = ["command:", "scripted:"];

/// Returns every capability that a project requests.
pub(super) fn all(
    layout: &Layout,
    config: &Config,
    presets: &Presets,
) -> Result<Vec<ProjectCapability>> {
    let mut capabilities = of_providers(config);
    let capability = |setting: &str, text: &str, source: &SettingSource, needed: CapabilityUse| {
        ProjectCapability {
            setting: setting.to_owned(),
            text: text.to_owned(),
            from: source.to_string(),
            needed,
            is_found: false,
        }
    };
    for role in &config.roles {
        if matches!(role.source, SettingSource::Project(..)) && is_program(&role.provider) {
            let setting = format!("roles.{}", role.name);
            let needed = CapabilityUse::By(role.provider.clone());
            capabilities.push(capability(&setting, &role.provider, &role.source, needed));
        }
    }
    let setup = &config.worktree_setup;
    if matches!(setup.source, SettingSource::Project(..)) {
        let commands = setup.value.iter();
        capabilities.extend(commands.map(|command| {
            capability(
                "worktree.setup",
                command,
                &setup.source,
                CapabilityUse::Setup,
            )
        }));
    }
    let link = &config.worktree_link;
    if matches!(link.source, SettingSource::Project(..)) {
        let names = link.value.iter();
        capabilities.extend(
            names.map(|name| capability("worktree.link", name, &link.source, CapabilityUse::Setup)),
        );
    }
    let writable = &config.worktree_link_writable;
    if writable.value && matches!(writable.source, SettingSource::Project(..)) {
        let setting = "worktree.link_writable";
        capabilities.push(capability(
            setting,
            "true",
            &writable.source,
            CapabilityUse::Setup,
        ));
    }
    let permissions = [
        ("permissions.shell", &config.permissions_shell),
        ("permissions.other", &config.permissions_other),
    ];
    for (name, setting) in permissions {
        if setting.value == Rule::Allow && matches!(setting.source, SettingSource::Project(..)) {
            capabilities.push(capability(
                name,
                setting.value.word(),
                &setting.source,
                CapabilityUse::Always,
            ));
        }
    }
    capabilities.extend(of_presets(presets));
    for (name, _) in presets.prompts().project_files() {
        let setting = Path::new(name).file_stem().unwrap_or_default();
        capabilities.push(ProjectCapability {
            setting: format!("prompts.{}", setting.display()),
            text: "replaces what agents are told".to_owned(),
            from: name.to_owned(),
            needed: CapabilityUse::Prompt,
            is_found: false,
        });
    }
    if let Some(dir) = Dir::open_root(&layout.project)? {
        let path = env_vars::get(env_vars::PATH).unwrap_or_default();
        for check in detect(&dir, &path).checks {
            capabilities.extend(of_check(&capabilities, &check));
        }
    }
    Ok(capabilities)
}

/// Returns a check that was found in the project's own files as a capability, unless it is already known.
pub(super) fn of_check(known: &[ProjectCapability], check: &Check) -> Option<ProjectCapability> {
    let mut known = known.iter();
    let is_known = known.any(|capability| {
        capability.needed == CapabilityUse::Check && capability.text == check.command
    });
    (!is_known).then(|| ProjectCapability {
        setting: "verify".to_owned(),
        text: check.command.clone(),
        from: check.source.clone(),
        needed: CapabilityUse::Check,
        is_found: true,
    })
}

fn of_providers(config: &Config) -> Vec<ProjectCapability> {
    let asks = config.providers.iter().filter(|provider| {
        let runs = matches!(provider.kind(), "command" | "scripted");
        matches!(provider.source, SettingSource::Project(..))
            && (runs || !provider.section.secrets.is_empty())
    });
    asks.map(|provider| ProjectCapability {
        setting: format!("providers.{}", provider.name),
        text: provider.words(),
        from: provider.source.to_string(),
        needed: CapabilityUse::By(provider.name.clone()),
        is_found: false,
    })
    .collect()
}

fn of_presets(presets: &Presets) -> Vec<ProjectCapability> {
    let mut capabilities = Vec::new();
    for file in presets.of_the_project() {
        let preset = &file.preset;
        let mut add = |what: &str, text: &str, needed| {
            capabilities.push(ProjectCapability {
                setting: format!("teams.{}.{what}", preset.name),
                text: text.to_owned(),
                from: file.path.display().to_string(),
                needed,
                is_found: false,
            });
        };
        for (who, word) in file.agent_names() {
            if is_program(word) {
                add(who, word, CapabilityUse::By(word.to_owned()));
            }
        }
        for command in &preset.verify {
            add("verify", command, CapabilityUse::Check);
        }
    }
    capabilities
}

fn is_program(word: &str) -> bool {
    PROGRAMS.iter().any(|kind| word.starts_with(kind))
}

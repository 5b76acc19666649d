//! What the files of a project would have us do.

use teamster_agents::Rule;

use super::{Needed, Wish};
use crate::config::{Config, Source};
use crate::presets::Presets;

/// Providers that are a program of whoever names them.
const PROGRAMS: [&str; 2] = ["command:", "scripted:"];

/// Everything.
pub(super) fn all(config: &Config, presets: &Presets) -> Vec<Wish> {
    let mut wishes = of_providers(config);
    let wish = |setting: &str, text: &str, source: &Source, needed: Needed| Wish {
        setting: setting.to_owned(),
        text: text.to_owned(),
        from: source.to_string(),
        needed,
    };
    for role in &config.roles {
        if matches!(role.source, Source::Project(..)) && is_program(&role.provider) {
            let setting = format!("roles.{}", role.name);
            let needed = Needed::By(role.provider.clone());
            wishes.push(wish(&setting, &role.provider, &role.source, needed));
        }
    }
    let setup = &config.worktree_setup;
    if matches!(setup.source, Source::Project(..)) {
        let commands = setup.value.iter();
        wishes.extend(
            commands.map(|command| wish("worktree.setup", command, &setup.source, Needed::Setup)),
        );
    }
    let permissions = [
        ("permissions.shell", &config.permissions_shell),
        ("permissions.other", &config.permissions_other),
    ];
    for (name, setting) in permissions {
        if setting.value == Rule::Allow && matches!(setting.source, Source::Project(..)) {
            wishes.push(wish(
                name,
                setting.value.word(),
                &setting.source,
                Needed::Always,
            ));
        }
    }
    wishes.extend(of_presets(presets));
    wishes
}

fn of_providers(config: &Config) -> Vec<Wish> {
    let asks = config.providers.iter().filter(|provider| {
        let runs = matches!(provider.kind(), "command" | "scripted");
        matches!(provider.source, Source::Project(..))
            && (runs || !provider.section.secrets.is_empty())
    });
    asks.map(|provider| Wish {
        setting: format!("providers.{}", provider.name),
        text: provider.words(),
        from: provider.source.to_string(),
        needed: Needed::By(provider.name.clone()),
    })
    .collect()
}

fn of_presets(presets: &Presets) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for file in presets.of_the_project() {
        let preset = &file.preset;
        let mut add = |what: &str, text: &str, needed| {
            wishes.push(Wish {
                setting: format!("teams.{}.{what}", preset.name),
                text: text.to_owned(),
                from: file.path.display().to_string(),
                needed,
            });
        };
        for (who, word) in file.words() {
            if is_program(word) {
                add(who, word, Needed::By(word.to_owned()));
            }
        }
        for command in &preset.verify {
            add("verify", command, Needed::Verify(preset.name.clone()));
        }
    }
    wishes
}

fn is_program(word: &str) -> bool {
    PROGRAMS.iter().any(|kind| word.starts_with(kind))
}

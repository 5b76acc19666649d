use super::*;

fn providers(toml: &str) -> Result<Providers, ProviderError> {
    let sections: BTreeMap<String, Configured> = toml::from_str(toml).unwrap();
    let mut providers = Providers::new(Path::new("/base"));
    for (name, section) in sections {
        providers.configure(&name, section)?;
    }
    Ok(providers)
}

fn kind(word: &str) -> Result<ProviderKind, ProviderError> {
    Providers::new(Path::new("/base"))
        .find(word)
        .map(|found| found.kind)
}

#[test]
fn the_words_of_the_specification_are_understood() {
    assert_eq!(kind("claude"), Ok(ProviderKind::Claude));
    assert_eq!(kind("codex"), Ok(ProviderKind::Codex));
    assert_eq!(kind("mcp-codex"), Ok(ProviderKind::Codex));
    assert_eq!(kind("gemini"), Ok(ProviderKind::Gemini));
    assert_eq!(kind("mcp-gemini"), Ok(ProviderKind::Gemini));
    assert_eq!(
        kind("command:make a:b"),
        Ok(ProviderKind::Command("make a:b".into()))
    );
    assert_eq!(
        kind("scripted:d/x.toml"),
        Ok(ProviderKind::Scripted("/base/d/x.toml".into()))
    );
    assert_eq!(
        kind("scripted:/x.toml"),
        Ok(ProviderKind::Scripted("/x.toml".into()))
    );
    assert_eq!(kind("claude-native"), Err(ProviderError::Native));
    assert_eq!(
        kind("claude:x"),
        Err(ProviderError::NoArgument("claude".into()))
    );
    assert_eq!(
        kind("command: "),
        Err(ProviderError::NeedsArgument("command".into()))
    );
    assert_eq!(
        kind("codec").unwrap_err().to_string(),
        "nobody knows the provider `codec`; there are claude, codex, gemini, command:… and scripted:…"
    );
}

#[test]
fn a_section_makes_a_provider_or_changes_a_built_in_one() {
    let providers = providers(
        "[aider]\nkind = 'command'\ncommand = 'aider --yes'\ncapabilities = ['code-edit']\n\
         secrets = ['OPENAI_API_KEY']\n[claude]\nmodel = 'opus'\n[fast]\nkind = 'claude'\nmodel = 'haiku'",
    )
    .unwrap();
    let aider = providers.find("aider").unwrap();
    assert_eq!(aider.kind, ProviderKind::Command("aider --yes".into()));
    assert_eq!(aider.capabilities, ["code-edit"]);
    assert_eq!(aider.secrets, ["OPENAI_API_KEY"]);
    assert_eq!(aider.driver().provider(), "command");
    let claude = providers.find("claude").unwrap();
    assert_eq!(claude.model.as_deref(), Some("opus"));
    assert_eq!(claude.capabilities, ["code-edit", "testing", "general"]);
    assert_eq!(
        providers.find("fast").unwrap().model.as_deref(),
        Some("haiku")
    );
    assert_eq!(
        providers.names(),
        ["aider", "claude", "codex", "fast", "gemini"]
    );
}

#[test]
fn a_section_that_makes_no_sense_is_refused() {
    for (toml, says) in [
        ("[x]\nkind = 'command'", "needs `command`"),
        ("[x]\ncommand = 'a'", "`kind` must be"),
        ("[x]\nkind = 'claude'\ncommand = 'a'", "for other kinds"),
        ("[x]\nkind = 'scripted'\ncommand = 'a'", "needs `file`"),
        ("['a b']\nkind = 'claude'", "no name"),
        (
            "[x]\nkind = 'command'\ncommand = 'a'\nsecrets = ['HOME']",
            "not withheld",
        ),
    ] {
        let error = providers(toml).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn the_command_line_defines_providers_too() {
    let mut providers = Providers::new(Path::new("/base"));
    providers.define("mine=command:x=1 make").unwrap();
    providers.define("demo=scripted:a.toml").unwrap();
    providers.define("second=codex").unwrap();
    assert_eq!(
        providers.find("mine").unwrap().kind,
        ProviderKind::Command("x=1 make".into())
    );
    assert_eq!(
        providers.find("demo").unwrap().kind,
        ProviderKind::Scripted("/base/a.toml".into())
    );
    assert_eq!(providers.find("second").unwrap().kind, ProviderKind::Codex);
    for wrong in ["mine", "=command:x", "a=nothing", "a=command:"] {
        assert!(providers.define(wrong).is_err(), "{wrong}");
    }
}

//! `teamster install CLIENT --mcp`: teamster's tools in the settings of the user's own client.

use std::path::PathBuf;

use crate::kit::TestProject;

/// Returns the clients, the paths of their settings, and realistic settings.
fn clients(project: &TestProject) -> Vec<(&'static str, PathBuf, Vec<&'static str>)> {
    let home = project.home();
    let json = vec![
        "{\n  \"theme\": \"dark\"\n}\n",
        "{\"a\":1,\"mcpServers\":{}}",
        "{\n\t\"mcpServers\": {\n\t\t\"x\": { \"command\": \"y\" }\n\t},\n\t\"b\": [1, 2]\n}",
        "{}",
    ];
    let toml = vec![
        "model = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\"",
        "# only a comment\n",
    ];
    vec![
        ("claude", home.join(".claude.json"), json.clone()),
        ("gemini", home.join(".gemini/settings.json"), json),
        ("codex", home.join(".codex/config.toml"), toml),
    ]
}

#[test]
fn tools_come_in_once_and_go_to_the_byte() {
    let project = TestProject::new();
    for (client, settings, texts) in clients(&project) {
        for text in texts {
            std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
            std::fs::write(&settings, text).unwrap();
            let install = ["install", client, "--mcp"];
            project.run(install.iter().chain(&["--dry-run"])).succeeds();
            assert_eq!(std::fs::read_to_string(&settings).unwrap(), text);
            project.run(install).succeeds();
            let with = std::fs::read_to_string(&settings).unwrap();
            assert!(with.contains("mcp") && with != text, "{client}: {with}");
            project.run(install).succeeds();
            assert_eq!(std::fs::read_to_string(&settings).unwrap(), with);
            project.run(["uninstall", client, "--mcp"]).succeeds();
            assert_eq!(
                std::fs::read_to_string(&settings).unwrap(),
                text,
                "{client}"
            );
            let left = super::backups(settings.parent().unwrap());
            assert!(left.is_empty(), "{client}: {left:?}");
        }
    }
}

#[test]
fn settings_that_were_not_there_are_gone_again() {
    let project = TestProject::new();
    for (client, settings, _) in clients(&project) {
        project.run(["install", client, "--mcp"]).succeeds();
        assert!(settings.exists(), "{client}");
        project.run(["uninstall", client, "--mcp"]).succeeds();
        assert!(!settings.exists(), "{client}");
    }
}

#[test]
fn what_the_user_changed_since_stays() {
    let project = TestProject::new();
    let (client, settings, _) = clients(&project).remove(0);
    std::fs::write(&settings, "{\n  \"a\": 1\n}\n").unwrap();
    project.run(["install", client, "--mcp"]).succeeds();
    let with = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, with.replace("\"a\": 1", "\"a\": 2")).unwrap();
    project.run(["uninstall", client, "--mcp"]).succeeds();
    let left = std::fs::read_to_string(&settings).unwrap();
    assert_eq!(left, "{\n  \"a\": 2\n}\n");
}

#[test]
fn agent_registers_nothing_and_unfit_settings_are_not_edited() {
    let project = TestProject::new();
    let (client, settings, _) = clients(&project).remove(0);
    let call = project.call(["install", client, "--mcp"]);
    call.env("TEAMSTER_WORKER", "worker-1").run().fails(6);
    std::fs::write(&settings, "{ // mine\n}").unwrap();
    let refused = project.run(["install", client, "--mcp"]).fails(6);
    assert!(
        refused.stderr.contains("not plain JSON"),
        "{}",
        refused.stderr
    );
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), "{ // mine\n}");
}

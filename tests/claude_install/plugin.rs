//! The plugin is complete, names only what exists, and finds the binary.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::{EVENTS, names, program, shown};
use crate::kit::TestProject;

const FILES: [&str; 9] = [
    ".claude-plugin/plugin.json",
    ".mcp.json",
    "README.md",
    "bin/teamster",
    "commands/team-approve.md",
    "commands/team-status.md",
    "commands/team.md",
    "hooks/hooks.json",
    "skills/teamster/SKILL.md",
];

fn read(project: &TestProject, path: &str) -> String {
    std::fs::read_to_string(project.folder().join("plug").join(path)).unwrap()
}

fn is_text(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|end| end == "md")
}

fn json_of(project: &TestProject, path: &str) -> Value {
    serde_json::from_str(&read(project, path)).unwrap()
}

#[test]
fn a_plugin_has_everything_that_the_client_loads() {
    let project = TestProject::new();
    let made = project
        .run(["plugin", "export", "plug", "--json"])
        .succeeds()
        .json();
    assert_eq!(
        made["plugin"],
        project.folder().join("plug").display().to_string()
    );
    let mut files: Vec<&str> = made["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file.as_str().unwrap())
        .collect();
    files.sort_unstable();
    assert_eq!(files, FILES);
    assert_eq!(
        names(&project.folder()),
        [".git", "plug"],
        "nothing beside it"
    );

    let manifest = json_of(&project, ".claude-plugin/plugin.json");
    assert_eq!(manifest["name"], "teamster");
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    let hooks = json_of(&project, "hooks/hooks.json");
    let events: Vec<&String> = hooks["hooks"].as_object().unwrap().keys().collect();
    assert_eq!(events, EVENTS);
    assert_eq!(
        hooks["hooks"]["Stop"],
        json!([{ "hooks": [{
            "type": "command",
            "command": "sh",
            "args": ["${CLAUDE_PLUGIN_ROOT}/bin/teamster", "hook", "Stop"],
            "timeout": 5,
        }] }])
    );
    assert_eq!(
        json_of(&project, ".mcp.json"),
        json!({ "mcpServers": { "teamster": {
            "command": "sh",
            "args": ["${CLAUDE_PLUGIN_ROOT}/bin/teamster", "mcp"],
        } } })
    );
    let approve = read(&project, "commands/team-approve.md");
    assert!(approve.contains("\ndisable-model-invocation: true\n"));
    for file in FILES.iter().filter(|file| is_text(file)) {
        let text = read(&project, file);
        let allowed = text
            .lines()
            .find(|line| line.starts_with("allowed-tools: "));
        for word in ["approve", "reject", "revise", "--approve", "trust"] {
            let allowed = allowed.unwrap_or_default();
            assert!(!allowed.contains(word), "{file} lets an agent {word}");
        }
    }
    let launcher = project.folder().join("plug/bin/teamster");
    assert_eq!(
        launcher.metadata().unwrap().permissions().mode() & 0o500,
        0o500
    );
}

/// The client would start teamster's own server, and every tool that the plugin names or allows is one of that
/// server.
#[test]
fn a_plugin_names_only_tools_that_its_server_has() {
    const PREFIX: &str = "mcp__plugin_teamster_teamster__";
    let project = TestProject::new();
    project.run(["plugin", "export", "plug"]).succeeds();
    let server = &json_of(&project, ".mcp.json")["mcpServers"]["teamster"];
    let root = project.folder().join("plug").display().to_string();
    let words = std::iter::once(&server["command"]).chain(server["args"].as_array().unwrap());
    let line: Vec<String> = words
        .map(|word| {
            word.as_str()
                .unwrap()
                .replace("${CLAUDE_PLUGIN_ROOT}", &root)
        })
        .map(|word| format!("'{word}'"))
        .collect();
    let requests = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
    ];
    let input: Vec<String> = requests.iter().map(Value::to_string).collect();
    project.write("requests", &(input.join("\n") + "\n"));
    // The input stays open until the reply arrives, like that of a client.
    let line = format!(
        ": > answers; {{ cat requests; i=0; until grep -q '\"id\":2' answers || test $i -gt 1200; do sleep 0.05; i=$((i + 1)); done; }} | {} > answers; cat answers",
        line.join(" ")
    );
    let ran = project.shell(&line).run().succeeds();
    let listed = ran.stdout.lines().find_map(|line| {
        let answer: Value = serde_json::from_str(line).ok()?;
        answer["result"]["tools"].as_array().cloned()
    });
    let tools: Vec<String> = listed
        .unwrap_or_else(|| panic!("no tools in {}", ran.stdout))
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    let mut named = 0;
    for file in FILES.iter().filter(|file| is_text(file)) {
        let text = read(&project, file);
        for part in text.split(PREFIX).skip(1) {
            let name: String = part
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            assert!(tools.contains(&name), "{file} names {name}: {tools:?}");
            named += 1;
        }
    }
    assert!(named >= 2 * tools.len() - 1, "{named} of {tools:?}");
    let team = read(&project, "commands/team.md");
    for tool in &tools {
        assert!(team.contains(&format!("`{tool}`")), "{tool} is not taught");
    }
}

#[test]
fn the_command_lets_the_session_lead_or_an_agent_of_its_own() {
    let project = TestProject::new();
    project.run(["plugin", "export", "plug"]).succeeds();
    let team = read(&project, "commands/team.md");
    assert!(!team.to_lowercase().contains("do not split"), "{team}");
    for part in [
        "**This session leads**",
        "**An agent of its own leads**",
        "`blockedBy`",
        "`accept`",
        "That decision is never yours.",
    ] {
        assert!(team.contains(part), "{part} is not in\n{team}");
    }
}

/// Every command in the plugin's texts exists.
#[test]
fn a_plugin_teaches_only_what_there_is() {
    let project = TestProject::new();
    project.run(["plugin", "export", "plug"]).succeeds();
    let mut tried = 0;
    for file in FILES {
        if !is_text(file) {
            continue;
        }
        let text = read(&project, file);
        for call in text
            .split('`')
            .filter_map(|part| part.strip_prefix("teamster "))
        {
            let words: Vec<&str> = call
                .split(' ')
                .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()))
                .collect();
            let help = project
                .run(words.iter().chain(&["--help"]))
                .succeeds()
                .stdout;
            for flag in call.split(' ').filter(|word| word.starts_with("--")) {
                assert!(
                    help.contains(flag),
                    "{file}: `teamster {call}` has no {flag}"
                );
            }
            tried += 1;
        }
    }
    assert!(tried > 20, "only {tried} commands were found");
}

#[test]
fn exporting_again_brings_a_plugin_up_to_date_and_keeps_what_else_is_there() {
    let project = TestProject::new();
    project.run(["plugin", "export", "plug"]).succeeds();
    project.write("plug/hooks/hooks.json", "{}");
    project.write("plug/mine.txt", "mine");
    project.run(["plugin", "export", "plug"]).succeeds();
    assert!(read(&project, "hooks/hooks.json").contains("SubagentStart"));
    assert_eq!(read(&project, "mine.txt"), "mine");
}

#[test]
fn a_foreign_folder_is_not_filled_without_force() {
    let project = TestProject::new();
    project.write("plug/README.md", "my own");
    let ran = project.run(["plugin", "export", "plug"]).fails(6);
    insta::assert_snapshot!(shown(&ran), @r"
    error: [root]/project/plug holds something other than a plugin that teamster created
    hint: name a new or empty folder, or replace what has the same name with --force
    ");
    assert_eq!(names(&project.folder().join("plug")), ["README.md"]);
    project.write("other/.claude-plugin/plugin.json", "{\"name\": \"other\"}");
    project.run(["plugin", "export", "other"]).fails(6);
    project.write("file", "x");
    project.run(["plugin", "export", "file"]).fails(6);
    project.run(["plugin", "export", "no/such/folder"]).fails(3);
    std::fs::create_dir(project.folder().join("empty")).unwrap();
    project.run(["plugin", "export", "empty"]).succeeds();

    project
        .run(["plugin", "export", "plug", "--force"])
        .succeeds();
    assert!(read(&project, "README.md").contains("teamster"));
}

#[test]
fn a_link_in_a_plugin_is_not_followed() {
    let project = TestProject::new();
    project.run(["plugin", "export", "plug"]).succeeds();
    let precious = project.home().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    let skill = project.folder().join("plug/skills/teamster/SKILL.md");
    std::fs::remove_file(&skill).unwrap();
    std::os::unix::fs::symlink(&precious, &skill).unwrap();
    project.run(["plugin", "export", "plug"]).fails(6);
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

#[test]
fn the_launcher_finds_the_binary_and_never_itself() {
    let project = TestProject::new();
    project.run(["plugin", "export", "plug"]).succeeds();
    project.run(["plugin", "export", "copy"]).succeeds();
    let version = format!("teamster {}\n", env!("CARGO_PKG_VERSION"));
    let launch = |line: &str, path: &str| project.shell(line).env("PATH", path).run();

    // Not on PATH: the exporting binary is used. The plugin's folder and that of a copy are on PATH, as in the
    // client.
    let ran = launch("sh plug/bin/teamster --version", "/usr/bin:/bin");
    assert_eq!(ran.succeeds().stdout, version);
    let both = "$PWD/plug/bin:$PWD/copy/bin:/usr/bin:/bin";
    let ran = launch(&format!("PATH={both} teamster --version"), "/usr/bin:/bin");
    assert_eq!(ran.succeeds().stdout, version);

    // On PATH: that binary is used, whichever exported the plugin.
    let bin = project.home().join("a b*/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("teamster"), "#!/bin/sh\necho \"other $*\"\n").unwrap();
    let runnable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(bin.join("teamster"), runnable).unwrap();
    let path = format!(".::{}:/usr/bin:/bin", bin.display());
    let ran = launch("sh plug/bin/teamster 'a  b'", &path);
    assert_eq!(ran.succeeds().stdout, "other a  b\n");
}

#[test]
fn without_the_binary_a_hook_is_quiet_and_a_command_says_so() {
    let project = TestProject::new();
    project.run(["plugin", "export", "plug"]).succeeds();
    let launcher = read(&project, "bin/teamster").replace(program(), "/nowhere/teamster");
    project.write("plug/bin/teamster", &launcher);
    let launch = |words: &str| {
        let line = format!("echo '{{}}' | sh plug/bin/teamster {words}");
        project.shell(&line).env("PATH", "/usr/bin:/bin").run()
    };
    let start = launch("hook SessionStart").succeeds();
    assert!(start.json()["systemMessage"].is_string());
    assert_eq!(launch("hook Stop").succeeds().stdout, "");
    launch("status").fails(127);
}

#[test]
fn hooks_that_would_be_told_twice_are_mentioned() {
    let project = TestProject::new();
    project.run(["install", "claude"]).succeeds();
    let ran = project.run(["plugin", "export", "plug"]).exits(0);
    insta::assert_snapshot!(shown(&ran), @r"
    wrote 9 files to [root]/project/plug
    try it: claude --plugin-dir [root]/project/plug
    warning: teamster's hooks are also in the user settings, so every event would be recorded twice; `teamster uninstall claude --scope user` takes them out there
    ");
    let json = project
        .run(["plugin", "export", "plug", "--json"])
        .succeeds()
        .json();
    assert_eq!(json["alsoInstalled"], json!(["user"]));
}

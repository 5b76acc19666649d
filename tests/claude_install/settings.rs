//! The user's own settings in realistic forms: after installing twice and uninstalling, every byte is as before.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{EVENTS, backups, commands, last_lines, names, program, shown, with_settings};
use crate::kit::{TestProject, copy_binary};

const MINIMAL: &str = "{\n  \"model\": \"opus\"\n}\n";

/// The settings of a long-time user of the client, with the hooks of two other tools.
const BIG: &str = r#"{
  "$schema": "https://json.schemastore.org/claude-code-settings.json",
  "permissions": {
    "allow": ["Bash(npm run lint)", "Bash(git diff:*)", "Read(~/.zshrc)"],
    "deny": [
      "Read(./.env)",
      "Read(./secrets/**)"
    ],
    "defaultMode": "acceptEdits"
  },
  "env": { "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS": "1", "FOO": "a \"quoted\" \u00e4 value" },
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [{ "type": "command", "command": "~/.claude/guard.sh" }] }
    ],
    "Stop": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "notify-send 'Claude is done'"
          },
          {
            "type": "command",
            "command": "node \"$HOME/.claude/plugins/omc/stop.mjs\"",
            "timeout": 10
          }
        ]
      }
    ],
    "UserPromptSubmit": []
  },
  "statusLine": {
    "type": "command",
    "command": "~/.claude/statusline.sh",
    "padding": 0
  },
  "enabledPlugins": {"formatter@tools": true},
  "cleanupPeriodDays": 30
}
"#;

const TABS: &str = "{\n\t\"env\": {\n\t\t\"A\": \"1\"\n\t},\n\t\"hooks\": {\n\t\t\"SessionStart\": [\n\t\t\t{\n\t\t\t\t\"matcher\": \"startup\",\n\t\t\t\t\"hooks\": [\n\t\t\t\t\t{\n\t\t\t\t\t\t\"type\": \"command\",\n\t\t\t\t\t\t\"command\": \"hello\"\n\t\t\t\t\t}\n\t\t\t\t]\n\t\t\t}\n\t\t]\n\t}\n}\n";

const CRLF: &str = "{\r\n    \"includeCoAuthoredBy\": false,\r\n    \"permissions\": {\r\n        \"allow\": []\r\n    }\r\n}\r\n";

const ONE_LINE: &str = r#"{"model":"sonnet","hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]},"spinnerTipsEnabled":false}"#;

/// Settings whose original form cannot be derived from the result: restoring every byte needs the backup.
const NEARLY_NOTHING: [&str; 8] = [
    "",
    " \n\n",
    "{}",
    "{}\n",
    "{ }\r\n",
    "{\n\t\"hooks\": {}\n}",
    "{\"hooks\":{\"Stop\":[],\"SessionEnd\":[  ]}}",
    "\u{feff}{\n}\n",
];

#[test]
fn real_settings_come_back_to_the_byte() {
    for text in [MINIMAL, BIG, TABS, CRLF, ONE_LINE] {
        in_and_out(text);
    }
}

#[test]
fn so_do_those_with_nothing_in_them() {
    for text in NEARLY_NOTHING {
        in_and_out(text);
    }
}

fn in_and_out(text: &str) {
    let project = with_settings(text);
    let made = project
        .run(["install", "claude", "--json"])
        .succeeds()
        .json();
    assert_eq!(made["changed"], true, "{text}");
    let installed = project.read("settings.json");
    assert_eq!(made["events"], json!(EVENTS));

    let settings: Value = serde_json::from_str(installed.trim_start_matches('\u{feff}')).unwrap();
    for event in EVENTS {
        let last = commands(&settings, event).pop().unwrap();
        assert_eq!(last, format!("{} hook {event}", program()), "after others");
        let groups = settings["hooks"][event].as_array().unwrap();
        assert_eq!(groups.last().unwrap()["hooks"][0]["timeout"], 5, "seconds");
    }
    if text.contains("\r\n") {
        let all = installed.matches('\n').count();
        assert_eq!(installed.matches("\r\n").count(), all, "{installed}");
    } else {
        assert!(!installed.contains('\r'), "{installed}");
    }

    let backup = backups(&project.claude(""));
    assert_eq!(backup.len(), 1, "{text}");
    assert_eq!(made["backup"], backup[0].display().to_string());
    assert_eq!(std::fs::read_to_string(&backup[0]).unwrap(), text);

    let again = project
        .run(["install", "claude", "--json"])
        .succeeds()
        .json();
    assert_eq!(again["changed"], false);
    assert_eq!(again["backup"], Value::Null);
    assert_eq!(again["diff"], "");
    assert_eq!(project.read("settings.json"), installed);

    let gone = project
        .run(["uninstall", "claude", "--json"])
        .succeeds()
        .json();
    assert_eq!(gone["changed"], true);
    assert_eq!(project.read("settings.json"), text);
    assert_eq!(names(&project.claude("")), ["settings.json"], "no clutter");
    let again = project
        .run(["uninstall", "claude", "--json"])
        .succeeds()
        .json();
    assert_eq!(again["changed"], false);
}

#[test]
fn settings_that_were_missing_are_missing_again() {
    let project = TestProject::new();
    let made = project
        .run(["install", "claude", "--json"])
        .succeeds()
        .json();
    assert_eq!(made["backup"], Value::Null);
    let rights = project.claude("settings.json").metadata().unwrap();
    assert_eq!(rights.permissions().mode() & 0o777, 0o600);
    project.run(["uninstall", "claude"]).succeeds();
    assert_eq!(names(&project.claude("")), [] as [&str; 0]);
}

#[test]
fn without_the_backup_only_what_could_be_either_way_is_not_as_it_was() {
    for text in [MINIMAL, BIG, TABS, CRLF, ONE_LINE] {
        let project = with_settings(text);
        project.run(["install", "claude"]).succeeds();
        for backup in backups(&project.claude("")) {
            std::fs::remove_file(backup).unwrap();
        }
        project.run(["uninstall", "claude"]).succeeds();
        assert_eq!(project.read("settings.json"), text);
    }
    let project = with_settings("{\n  \"hooks\": {}\n}\n");
    project.run(["install", "claude"]).succeeds();
    std::fs::remove_file(&backups(&project.claude(""))[0]).unwrap();
    project.run(["uninstall", "claude"]).succeeds();
    assert!(!project.claude("settings.json").exists());
}

#[test]
fn what_the_user_did_meanwhile_stays_and_so_does_the_backup() {
    let project = with_settings(MINIMAL);
    project.run(["install", "claude"]).succeeds();
    let edited = project
        .read("settings.json")
        .replace("\"opus\"", "\"haiku\"");
    std::fs::write(project.claude("settings.json"), edited).unwrap();
    let gone = project.run(["uninstall", "claude"]).succeeds();
    assert_eq!(
        project.read("settings.json"),
        MINIMAL.replace("opus", "haiku")
    );
    assert_eq!(
        backups(&project.claude("")).len(),
        1,
        "it has the old model"
    );
    insta::assert_snapshot!(last_lines(&shown(&gone), 2), @r"
    a backup with other content stays: [root]/home/.claude/settings.json.teamster-backup-[time]
    teamster's hooks are no longer in [root]/home/.claude/settings.json
    ");
}

#[test]
fn another_hook_in_our_group_stays() {
    let project = with_settings(MINIMAL);
    project.run(["install", "claude"]).succeeds();
    let mut settings: Value = serde_json::from_str(&project.read("settings.json")).unwrap();
    let theirs = json!({ "type": "command", "command": "theirs" });
    let hooks = settings["hooks"]["Stop"][0]["hooks"]
        .as_array_mut()
        .unwrap();
    hooks.push(theirs.clone());
    std::fs::write(project.claude("settings.json"), settings.to_string()).unwrap();
    project.run(["uninstall", "claude"]).succeeds();
    let left: Value = serde_json::from_str(&project.read("settings.json")).unwrap();
    assert_eq!(
        left,
        json!({ "model": "opus", "hooks": { "Stop": [{ "hooks": [theirs] }] } })
    );
}

#[test]
fn a_moved_binary_is_put_in_the_same_place() {
    let project = with_settings(BIG);
    let folder = project.home().join("o'brien's \"tools\" 김 $x");
    std::fs::create_dir_all(&folder).unwrap();
    let moved = folder.join("teamster");
    copy_binary(&moved);
    let run_moved = |args: &str| {
        let line = format!("exec \"$MOVED\" {args}");
        project.shell(&line).env("MOVED", &moved).run()
    };
    run_moved("install claude").succeeds();
    let there: Value = serde_json::from_str(&project.read("settings.json")).unwrap();
    let command = commands(&there, "Stop").pop().unwrap();
    // The shell reads the path back unchanged.
    let echoed = project
        .shell(&format!("set -- {command}; printf %s \"$1\""))
        .run();
    assert_eq!(echoed.stdout, moved.display().to_string());

    let back = project
        .run(["install", "claude", "--json"])
        .succeeds()
        .json();
    assert_eq!(back["changed"], true);
    let here: Value = serde_json::from_str(&project.read("settings.json")).unwrap();
    for event in EVENTS {
        let commands = commands(&here, event);
        let ours = commands
            .iter()
            .filter(|one| one.ends_with(&format!(" hook {event}")));
        assert_eq!(ours.count(), 1, "{commands:?}");
        assert_eq!(
            commands.last().unwrap(),
            &format!("{} hook {event}", program())
        );
    }
    project.run(["uninstall", "claude"]).succeeds();
    assert_eq!(project.read("settings.json"), BIG);
    assert_eq!(names(&project.claude("")), ["settings.json"]);
}

#[test]
fn a_link_on_the_path_is_what_the_client_calls() {
    let project = TestProject::new();
    let folder = project.home().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(program(), folder.join("teamster")).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    project
        .shell("teamster install claude")
        .env("PATH", path)
        .run()
        .succeeds();
    let settings: Value = serde_json::from_str(&project.read("settings.json")).unwrap();
    let expected = format!("{}/teamster hook Stop", folder.display());
    assert_eq!(commands(&settings, "Stop"), [expected]);

    let other = project.home().join("tm");
    copy_binary(&other);
    let line = format!("{} install claude", other.display());
    let ran = project
        .shell(&line)
        .env("PATH", "/usr/bin:/bin")
        .run()
        .fails(6);
    insta::assert_snapshot!(shown(&ran), @r"
    error: this binary is not called teamster: [root]/home/tm
    hint: its hooks would not be known again; call it teamster, or put a link of that name on PATH
    ");
}

#[test]
fn light_leaves_the_tools_out_and_can_be_changed() {
    let project = with_settings(BIG);
    let light = project
        .run(["install", "claude", "--light", "--json"])
        .json();
    assert_eq!(light["events"], json!(EVENTS[..10]));
    let settings: Value = serde_json::from_str(&project.read("settings.json")).unwrap();
    assert_eq!(commands(&settings, "PreToolUse"), ["~/.claude/guard.sh"]);
    assert_eq!(settings["hooks"].get("PostToolUse"), None);
    let light_text = project.read("settings.json");

    project.run(["install", "claude"]).succeeds();
    let settings: Value = serde_json::from_str(&project.read("settings.json")).unwrap();
    assert_eq!(
        settings["hooks"]["PostToolUse"][0]["matcher"],
        "^(Agent|Task.*|SendMessage)$"
    );
    assert_eq!(commands(&settings, "PreToolUse").len(), 2);
    project.run(["install", "claude", "--light"]).succeeds();
    assert_eq!(project.read("settings.json"), light_text);
    project.run(["uninstall", "claude"]).succeeds();
    assert_eq!(project.read("settings.json"), BIG);
    assert_eq!(names(&project.claude("")), ["settings.json"]);
}

#[test]
fn the_change_is_shown_and_a_dry_run_writes_nothing() {
    let project = with_settings(
        "{\n  \"env\": {\n    \"API_KEY\": \"sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaa\"\n  }\n}\n",
    );
    let before = project.read("settings.json");
    let dry = project
        .run(["install", "claude", "--light", "--dry-run"])
        .succeeds();
    let said = shown(&dry);
    let head: Vec<&str> = said.lines().take(20).collect();
    let said = format!("{}\n…\n{}", head.join("\n"), last_lines(&said, 7));
    insta::assert_snapshot!(said, @r#"
    --- [root]/home/.claude/settings.json
    +++ [root]/home/.claude/settings.json
    @@ -1,5 +1,117 @@
     {
       "env": {
         "API_KEY": "[redacted]"
    +  },
    +  "hooks": {
    +    "SubagentStart": [
    +      {
    +        "hooks": [
    +          {
    +            "type": "command",
    +            "command": "[teamster] hook SubagentStart",
    +            "timeout": 5
    +          }
    +        ]
    +      }
    +    ],
    +    "SubagentStop": [
    …
    +        ]
    +      }
    +    ]
       }
     }
    a backup would be kept in [root]/home/.claude/settings.json.teamster-backup-[time]
    nothing was written: this is a dry run
    "#);
    assert_eq!(project.read("settings.json"), before);
    assert_eq!(names(&project.claude("")), ["settings.json"]);
    let dry = project
        .run(["install", "claude", "--dry-run", "--json"])
        .json();
    assert_eq!(dry["changed"], false);
    assert_eq!(dry["dryRun"], true);
    assert!(!dry["diff"].as_str().unwrap().contains("sk-ant"), "{dry}");

    let missing = TestProject::new();
    missing.run(["install", "claude", "--dry-run"]).succeeds();
    assert_eq!(missing.files(), [] as [&str; 0], "not even a folder");
    missing
        .run(["install", "claude", "--scope", "local", "--dry-run"])
        .succeeds();
    assert_eq!(names(&missing.folder()), [".git"]);
}

#[test]
fn the_mode_of_the_settings_stays() {
    let project = with_settings(MINIMAL);
    let path = project.claude("settings.json");
    for mode in [0o644, 0o640, 0o600] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        project.run(["install", "claude"]).succeeds();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
        project.run(["uninstall", "claude"]).succeeds();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
    }
}

#[test]
fn a_worker_installs_nothing() {
    let project = TestProject::new();
    for command in [
        &["install", "claude"][..],
        &["uninstall", "claude"],
        &["plugin", "export", "x"],
    ] {
        let ran = project
            .call(command)
            .env("TEAMSTER_WORKER", "worker-1")
            .run();
        ran.fails(6);
    }
    assert_eq!(project.files(), [] as [&str; 0]);
}

#[test]
fn the_help_says_what_will_happen() {
    let project = TestProject::new();
    let help = project.run(["install", "claude", "--help"]).succeeds();
    insta::assert_snapshot!(help.stdout, @r"
    Add teamster's hooks to the settings of Claude Code

    Usage: teamster install claude [OPTIONS]

    Options:
          --json
              Print output as JSON

          --scope <SCOPE>
              The settings to change

              Possible values:
              - user:    Yours, for every project
              - project: This project's, shared with everyone who works on it
              - local:   This project's, for you only
              
              [default: user]

          --dry-run
              Show what would change, but change nothing

          --light
              Leave out tool hooks, which run twice per use of `Agent`, `Task*` and `SendMessage`

          --mcp
              Add the MCP tools instead of hooks: start runs, see their progress, talk to workers

          --store <URL>
              The store to use: postgres://user@host/database (no password), or files

      -h, --help
              Print help (see a summary with '-h')

    Only teamster's own hooks are changed; they are added after others. A backup is kept beside the
    file. Running it again changes nothing, unless teamster has moved: then its path is updated. In a
    project, .bkit/, .omc/ and .party/ are added to its .gitignore.
    Settings with comments are not edited (exit code 6): the hooks to paste are shown instead.

    Examples:
      teamster install claude --dry-run
      teamster install claude
      teamster install claude --scope local --light
    ");
    let help = project.run(["uninstall", "claude", "--help"]).succeeds();
    insta::assert_snapshot!(help.stdout, @r"
    Remove teamster's hooks from the settings of Claude Code

    Usage: teamster uninstall claude [OPTIONS]

    Options:
          --json
              Print output as JSON

          --scope <SCOPE>
              The settings to change

              Possible values:
              - user:    Yours, for every project
              - project: This project's, shared with everyone who works on it
              - local:   This project's, for you only
              
              [default: user]

          --dry-run
              Show what would change, but change nothing

          --mcp
              Remove the MCP tools instead of the hooks

          --store <URL>
              The store to use: postgres://user@host/database (no password), or files

      -h, --help
              Print help (see a summary with '-h')

    Every hook whose command is `teamster hook EVENT` is removed, and nothing else: settings that were
    not edited since are restored to the byte. The backup is removed if it has nothing that the
    settings lack.

    Examples:
      teamster uninstall claude --dry-run
      teamster uninstall claude
      teamster uninstall claude --scope local
    ");
}

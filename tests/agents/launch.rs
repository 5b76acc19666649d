//! The command line and environment of an agent's process.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use teamster_agents::{
    AgentInput, AgentTools, CREDENTIALS, CannotLaunch, Interrupt, Job, Launch, Permissions,
    Providers, ResumeSession, Rule, SoftSignal,
};

use super::{APP_SERVER, CLIENTS, STREAMS, driver, job};
use crate::kit::TestProject;

/// Makes a folder with programs of these names.
fn bin(project: &TestProject, names: &[&str]) -> PathBuf {
    let bin = project.home().join("bin");
    for name in names {
        program(&bin.join(name));
    }
    bin
}

fn program(file: &Path) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
}

fn words(launch: &Launch) -> Vec<&str> {
    launch
        .args
        .iter()
        .map(|word| word.to_str().unwrap())
        .collect()
}

fn set(launch: &Launch, name: &str) -> Option<OsString> {
    let found = launch.set.iter().find(|(key, _)| key == name)?;
    Some(found.1.clone())
}

#[test]
fn the_prompt_is_never_an_argument() {
    let project = TestProject::new();
    let bin = bin(&project, &CLIENTS);
    let permissions = Permissions::default();
    for word in ["claude", "codex", "gemini", "command:cat"] {
        let prompt = format!("--help; $(rm -rf x) 'ü {}", "long ".repeat(50_000));
        let job = Job {
            prompt: &prompt,
            path: bin.as_os_str(),
            ..job(Path::new("/w/tree"), &permissions)
        };
        let launch = driver(word).launch(&job).unwrap();
        let length: usize = launch.args.iter().map(|word| word.len()).sum();
        assert!(length < 1000, "{word}");
        let (AgentInput::Text(input) | AgentInput::Dialogue(input)) = &launch.input else {
            panic!("{word} gets no input");
        };
        assert!(input.len() > prompt.len() - 10, "{word}");
        if let AgentInput::Dialogue(line) = &launch.input {
            let line: serde_json::Value = serde_json::from_slice(line).unwrap();
            assert_eq!(line["message"]["content"][0]["text"], prompt);
        }
        assert_eq!(set(&launch, "TEAMSTER_WORKER").unwrap(), "worker-1");
        assert_eq!(set(&launch, "TEAMSTER_TASK_ID").unwrap(), "3");
        assert_eq!(
            set(&launch, "TEAMSTER_TASK_SUBJECT").unwrap(),
            "Fix the login form"
        );
        assert_eq!(
            set(&launch, "TEAMSTER_TASK_FILE").unwrap(),
            "/run/task.json"
        );
    }
}

#[test]
fn a_prompt_is_words_and_never_a_command_of_the_client() {
    let project = TestProject::new();
    let bin = bin(&project, &CLIENTS);
    let permissions = Permissions::default();
    for client in CLIENTS {
        for (prompt, sent) in [
            ("/help me", "Task:\n/help me"),
            ("  !ls", "Task:\n  !ls"),
            ("do / it", "do / it"),
        ] {
            let job = Job {
                prompt,
                path: bin.as_os_str(),
                ..job(Path::new("/w/tree"), &permissions)
            };
            let (AgentInput::Text(input) | AgentInput::Dialogue(input)) =
                driver(client).launch(&job).unwrap().input
            else {
                panic!("{client} gets no input");
            };
            let text = match serde_json::from_slice::<serde_json::Value>(&input) {
                Ok(line) => line["message"]["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
                Err(_) => String::from_utf8(input).unwrap(),
            };
            assert_eq!(text, sent, "{client}");
        }
    }
}

#[test]
fn the_command_lines_of_the_clients() {
    let project = TestProject::new();
    let bin = bin(&project, &CLIENTS);
    let permissions = Permissions::default();
    let plain = Job {
        path: bin.as_os_str(),
        ..job(Path::new("/w/.omc/tree"), &permissions)
    };
    let full = Job {
        git_dir: Some(Path::new("/w/.git")),
        model: Some("small"),
        resume: Some(ResumeSession {
            session: "abc",
            spent: None,
        }),
        ..plain
    };
    let mut text = String::new();
    for client in STREAMS {
        for job in [&plain, &full] {
            let launch = driver(client).launch(job).unwrap();
            text.extend([launch.command_line().as_str(), "\n"]);
        }
    }
    let text = text.replace(bin.to_str().unwrap(), "BIN");
    insta::assert_snapshot!(text, @r#"
    BIN/claude -p --input-format stream-json --output-format stream-json --verbose --permission-mode default --permission-prompt-tool stdio --replay-user-messages --strict-mcp-config
    BIN/claude -p --input-format stream-json --output-format stream-json --verbose --permission-mode default --permission-prompt-tool stdio --replay-user-messages --strict-mcp-config --model small --resume abc
    BIN/codex exec --json --skip-git-repo-check -C /w/.omc/tree -s workspace-write -c 'projects={"/w/.omc/tree"={trust_level="trusted"}}' -
    BIN/codex exec --json --skip-git-repo-check -C /w/.omc/tree -s workspace-write --add-dir /w/.git --add-dir /w/.git/worktrees/tree -c 'projects={"/w/.omc/tree"={trust_level="trusted"}}' -m small resume abc -
    BIN/codex app-server -c 'projects={"/w/.omc/tree"={trust_level="trusted"}}'
    BIN/codex app-server -c 'projects={"/w/.omc/tree"={trust_level="trusted"}}' -c 'sandbox_workspace_write.writable_roots=["/w/.git","/w/.git/worktrees/tree"]'
    BIN/gemini -o stream-json --skip-trust --approval-mode yolo
    BIN/gemini -o stream-json --skip-trust --approval-mode yolo -m small --resume abc
    "#);
}

#[test]
fn tools_are_registered_for_the_launch_only_and_never_asked_about() {
    let project = TestProject::new();
    let bin = bin(&project, &CLIENTS);
    let temp = project.home().join("temp");
    std::fs::create_dir_all(&temp).unwrap();
    let permissions = Permissions::default();
    let job = Job {
        path: bin.as_os_str(),
        temp: Some(&temp),
        teamster: Path::new("/opt/teamster"),
        tools: Some(AgentTools {
            socket: Path::new("/run/w 1/s"),
            patience: Duration::from_secs(600),
        }),
        ..job(Path::new("/w/tree"), &permissions)
    };
    for client in CLIENTS {
        let launch = driver(client).launch(&job).unwrap();
        assert_eq!(set(&launch, "TEAMSTER_SOCKET").unwrap(), "/run/w 1/s");
    }
    let claude = driver("claude").launch(&job).unwrap();
    let words_of_claude = words(&claude);
    let behind = |flag: &str| {
        let place = words_of_claude.iter().position(|word| *word == flag);
        words_of_claude[place.unwrap() + 1]
    };
    let config: Value = serde_json::from_str(behind("--mcp-config")).unwrap();
    let server = json!({
        "type": "stdio", "command": "/opt/teamster", "args": ["mcp"],
        "env": { "TEAMSTER_SOCKET": "/run/w 1/s" }, "alwaysLoad": true,
    });
    assert_eq!(config, json!({ "mcpServers": { "teamster": server } }));
    assert_eq!(behind("--allowedTools"), "mcp__teamster");
    assert_eq!(set(&claude, "MCP_TOOL_TIMEOUT").unwrap(), "630000");
    let codex = driver("codex").launch(&job).unwrap();
    let setting = words(&codex)
        .into_iter()
        .find_map(|word| word.strip_prefix("mcp_servers."));
    let setting: toml::Table = toml::from_str(setting.unwrap()).unwrap();
    let server = &setting["teamster"];
    assert_eq!(server["command"].as_str(), Some("/opt/teamster"));
    assert_eq!(server["args"][0].as_str(), Some("mcp"));
    assert_eq!(
        server["default_tools_approval_mode"].as_str(),
        Some("approve")
    );
    let socket = &server["env"]["TEAMSTER_SOCKET"];
    assert_eq!(socket.as_str(), Some("/run/w 1/s"));
    assert_eq!(server["tool_timeout_sec"].as_integer(), Some(630));
    let gemini = driver("gemini").launch(&job).unwrap();
    let home = set(&gemini, "GEMINI_CLI_HOME").unwrap();
    assert!(Path::new(&home).starts_with(&temp));
    let file = Path::new(&home).join(".gemini/settings.json");
    let settings: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let server = &settings["mcpServers"]["teamster"];
    assert_eq!(server["trust"], true);
    assert_eq!(server["env"]["TEAMSTER_SOCKET"], "/run/w 1/s");
}

#[test]
fn own_tools_of_claude_are_allowed_and_those_of_others_are_not() {
    let permissions = Permissions::default();
    let plain = job(Path::new("/w/tree"), &permissions);
    let with_tools = Job {
        tools: Some(AgentTools {
            socket: Path::new("/s"),
            patience: Duration::from_secs(1),
        }),
        ..plain
    };
    let ask = |job: &Job<'_>, tool: &str| {
        let request = json!({
            "type": "control_request", "request_id": "r",
            "request": { "subtype": "can_use_tool", "tool_name": tool, "input": {} },
        });
        let effects = driver("claude")
            .reader(job)
            .line(request.to_string().as_bytes());
        String::from_utf8(effects.replies[0].clone())
            .unwrap()
            .contains(r#""behavior":"allow""#)
    };
    assert!(ask(&with_tools, "mcp__teamster__message_send"));
    assert!(!ask(&with_tools, "mcp__teamsters__message_send"));
    assert!(!ask(&plain, "mcp__teamster__message_send"));
}

#[test]
fn an_agent_sees_the_credentials_of_its_own_client_only() {
    let project = TestProject::new();
    let bin = bin(&project, &CLIENTS);
    let permissions = Permissions::default();
    let names = [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "HOME",
        "CLAUDECODE",
        "GITHUB_TOKEN",
    ];
    let mut providers = Providers::new(Path::new("/"));
    let section =
        toml::from_str("kind = 'command'\ncommand = 'aider'\nsecrets = ['OPENAI_API_KEY']")
            .unwrap();
    providers.configure("aider", section).unwrap();
    for (word, kept) in [
        ("claude", Some("ANTHROPIC_API_KEY")),
        ("codex", Some("OPENAI_API_KEY")),
        ("gemini", Some("GEMINI_API_KEY")),
        ("command:env", None),
        ("aider", Some("OPENAI_API_KEY")),
    ] {
        let job = Job {
            path: bin.as_os_str(),
            ..job(Path::new("/w/tree"), &permissions)
        };
        let launch = providers.find(word).unwrap().driver().launch(&job).unwrap();
        let withheld = launch.withheld(names);
        for name in names {
            let expected =
                name == "CLAUDECODE" || (CREDENTIALS.contains(&name) && Some(name) != kept);
            assert_eq!(withheld.contains(&name), expected, "{word}: {name}");
        }
        assert!(
            launch
                .secrets
                .iter()
                .all(|secret| CREDENTIALS.contains(&secret.as_str())),
            "{word}"
        );
    }
}

#[test]
fn a_denied_shell_is_told_to_every_client() {
    let project = TestProject::new();
    let bin = bin(&project, &CLIENTS);
    let permissions = Permissions {
        shell: Rule::Deny,
        ..Permissions::default()
    };
    let job = Job {
        path: bin.as_os_str(),
        ..job(Path::new("/w/tree"), &permissions)
    };
    let codex = driver("codex").launch(&job).unwrap();
    assert!(
        words(&codex)
            .windows(2)
            .any(|pair| pair == ["--disable", "shell_tool"])
    );
    let gemini = driver("gemini").launch(&job).unwrap();
    assert!(words(&gemini).contains(&"auto_edit"));
    let has_no_shell = |shell| {
        let permissions = Permissions {
            shell,
            ..permissions
        };
        let job = Job {
            permissions: &permissions,
            ..job
        };
        let launch = driver(APP_SERVER).launch(&job).unwrap();
        words(&launch)
            .windows(2)
            .any(|pair| pair == ["--disable", "shell_tool"])
    };
    assert!(has_no_shell(Rule::Deny));
    assert!(!has_no_shell(Rule::Ask), "a person is asked");
}

#[test]
fn shell_that_only_reads_is_a_read_only_sandbox_or_none_at_all() {
    let project = TestProject::new();
    let bin = bin(&project, &CLIENTS);
    let permissions = Permissions {
        shell: Rule::Read,
        other: Rule::Deny,
        ..Permissions::default()
    };
    let job = Job {
        path: bin.as_os_str(),
        ..job(Path::new("/w/tree"), &permissions)
    };
    let codex = driver("codex").launch(&job).unwrap();
    let codex = words(&codex);
    assert!(
        codex.windows(2).any(|pair| pair == ["-s", "read-only"]),
        "{codex:?}"
    );
    assert!(!codex.contains(&"shell_tool"), "{codex:?}");
    let gemini = driver("gemini").launch(&job).unwrap();
    let mode = words(&gemini)
        .windows(2)
        .find(|pair| pair[0] == "--approval-mode")
        .map(|pair| pair[1].to_owned());
    assert_eq!(
        mode.as_deref(),
        Some("default"),
        "it runs no command and edits no file"
    );
}

#[test]
fn version_of_codex_decides_how_it_is_run() {
    let project = TestProject::new();
    let bin = project.home().join("bin");
    let permissions = Permissions::default();
    for (says, way) in [
        ("codex-cli 0.166.0", "app-server"),
        ("codex-cli 0.98.0", "exec"),
        ("codex-cli 0.0.0", "exec"),
        ("what?", "exec"),
    ] {
        let script = format!("#!/bin/sh\ntest \"$1\" = --version && echo '{says}'\n");
        program(&bin.join("codex"));
        std::fs::write(bin.join("codex"), script).unwrap();
        let job = Job {
            path: bin.as_os_str(),
            ..job(Path::new("/w/tree"), &permissions)
        };
        let driver = driver("codex");
        let launch = driver.launch(&job).unwrap();
        assert_eq!(words(&launch)[0], way, "{says}");
        // The stream is read by the protocol of the version that was launched, even if another one is installed
        // meanwhile.
        program(&bin.join("codex"));
        let line = br#"{"type":"thread.started","thread_id":"t"}"#;
        let starts = matches!(
            driver.reader(&job).line(line).events[..],
            [teamster_agents::AgentEvent::Started { .. }]
        );
        assert_eq!(starts, way == "exec", "{says}");
    }
}

#[test]
fn a_client_that_is_not_installed_is_named_with_what_to_do() {
    let permissions = Permissions::default();
    for client in CLIENTS {
        let job = Job {
            path: std::ffi::OsStr::new("/nowhere"),
            ..job(Path::new("/w/tree"), &permissions)
        };
        let error = driver(client).launch(&job).unwrap_err();
        assert!(matches!(error, CannotLaunch::NotInstalled { .. }));
        let text = error.to_string();
        assert!(
            text.contains(&format!("`{client}` is not on PATH")),
            "{text}"
        );
        assert!(text.contains("npm install -g"), "{text}");
    }
}

#[test]
fn the_native_codex_is_started_and_not_the_node_one() {
    let project = TestProject::new();
    let modules = project.home().join("lib/node_modules/@openai");
    let script = modules.join("codex/bin/codex.js");
    program(&script);
    let (platform, triple) = match std::env::consts::ARCH {
        "aarch64" => ("linux-arm64", "aarch64-unknown-linux-musl"),
        _ => ("linux-x64", "x86_64-unknown-linux-musl"),
    };
    let bin = project.home().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(&script, bin.join("codex")).unwrap();
    let permissions = Permissions::default();
    let job = Job {
        path: bin.as_os_str(),
        ..job(Path::new("/w/tree"), &permissions)
    };
    let started = || driver("codex").launch(&job).unwrap().program;
    assert_eq!(
        started(),
        bin.join("codex"),
        "without it the Node one must do"
    );
    let vendor = format!("codex-{platform}/vendor/{triple}/bin/codex");
    for place in [
        modules.join(&vendor),
        modules.join("codex/node_modules/@openai").join(&vendor),
    ] {
        program(&place);
        assert_eq!(started(), place);
    }
}

#[test]
fn codex_may_write_where_git_really_keeps_the_worktree() {
    let project = TestProject::new();
    let bin = bin(&project, &CLIENTS);
    let worktree = project.home().join("tree/worker-1");
    std::fs::create_dir_all(&worktree).unwrap();
    std::fs::write(
        worktree.join(".git"),
        "gitdir: /repo/.git/worktrees/worker-12\n",
    )
    .unwrap();
    let permissions = Permissions::default();
    let job = Job {
        path: bin.as_os_str(),
        git_dir: Some(Path::new("/repo/.git")),
        ..job(&worktree, &permissions)
    };
    let launch = driver("codex").launch(&job).unwrap();
    let words = words(&launch);
    let added: Vec<&str> = words
        .windows(2)
        .filter(|pair| pair[0] == "--add-dir")
        .map(|pair| pair[1])
        .collect();
    assert_eq!(added, ["/repo/.git", "/repo/.git/worktrees/worker-12"]);
}

#[test]
fn temp_files_go_where_the_job_says() {
    let project = TestProject::new();
    let bin = bin(&project, &CLIENTS);
    let permissions = Permissions::default();
    for client in CLIENTS {
        let job = Job {
            path: bin.as_os_str(),
            temp: Some(Path::new("/run/w1")),
            ..job(Path::new("/w/tree"), &permissions)
        };
        let launch = driver(client).launch(&job).unwrap();
        assert_eq!(set(&launch, "TMPDIR").unwrap(), "/run/w1", "{client}");
        let shared = "sandbox_workspace_write.exclude_slash_tmp=true";
        assert_eq!(words(&launch).contains(&shared), client == "codex");
    }
}

#[test]
fn each_client_is_interrupted_in_the_way_it_obeys() {
    assert_eq!(
        driver("codex").interrupt(),
        Interrupt::Signal(SoftSignal::Interrupt)
    );
    assert_eq!(
        driver("gemini").interrupt(),
        Interrupt::Signal(SoftSignal::Terminate)
    );
    assert_eq!(
        driver("command:x").interrupt(),
        Interrupt::Signal(SoftSignal::Terminate)
    );
    assert!(matches!(driver("claude").interrupt(), Interrupt::Line(_)));
}

#[test]
fn a_command_line_is_shown_quoted_and_without_secrets() {
    let permissions = Permissions::default();
    let job = job(Path::new("/w/tree"), &permissions);
    let command = "command:API_KEY=sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789 make 'a b'";
    let shown = driver(command).launch(&job).unwrap().command_line();
    assert!(shown.starts_with("/bin/sh -c '"), "{shown}");
    assert!(
        shown.contains("[redacted]") && !shown.contains("abcdefghij"),
        "{shown}"
    );
}

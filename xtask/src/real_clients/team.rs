//! Teams of real clients, judged by what their model servers were asked.
//!
//! - [`messages`]: a message in the middle of a task.
//! - [`late_mail`]: the same for a client that takes nothing while it works.
//! - [`led_run`]: a whole run with a leader, three workers of three vendors and a reviewer, beside a second team.
//! - [`tools`]: every client calls the tools of our server, and is asked for no permission.
//! - [`resolver`]: a client in its sandbox resolves a conflict that it could not resolve by git.
//!
//! Each claim is a line of a table. The scenes run inside the lab's surroundings of Claude Code; [`Surroundings`] adds the
//! other clients, and a model server that answers by a script.

mod late_mail;
mod led_run;
mod messages;
mod resolver;
mod tools;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::model_server::{ModelRequest, ModelServer, Step};
use super::{Lab, RealRun, Report};
use crate::product::{Finished, list, must, path_with};

/// The name of all these runs on the command line.
const NAME: &str = "team";
/// The version of Codex that the lab installs, and the oldest one that is run by its server.
const CODEX: &str = "0.166.0";
const OLD_CODEX: &str = "0.144.1";
const GEMINI: &str = "0.61.0";
/// The variable that says which Codex a scene is to take.
const CODEX_VERSION: &str = "SCENE_CODEX";
/// The variable that says which Claude Code a scene has.
const CLAUDE_VERSION: &str = "SCENE_CLAUDE";

/// Returns every run of a team.
pub(super) fn runs() -> impl Iterator<Item = RealRun> {
    let led = scene(
        "led-run",
        &["claude-2.1.325", "codex", "gemini"],
        "2.1.325",
        CODEX,
    );
    let resolver = scene("resolver", &["claude-2.1.325", "codex"], "2.1.325", CODEX);
    let tools = [
        scene("tools-claude", &["claude-2.1.325"], "2.1.325", CODEX),
        scene("tools-claude", &["claude-2.1.197"], "2.1.197", CODEX),
        scene(
            "tools-codex",
            &["claude-2.1.325", "codex"],
            "2.1.325",
            CODEX,
        ),
        scene("tools-codex", &["claude-2.1.325"], "2.1.325", OLD_CODEX),
        scene(
            "tools-gemini",
            &["claude-2.1.325", "gemini"],
            "2.1.325",
            CODEX,
        ),
    ];
    let late_mail = scene("late-mail", &["claude-2.1.325", "gemini"], "2.1.325", CODEX);
    let messages = messages::runs();
    [led]
        .into_iter()
        .chain(tools)
        .chain([resolver, late_mail])
        .chain(messages)
}

/// Returns a run that plays one scene with these versions of Claude Code and Codex.
fn scene(
    name: &'static str,
    clients: &'static [&'static str],
    claude: &'static str,
    codex: &'static str,
) -> RealRun {
    RealRun {
        name: NAME.to_owned(),
        clients,
        run: Box::new(move |lab| play_in(lab, name, claude, codex)),
    }
}

fn play_in(lab: &Lab, name: &str, claude: &str, codex: &str) -> Result<Report> {
    let clients = super::whole_run::clients_home()?;
    if codex == OLD_CODEX {
        install_codex(&clients, codex)?;
    }
    let surroundings = format!(
        "LAB_HOME={} {CODEX_VERSION}={codex} {CLAUDE_VERSION}={claude}",
        clients.display()
    );
    let variables = [
        ("XENV", &*surroundings),
        ("TMO", "900"),
        ("CLAUDE_VERSION", claude),
    ];
    lab.play("claude", &[], name, &variables)
}

/// Installs a version of Codex beside the one of the lab, unless it is there.
fn install_codex(clients: &Path, version: &str) -> Result<()> {
    let folder = clients.join(format!("codex-{version}"));
    if codex_program(clients, version).is_ok() {
        return Ok(());
    }
    std::fs::create_dir_all(&folder)?;
    let quietly = [
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ];
    let mut npm = Command::new("npm");
    npm.arg("install")
        .arg("--prefix")
        .arg(&folder)
        .args(quietly);
    must(npm.arg(format!("@openai/codex@{version}")))
}

/// Returns the native program of Codex, below the folder that npm made.
fn codex_program(clients: &Path, version: &str) -> Result<PathBuf> {
    let packages = clients.join(format!("codex-{version}/node_modules/@openai"));
    let missing = || format!("there is no codex {version} in {}", clients.display());
    for package in std::fs::read_dir(&packages).with_context(missing)? {
        let Ok(vendors) = std::fs::read_dir(package?.path().join("vendor")) else {
            continue;
        };
        for vendor in vendors {
            let program = vendor?.path().join("bin/codex");
            if program.is_file() {
                return Ok(program);
            }
        }
    }
    Err(anyhow::anyhow!(missing()))
}

/// Plays a scene inside the lab; `None` when it is not one of a team.
pub(super) fn play(name: &str) -> Option<Result<Report>> {
    if let Some(client) = name.strip_prefix(messages::SCENE) {
        return Some(messages::play(client));
    }
    if let Some(client) = name.strip_prefix("tools-") {
        return Some(tools::play(client));
    }
    match name {
        "late-mail" => Some(late_mail::play()),
        "led-run" => Some(led_run::play()),
        "resolver" => Some(resolver::play()),
        _ => None,
    }
}

/// All three clients on the PATH, with homes that lead to one model server of ours.
struct Surroundings {
    server: ModelServer,
    variables: Vec<(&'static str, String)>,
    path: std::ffi::OsString,
}

impl Surroundings {
    fn make(script: impl Fn(&ModelRequest) -> Step + Send + Sync + 'static) -> Result<Self> {
        let var = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
        let (out, home) = (PathBuf::from(var("LAB_OUT")?), PathBuf::from(var("HOME")?));
        let clients = PathBuf::from(var("LAB_HOME")?);
        let server = ModelServer::start(&out, script)?;
        let programs = out.join("clients");
        std::fs::create_dir_all(&programs)?;
        let link = |program: &Path, name: &str| {
            std::os::unix::fs::symlink(program, programs.join(name)).context("cannot link")
        };
        if let Ok(codex) = codex_program(&clients, &var(CODEX_VERSION)?) {
            link(&codex, "codex")?;
        }
        let gemini = clients.join(format!("gemini-cli-{GEMINI}/node_modules/.bin/gemini"));
        if gemini.exists() {
            link(&gemini, "gemini")?;
        }
        std::fs::create_dir_all(home.join(".codex"))?;
        std::fs::write(home.join(".codex/config.toml"), codex_settings(&server.url))?;
        std::fs::create_dir_all(home.join(".gemini"))?;
        std::fs::write(
            home.join(".gemini/settings.json"),
            gemini_settings().to_string(),
        )?;
        let variables = vec![
            ("ANTHROPIC_BASE_URL", server.url.clone()),
            ("GOOGLE_GEMINI_BASE_URL", server.url.clone()),
            ("GEMINI_API_KEY", "dummy".to_owned()),
            ("MOCK_KEY", "dummy".to_owned()),
        ];
        let path = path_with(&programs)?;
        Ok(Self {
            server,
            variables,
            path,
        })
    }

    /// Returns a call of teamster in a folder, not started yet.
    fn command(&self, folder: &Path, words: &[&str]) -> Command {
        let mut command = Command::new("teamster");
        command
            .args(words)
            .current_dir(folder)
            .env("PATH", &self.path);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns what a call prints as JSON, which must succeed.
    fn ask(&self, folder: &Path, words: &[&str]) -> Result<Value> {
        let finished = Finished::checked(&mut self.command(folder, words))?;
        Ok(finished.json().unwrap_or_default())
    }

    /// Returns every event of this type in the journal of a team.
    fn events(&self, folder: &Path, team: &str, kind: &str) -> Result<Vec<Value>> {
        let words = ["journal", "--team", team, "--type", kind, "--json"];
        let printed = self.ask(folder, &words)?;
        Ok(list(&printed["events"]).cloned().collect())
    }
}

fn codex_settings(url: &str) -> String {
    format!(
        "model = \"mock-model\"\nmodel_provider = \"mock\"\ncheck_for_update_on_startup = false\n\n\
         [analytics]\nenabled = false\n\n[otel]\nmetrics_exporter = \"none\"\n\n[features]\nplugins = false\n\n\
         [model_providers.mock]\nname = \"mock\"\nbase_url = \"{url}/v1\"\nenv_key = \"MOCK_KEY\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 1\nstream_max_retries = 1\n"
    )
}

fn gemini_settings() -> Value {
    json!({
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "security": { "auth": { "selectedType": "gemini-api-key" } },
    })
}

/// Makes a repository with these files in a folder beside the project of the lab.
fn new_project(name: &str, files: &[(&str, &str)]) -> Result<PathBuf> {
    let folder = std::env::current_dir()?.with_file_name(name);
    std::fs::create_dir_all(&folder)?;
    for (file, text) in files {
        std::fs::write(folder.join(file), text)?;
    }
    let who = [
        "-c",
        "user.name=dev",
        "-c",
        "user.email=dev@example.invalid",
    ];
    for words in [
        &["init", "--quiet"][..],
        &["add", "."],
        &["commit", "--quiet", "--message", "Begin"],
    ] {
        Finished::checked(
            Command::new("git")
                .args(who)
                .args(words)
                .current_dir(&folder),
        )?;
    }
    let has_head = git(&folder, &["rev-parse", "HEAD"])?.len() >= 40;
    ensure!(has_head, "{} has no commit", folder.display());
    Ok(folder)
}

fn git(folder: &Path, words: &[&str]) -> Result<String> {
    let finished = Finished::checked(Command::new("git").args(words).current_dir(folder))?;
    Ok(finished.stdout.trim().to_owned())
}

/// Returns the last message of a worker whose task is done.
fn done(summary: &str, handover: &str) -> Step {
    let report =
        json!({ "status": "done", "summary": summary, "handover": handover, "problems": [] });
    Step::Say(format!("That is it.\n\n```teamster\n{report}\n```"))
}

/// Returns the beginning of a text in one line.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(120).collect()
}

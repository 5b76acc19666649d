//! Teams of real clients, judged by the requests to their model servers.
//!
//! - [`messages`]: a message in the middle of a task, to each client.
//! - [`led_run`]: a whole run with a leader, three workers of three vendors and a reviewer, beside a second team.
//! - [`tools`]: every client calls the tools of teamster's server, without a permission request.
//! - [`resolver`]: a client in its sandbox resolves a conflict that it could not resolve by git.
//!
//! Each claim is a line of a table. The scenes run inside the lab's environment of Claude Code; [`Surroundings`] adds
//! the other clients, and a model server that answers by a script.

mod led_run;
mod messages;
mod resolver;
mod tools;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use teamster_testkit::RunCmd;

use super::model_server::{ModelRequest, ModelServer, Step};
use super::{Lab, RealRun, Report};
use crate::product::{Finished, list, must, path_with, wait_for, words};

/// Adds a claim to a report: whether it holds, its text, and what was observed.
macro_rules! claim {
    ($report:expr, $holds:expr => $what:expr, $($seen:tt)+) => {
        $report.claim(&$what, $holds, format!($($seen)+))
    };
}
use claim;

/// The group of all these runs on the command line.
pub(super) const NAME: &str = "team";
/// The newest version of Claude Code, as the lab's installer calls it.
const CLAUDE: &str = "claude-2.1.325";
/// The version of Codex that the lab installs, and the oldest one that is run by its server.
const CODEX: &str = "0.166.0";
const OLD_CODEX: &str = "0.144.1";
const GEMINI: &str = "0.61.0";
/// The variable with the version of Codex for a scene.
const CODEX_VERSION: &str = "SCENE_CODEX";
/// The variable with the version of Claude Code for a scene.
const CLAUDE_VERSION: &str = "SCENE_CLAUDE";
/// The only worker of most scenes.
pub(super) const WORKER: &str = "ann";
/// The timeout of every wait.
pub(super) const WAIT: Duration = Duration::from_secs(90);

/// The scenes with the scripted model server: the name, the required clients, and the versions of Claude Code and
/// Codex.
const SCENES: [(&str, &[&str], &str, &str); 10] = [
    ("led-run", &[CLAUDE, "codex", "gemini"], "2.1.325", CODEX),
    ("tools-claude", &[CLAUDE], "2.1.325", CODEX),
    ("tools-claude", &["claude-2.1.197"], "2.1.197", CODEX),
    ("tools-codex", &[CLAUDE, "codex"], "2.1.325", CODEX),
    ("tools-codex", &[CLAUDE], "2.1.325", OLD_CODEX),
    ("tools-gemini", &[CLAUDE, "gemini"], "2.1.325", CODEX),
    ("resolver", &[CLAUDE, "codex"], "2.1.325", CODEX),
    ("message-claude", &[CLAUDE], "2.1.325", CODEX),
    ("message-codex", &[CLAUDE, "codex"], "2.1.325", CODEX),
    ("message-gemini", &[CLAUDE, "gemini"], "2.1.325", CODEX),
];

/// Returns all runs of teams.
pub(super) fn runs() -> impl Iterator<Item = RealRun> {
    SCENES.into_iter().map(|(scene, clients, claude, codex)| {
        let name = format!("{NAME}-{scene}-claude-{claude}-codex-{codex}");
        RealRun::new(name, clients, move |lab| play_in(lab, scene, claude, codex))
    })
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

/// Installs a version of Codex beside the lab's, unless it is installed.
fn install_codex(clients: &Path, version: &str) -> Result<()> {
    let folder = clients.join(format!("codex-{version}"));
    if codex_program(clients, version).is_ok() {
        return Ok(());
    }
    std::fs::create_dir_all(&folder)?;
    let mut npm = Command::new("npm");
    let line = "install --ignore-scripts --no-audit --no-fund --loglevel=error --prefix";
    npm.args(words(line)).arg(&folder);
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
    bail!(missing())
}

/// Plays a scene inside the lab; `None` when it is not a scene of a team.
pub(super) fn play(name: &str) -> Option<Result<Report>> {
    Some(match name.split_once('-').unwrap_or((name, "")) {
        ("message", client) => messages::play(client),
        ("tools", client) => tools::play(client),
        ("led", "run") => led_run::play(),
        ("resolver", "") => resolver::play(),
        _ => return None,
    })
}

/// All three clients on the PATH, with homes that are configured for the scripted model server.
struct Surroundings {
    server: ModelServer,
    variables: Vec<(&'static str, OsString)>,
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
            ("ANTHROPIC_BASE_URL", server.url.clone().into()),
            ("GOOGLE_GEMINI_BASE_URL", server.url.clone().into()),
            ("GEMINI_API_KEY", "dummy".into()),
            ("MOCK_KEY", "dummy".into()),
            ("PATH", path_with(&programs)?),
        ];
        Ok(Self { server, variables })
    }

    /// Makes a repository with these files in a folder beside the project of the lab, for a team of this name.
    fn new_project(&self, name: &'static str, files: &[(&str, &str)]) -> Result<LabTeam> {
        let folder = std::env::current_dir()?.with_file_name(name);
        std::fs::create_dir_all(&folder)?;
        for (file, text) in files {
            std::fs::write(folder.join(file), text)?;
        }
        let variables = self.variables.clone();
        let team = LabTeam {
            name,
            folder,
            variables,
        };
        let who = "-c user.name=dev -c user.email=dev@example.invalid";
        for line in ["init --quiet", "add .", "commit --quiet --message Begin"] {
            team.git(&format!("{who} {line}"))?;
        }
        let has_head = team.git("rev-parse HEAD")?.len() >= 40;
        ensure!(has_head, "{} has no commit", team.folder.display());
        Ok(team)
    }
}

/// A team of real clients in a project inside the lab, and the calls of teamster for it.
pub(super) struct LabTeam {
    pub(super) name: &'static str,
    pub(super) folder: PathBuf,
    /// The variables that direct the clients to the scripted model server; empty if they use the lab's own.
    variables: Vec<(&'static str, OsString)>,
}

impl LabTeam {
    /// Returns a team in the project of the lab, whose clients use the lab's own model server.
    pub(super) fn of_lab(name: &'static str) -> Result<Self> {
        Ok(Self {
            name,
            folder: std::env::current_dir()?,
            variables: Vec::new(),
        })
    }

    /// Returns a call of teamster, not started yet: a line of words, and then arguments that may contain spaces.
    pub(super) fn command(&self, line: &str, more: &[&str]) -> Command {
        let mut command = Command::new("teamster");
        command.args(words(line)).args(more);
        command.env("TEAMSTER_TEAM", self.name);
        self.enter(&mut command);
        command
    }

    /// Returns a whole run of the team, not started yet.
    pub(super) fn run(&self, run: &RunCmd) -> Command {
        let mut command = Command::new("teamster");
        self.enter(command.args(run));
        command
    }

    /// Starts a whole run of the team, whose output goes to a file beside its project.
    pub(super) fn start_run(&self, run: &RunCmd) -> Result<Child> {
        let log = std::fs::File::create(self.folder.with_extension("log"))?;
        let mut command = self.run(run);
        command.stdin(Stdio::null()).stdout(log.try_clone()?);
        let child = command.stderr(log).spawn();
        child.context("the run cannot be started")
    }

    /// Writes a plan to a file beside the project and returns its path.
    pub(super) fn write_plan(&self, tasks: &str) -> Result<String> {
        let plan = self.folder.with_extension("toml");
        std::fs::write(&plan, tasks)?;
        Ok(plan.display().to_string())
    }

    fn enter(&self, command: &mut Command) {
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        command.current_dir(&self.folder).envs(variables);
    }

    /// Makes a call that must succeed, and returns its output if the line asks for JSON.
    pub(super) fn ask(&self, line: &str, more: &[&str]) -> Result<Value> {
        let finished = Finished::checked(&mut self.command(line, more))?;
        if !words(line).contains(&"--json") {
            return Ok(Value::Null);
        }
        let printed = finished.json();
        printed.with_context(|| format!("`teamster {line}` printed no JSON"))
    }

    /// Creates the team with one task.
    pub(super) fn create(&self, subject: &str, description: &str) -> Result<()> {
        self.ask("team create", &[self.name])?;
        self.create_task(subject, description)
    }

    /// Creates one more task.
    fn create_task(&self, subject: &str, description: &str) -> Result<()> {
        let texts = [subject, "--description", description];
        self.ask("task create --subject", &texts).map(drop)
    }

    /// Starts the worker with a client.
    fn start_worker(&self, client: &str) -> Result<()> {
        let line = format!("worker start --name {WORKER} --json --provider");
        self.ask(&line, &[client]).map(drop)
    }

    /// Ends everything that is left of the team.
    pub(super) fn shut_down(&self) -> Result<()> {
        let line = "shutdown --force --json --team";
        self.ask(line, &[self.name]).map(drop)
    }

    /// Returns every event of this type so far.
    pub(super) fn events(&self, kind: &str) -> Result<Vec<Value>> {
        let printed = self.ask("journal --json --type", &[kind])?;
        Ok(list(&printed["events"]).cloned().collect())
    }

    /// Waits for the first matching event of one of these types.
    fn until_event(&self, kinds: &[&str], fits: impl Fn(&Value) -> bool) -> Result<Value> {
        let found = wait_for(&kinds.join(" or "), WAIT, || {
            for kind in kinds {
                if let Some(event) = self.events(kind)?.into_iter().find(&fits) {
                    return Ok(Some(event));
                }
            }
            Ok(None)
        });
        found.or_else(|error| {
            let journal = Finished::of(&mut self.command("journal", &[]))?;
            bail!("{error:#}\n{}", journal.stdout)
        })
    }

    /// Waits for the first event of one of these types.
    pub(super) fn until(&self, kinds: &[&str]) -> Result<Value> {
        self.until_event(kinds, |_| true)
    }

    /// Waits until the agent runs this command.
    fn until_running(&self, command: &str) -> Result<Value> {
        self.until_event(&["agent.event"], |event| {
            event.to_string().contains(command)
        })
    }

    /// Runs git in the project and returns what it prints.
    pub(super) fn git(&self, line: &str) -> Result<String> {
        let mut git = Command::new("git");
        let finished = Finished::checked(git.args(words(line)).current_dir(&self.folder))?;
        Ok(finished.stdout.trim().to_owned())
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

/// Returns the last message of a worker whose task is done.
fn done(summary: &str, handover: &str) -> Step {
    let report =
        json!({ "status": "done", "summary": summary, "handover": handover, "problems": [] });
    Step::Say(format!("That is it.\n\n```teamster\n{report}\n```"))
}

/// Returns the beginning of a text, on one line.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(120).collect()
}

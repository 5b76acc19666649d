//! A process that hosts a run: it has the seat, finds what is needed, and says at the end how it went.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_isolate::git::{Git, Repo};
use teamster_journal::payload::RunSpec;
use teamster_run::host::{ExclusiveLock, Host, HostEnvironment, HostExit, ProjectLock, RunError};
use teamster_run::observer::GateReply;
use teamster_types::TeamName;
use teamster_workers::launch::{self, Launcher};

use super::desk::{self, Screen};
use super::leader::Leader;
use crate::commands::worker;
use crate::context::Context;
use crate::env_vars;
use crate::error::{CommandError, ErrorKind, Result};
use crate::notify::{Kind, notify};
use crate::presets::Presets;
use crate::trust::{self, CurrentTrust, Unknown};

/// How long one run of a check may take.
const CHECK_LIMIT: Duration = Duration::from_secs(30 * 60);
/// How long workers may take to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// How it went.
struct Hosted {
    team: TeamName,
    left: HostExit,
    /// How many rounds of mending it had.
    max_fix: u32,
}

/// What a team's run was ordered to do.
pub fn order_of(context: &Context, team: &TeamName) -> Result<RunSpec> {
    let config = context.read()?.team(team)?;
    let order = config.run().ok_or_else(|| {
        CommandError::not_found(format!("team {team} was not made by a run"))
            .hint("`teamster run` makes a team of its own")
    })?;
    RunSpec::strict(order).map_err(|error| {
        CommandError::new(
            ErrorKind::Failed,
            format!("the order of {team} cannot be read: {error}"),
        )
        .hint("look at config.json of the team; a newer teamster may have written it")
    })
}

/// Makes sure that the user accepts what comes with the project before a run that exists goes on.
pub fn require_trust(
    context: &Context,
    team: &TeamName,
    order: &RunSpec,
    unknown: Unknown,
) -> Result {
    let project = worker::project(context, team)?;
    let settings = worker::settings(context, &project)?;
    let presets = Presets::of_project(&settings.layout, &settings.config)?;
    trust::require_for_run(
        context,
        &settings.layout,
        &settings.config,
        &presets,
        order,
        unknown,
    )
}

/// Takes up a run that exists, to its end.
pub fn host(context: &Context, team: &TeamName, order: RunSpec) -> Result {
    let seat = seat(context, team)?.ok_or_else(busy)?;
    host_seated(context, team, order, seat, None)
}

/// The seat of a team's host; `None` when somebody else has it, or another run works in the project.
pub fn seat(context: &Context, team: &TeamName) -> Result<Option<ExclusiveLock>> {
    let project = worker::project(context, team)?;
    let dir = opened(&project)?;
    let Some(seat) = ProjectLock::take(&dir)? else {
        return Ok(None);
    };
    Ok(seat.with_team(&context.layout.of_project(&project), team)?)
}

/// Opens the folder of a project. One that is gone is not made again: nothing of the work would be in it.
fn opened(project: &Path) -> Result<Dir> {
    Dir::open_root(project)?.ok_or_else(|| {
        CommandError::not_found(format!("the project {} is not there", project.display()))
            .hint("the team works on that folder; bring it back, or remove the team")
    })
}

/// A run whose seat is taken already.
pub fn host_seated(
    context: &Context,
    team: &TeamName,
    order: RunSpec,
    seat: ExclusiveLock,
    answer: Option<GateReply>,
) -> Result {
    let hosted = run(context, team, order, seat, answer)?;
    says_how(context, &hosted)
}

pub fn busy() -> CommandError {
    CommandError::new(
        ErrorKind::Conflict,
        "another run works in this project, or another process hosts this team",
    )
    .hint("`teamster status` shows it; one run at a time works in a project")
}

fn run(
    context: &Context,
    team: &TeamName,
    order: RunSpec,
    _seat: ExclusiveLock,
    answer: Option<GateReply>,
) -> Result<Hosted> {
    let project = worker::project(context, team)?;
    let layout = context.layout.of_project(&project);
    let dir = opened(&project)?;
    let machine = Machine::read();
    let teamster = launch::own_program();
    let launcher = Launcher {
        store: context.read()?,
        project: &project,
        teamster: &teamster,
        tmux: worker::tmux(&project),
        setup: worker::setup_time(context, &project),
    };
    let tmux = worker::tmux(&project).ok();
    let repo = match (&order.base, order.in_place) {
        (Some(_), false) => {
            let path = env_vars::get(env_vars::PATH).unwrap_or_default();
            let found = Git::find(&path).and_then(|git| Repo::find(&git, &project));
            Some(found.map_err(|error| CommandError::refused(error.message).hint(error.hint))?)
        }
        _ => None,
    };
    let trust = CurrentTrust::new(layout.clone());
    let screen = Screen::of(context, answer);
    let mut desk = desk::make(context, screen);
    let mut leader = Leader {
        context,
        team: team.clone(),
        repo: repo.as_ref().map(|found| &found.repo),
    };
    let environment = HostEnvironment {
        store: context.store()?,
        machine: &machine,
        layout: &layout,
        project: &dir,
        folder: &project,
        launcher: &launcher,
        tmux: tmux.as_ref(),
        repo: repo.as_ref().map(|found| &found.repo),
        trust: &trust,
        limits: context.config.limits(),
        check_limit: CHECK_LIMIT,
        max_tasks: context.config.run_max_tasks.value,
        stop_deadline: STOP_DEADLINE,
        leader: &mut leader,
        observer: desk.as_mut(),
    };
    #[cfg(debug_assertions)]
    if let Some(seq) = env_vars::get(env_vars::DIE_AT_EVENT)
        && let Ok(seq) = seq.to_string_lossy().parse()
    {
        teamster_fs::fail::die_at_event(seq);
    }
    #[cfg(debug_assertions)]
    if env_vars::get(env_vars::UNCHECKED_MERGES).is_some() {
        teamster_fs::fail::leave_merges_unchecked();
    }
    let max_fix = order.max_fix;
    let left = Host::new(environment, team.clone(), order)
        .run()
        .map_err(|error| failed(team, error))?;
    drop(desk);
    Ok(Hosted {
        team: team.clone(),
        left,
        max_fix,
    })
}

/// A host that cannot go on has stopped its workers. What they did is kept, and another host takes the run up.
fn failed(team: &TeamName, error: RunError) -> CommandError {
    let error = match error {
        RunError::Store(error) => error.into(),
        RunError::Files(error) => error.into(),
        RunError::Git(error) => {
            CommandError::new(ErrorKind::Failed, error.message).hint(error.hint)
        }
        RunError::NoRoom { message, hint } => {
            CommandError::new(ErrorKind::Failed, message).hint(hint)
        }
        RunError::NotTrusted(error) => CommandError::refused(error.message).hint(error.hint),
        RunError::Refused { message, hint } => {
            CommandError::new(ErrorKind::Conflict, message).hint(hint)
        }
    };
    let what = error
        .advice()
        .map_or_else(String::new, |hint| format!("{hint}; "));
    let hint = format!(
        "{what}the workers were stopped, and what they did is kept; `teamster run --resume {team}` goes on"
    );
    error.hint(hint)
}

/// Says how it went, and exits with the code that tells it.
fn says_how(context: &Context, hosted: &Hosted) -> Result {
    let team = &hosted.team;
    let (word, code, why, hint) = match &hosted.left {
        HostExit::Over(finished) => {
            let report = teamster_fs::layout::report_folders(team).join("/");
            let hint = if finished.is_resumable() {
                // With what it had it would only end the same way again.
                let more = if finished.needs_more_rounds() {
                    format!(" --max-fix {}", hosted.max_fix + 2)
                } else {
                    String::new()
                };
                format!(
                    "{report}/report.md tells all; `teamster run --resume {team}{more}` goes on"
                )
            } else {
                format!("{report}/report.md tells all")
            };
            (
                finished.end.word(),
                finished.exit_code,
                finished.reason.as_str(),
                hint,
            )
        }
        HostExit::AtGate {
            commit,
            exit_code,
            why,
        } => (
            "awaiting_approval",
            *exit_code,
            why.as_str(),
            gate_hint(team, commit),
        ),
    };
    if let HostExit::Over(_) = &hosted.left {
        let kind = if code == 0 { Kind::Done } else { Kind::Failed };
        notify(context, kind, &format!("team {team}: {why}"));
    }
    if context.out.is_json() {
        context.out.object(&json!({
            "type": "result",
            "team": team,
            "outcome": word,
            "exitCode": code,
            "reason": why,
            "hint": hint,
        }))?;
    }
    if code == 0 {
        if !context.out.is_json() {
            context.out.text(&format!(
                "{}: {}\n{hint}\n",
                word.replace('_', " "),
                crate::shown::viewed_line(why)
            ))?;
        }
        return Ok(());
    }
    Err(CommandError::ended(
        code,
        format!("team {team}: {}: {why}", word.replace('_', " ")),
    )
    .hint(hint))
}

fn gate_hint(team: &TeamName, commit: &str) -> String {
    if commit.is_empty() {
        return format!(
            "`teamster approve --team {team}` takes it; or `teamster reject`, `teamster revise TEXT`"
        );
    }
    format!(
        "`teamster approve --team {team} --commit {commit}` lands it; or `teamster reject`, `teamster revise TEXT`"
    )
}

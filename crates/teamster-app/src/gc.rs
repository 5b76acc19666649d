//! Finding and removing what teams, workers and runs left behind.

use std::path::PathBuf;
use std::time::Duration;

use teamster_fs::proc::Machine;
use teamster_gc::worktrees::ProjectGc;
use teamster_gc::zombies::{
    self, Panes, ReapOptions, ReapReport, Restored, ScanOptions, TimeBudget, TmuxEnvironment,
    Zombie,
};
use teamster_store::{Clock, SystemClock};

use crate::app::App;
use crate::env_vars;
use crate::error::Result;

/// Returns leftover teams, processes, panes, locks and heartbeats. A team without signs of life counts as a leftover
/// from the age `ttl` on.
pub fn scan(app: &App, ttl: Duration) -> Result<Vec<Zombie>> {
    Ok(zombies::scan(&scan_options(app, &Machine::read(), ttl)?)?)
}

/// Removes what [`scan`] finds, and empty worktrees of removed teams.
pub fn reap(app: &App, ttl: Duration, options: ReapOptions) -> Result<ReapReport> {
    let machine = Machine::read();
    let mut report = zombies::reap(&scan_options(app, &machine, ttl)?, options)?;
    report.reap_worktrees(&project(app), options.dry_run);
    Ok(report)
}

/// Restores a removed team from the trash.
pub fn restore(app: &App, team: &str) -> Result<Restored> {
    let machine = Machine::read();
    Ok(zombies::restore(
        &scan_options(app, &machine, zombies::TTL)?,
        team,
    )?)
}

/// Returns the project of the current folder, for cleaning up.
pub fn project(app: &App) -> ProjectGc<'_> {
    ProjectGc {
        layout: &app.layout,
        path: env_vars::get(env_vars::PATH).unwrap_or_default(),
        settings: app.config.store_settings(),
        limits: app.config.limits(),
    }
}

/// Returns the options for a scan that a person requested, which may take its time.
fn scan_options<'a>(app: &'a App, machine: &'a Machine, ttl: Duration) -> Result<ScanOptions<'a>> {
    app.check_home()?;
    Ok(ScanOptions {
        layout: &app.layout,
        machine,
        now: SystemClock.now(),
        ttl,
        panes: Panes::ask(&app.layout, &tmux_environment()),
        budget: TimeBudget::unlimited(),
    })
}

fn tmux_environment() -> TmuxEnvironment {
    TmuxEnvironment {
        path: env_vars::get(env_vars::PATH).unwrap_or_default(),
        run_folder: env_vars::get(env_vars::RUN_FOLDER).map(PathBuf::from),
        inside: env_vars::text(env_vars::TMUX),
        sockets: env_vars::get(env_vars::TMUX_TMPDIR).map(PathBuf::from),
    }
}

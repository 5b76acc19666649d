//! An agent that plans.

use std::path::Path;
use std::time::Instant;

use teamster_fs::Dir;
use teamster_isolate::git::{CommitId, Repo};
use teamster_journal::NewEvent;
use teamster_journal::payload::RunSpec;
use teamster_run::host::Plans;
use teamster_run::leader::{LeaderJob, Overview, lead};
use teamster_run::observer::{RunObserver, StopLevel};
use teamster_run::plan::Plan;
use teamster_types::TeamName;
use teamster_workers::ask::usage_event;
use teamster_workers::launch::own_program;

use crate::app::App;
use crate::env_vars;
use crate::trust::{self, Unknown};
use crate::workers;

/// The longest README that is looked at.
const README: usize = 64 * 1024;

/// Asks the leader of an order for a plan.
pub(super) struct Leader<'a> {
    pub(super) app: &'a App,
    pub(super) team: TeamName,
    pub(super) repo: Option<&'a Repo>,
}

impl Plans for Leader<'_> {
    fn plan(
        &mut self,
        order: &RunSpec,
        folder: &Path,
        launch: &str,
        until: Option<Instant>,
        observer: &mut dyn RunObserver,
    ) -> Result<Plan, String> {
        let project = workers::project_of(self.app, &self.team)
            .map_err(|error| error.message().to_owned())?;
        let settings =
            workers::settings(self.app, &project).map_err(|error| error.message().to_owned())?;
        let provider = settings
            .provider(&order.leader)
            .map_err(|error| error.message().to_owned())?;
        // Whoever began the run was asked; but what was read then need not be what is read now.
        let driver = provider.driver();
        let wants = trust::PlannedStart {
            provider: &provider,
            script: driver.script(),
            has_worktree: false,
        };
        trust::require(
            self.app,
            &settings.layout,
            &settings.config,
            &wants,
            Unknown::Refuse,
        )
        .map_err(|error| error.message().to_owned())?;
        let members = &order.members;
        let overview = self.overview(order, folder);
        let path = env_vars::get(env_vars::PATH).unwrap_or_default();
        let teamster = own_program();
        let rules = settings.config.rules();
        let job = LeaderJob {
            driver: driver.as_ref(),
            provider: &provider.name,
            model: order.leader_model.as_deref().or(provider.model.as_deref()),
            task: &order.task,
            team: self.team.as_str(),
            members,
            told: &order.leader_prompt,
            overview: &overview,
            folder: Some(folder),
            rules: &rules,
            exported: &[],
            path: &path,
            teamster: &teamster,
            launch,
        };
        observer.say(&format!("{} plans", provider.name));
        let observer = std::cell::RefCell::new(observer);
        let is_late = || until.is_some_and(|until| Instant::now() >= until);
        let stop = || is_late() || observer.borrow().stop_level() > StopLevel::GoOn;
        let led = lead(&job, &stop, &mut |_| {});
        let spent = match &led {
            Ok(led) => &led.spent,
            Err(error) => &error.spent,
        };
        for spent in spent {
            self.record(usage_event("leader", &provider.name, job.model, spent));
        }
        led.map(|led| led.plan).map_err(|error| error.to_string())
    }
}

impl Leader<'_> {
    fn record(&self, event: NewEvent) {
        if let Ok(store) = self.app.store() {
            let _ = store.record(&self.team, event);
        }
    }

    fn overview(&self, order: &RunSpec, folder: &Path) -> Overview {
        let base = order
            .base
            .as_ref()
            .and_then(|base| base.commit.parse::<CommitId>().ok());
        let tracked = match (self.repo, base) {
            (Some(repo), Some(base)) => repo.tracked_files(&base).unwrap_or_default(),
            _ => Vec::new(),
        };
        let readme = Overview::readme_of(&tracked)
            .and_then(|name| {
                let dir = Dir::open_root(folder).ok()??;
                let (bytes, _) = dir.read(name).ok()??;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Some(text.chars().take(README).collect::<String>())
            })
            .unwrap_or_default();
        Overview::new(&tracked, &readme)
    }
}

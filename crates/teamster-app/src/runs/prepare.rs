//! Turns a request into the specification of a run, and creates its team.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use teamster_fs::Dir;
use teamster_isolate::git::{CommitId, FoundRepo, Git, GitProblem, Repo, SharedRepo};
use teamster_journal::payload::{
    Approve, Base, Budget, Check, Distribution, GivenPlan, MAX_FIX, PlanOrigin, PlanSource,
    ReviewMode, RunSpec,
};
use teamster_prompts::Prompts;
use teamster_prompts::facts::CheckState;
use teamster_run::cast::nobody_can;
use teamster_run::host::{ExclusiveLock, ProjectLock};
use teamster_run::leader::{PlanRequest, RepositoryOverview};
use teamster_run::plan::Plan;
use teamster_run::preview::Preview;
use teamster_run::request::Request;
use teamster_run::verify::detect;
use teamster_store::Clock;
use teamster_types::TeamName;
use teamster_types::flow::FlowKind;
use teamster_types::team::{NewMember, NewTeam};
use teamster_workers::{briefing, launch};

use super::casting::CastTeam;
use super::{busy, check_budget, with_hosting_right};
use crate::app::{App, recordable};
use crate::env_vars;
use crate::error::{AppError, Result};
use crate::files::read_file;
use crate::prompts::PromptFiles;
use crate::trust::{self, UntrustedPolicy};
use crate::workers;

/// The maximum size of a plan file, in bytes.
const PLAN_LIMIT: usize = 4 * 1024 * 1024;

/// A request to start a run.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own that the user makes"
)]
pub struct RunRequest {
    /// The team and the task: `[N:agent[:role][,…]] TASK`.
    pub words: Vec<String>,
    /// The team's name; `None` to derive one from the task and the time.
    pub team: Option<String>,
    /// The preset that the team is taken from.
    pub preset: Option<String>,
    /// The file with the plan.
    pub plan: Option<PathBuf>,
    /// The tasks of a plan that the caller provides, as in a plan file.
    pub tasks: Option<Value>,
    /// Commands that verify the result; empty for those of the preset or the project.
    pub verify: Vec<String>,
    /// The flow that the run follows: `staged`, `party` or `pdca`; `None` for the preset's, else `staged`.
    pub flow: Option<String>,
    /// The planner: `engine`, an agent, or `auto`. `None` means `auto`: the preset's leader, otherwise the first
    /// capable member, if there is work to split.
    pub leader: Option<String>,
    /// How a sentence without a plan is distributed among the workers.
    pub distribution: Distribution,
    /// Who decides at the gate.
    pub approve: Option<Approve>,
    /// The maximum number of fix rounds.
    pub max_fix: Option<u32>,
    /// Whether the merged work is reviewed before the gate opens.
    pub review: ReviewMode,
    /// The commit where the work begins; `None` for the checked-out one.
    pub base: Option<String>,
    /// The URL of the repository through which the work of other machines is exchanged.
    pub repo: Option<String>,
    /// The budget.
    pub budget: Budget,
    /// Agents for this run only, each `NAME=KIND:ARGUMENT`.
    pub providers: Vec<String>,
    /// Whether all workers work in the project's own folder.
    pub in_place: bool,
    /// Whether workers run in tmux panes.
    pub tmux: bool,
    /// Whether requirements are written before the work begins.
    pub requirements: bool,
    /// Whether a person must accept the plan; `None` means yes if a leader plans and a person is at the terminal.
    pub approve_plan: Option<bool>,
    /// Whether the leader makes its own assumptions instead of asking a person.
    pub assume: bool,
    /// Whether another process, without a terminal, will host the run.
    pub is_detached: bool,
    /// Whether to accept a proposed team without asking.
    pub accept_team: bool,
}

/// Finds all problems of a request before anything is created.
pub fn prepare(app: &App, request: &RunRequest) -> Result<PreparedRun> {
    app.must_be_a_person("running a team")?;
    request.prepare(app)
}

/// A run that is ready to start.
pub struct PreparedRun {
    team: TeamName,
    project: PathBuf,
    spec: RunSpec,
    plan: Option<Plan>,
    cast: CastTeam,
    prompts: Prompts,
}

/// A run that was started: its team exists, and this process holds its lock.
pub struct StartedRun {
    /// The team.
    pub team: TeamName,
    /// The specification of the run.
    pub spec: RunSpec,
    /// The lock of its host.
    pub lock: ExclusiveLock,
}

impl RunRequest {
    /// Returns the URL of the repository that machines share, if one is given.
    fn shared_repo(&self) -> Result<Option<String>> {
        let Some(url) = &self.repo else {
            return Ok(None);
        };
        match SharedRepo::new(url) {
            Ok(repo) => Ok(Some(repo.as_str().to_owned())),
            Err(error) => Err(AppError::usage(error.message).hint(error.hint)),
        }
    }

    fn prepare(&self, app: &App) -> Result<PreparedRun> {
        let request = Request::parse(&self.words).map_err(|error| {
            AppError::usage(error.to_string()).hint("see `teamster run --help`")
        })?;
        // The arguments are checked before the project.
        let team = self.team_name(app, &request.task)?;
        let project = app.layout.project.clone();
        recordable(&project, "the project")?;
        let found = self.repository(&project)?;
        let (plan, plan_file) = self.plan_file(app)?;
        let cast = self.cast(app, &request, team.as_str())?;
        let prompts = PromptFiles::load(&app.layout)?.check()?;
        check_budget(&self.budget)?;
        let base = match &found {
            Some(found) => Some(self.base(found)?),
            None => None,
        };
        let (verify, unverified) = self.checks(&project, &cast)?;
        let uncommitted = match &found {
            Some(found) => found
                .repo
                .uncommitted()
                .map_err(|error| AppError::refused(error.message).hint(error.hint))?,
            None => 0,
        };
        let mut spec = RunSpec {
            agents: cast.cast.agents.clone(),
            task: request.task,
            preset: cast.cast.preset.clone(),
            members: cast.cast.members.clone(),
            base,
            verify,
            unverified,
            approve: self.approve.unwrap_or_default(),
            max_fix: self.max_fix.unwrap_or(MAX_FIX),
            review: self.review,
            flow: self.flow_name(&cast),
            leader: cast.leader.clone(),
            leader_model: cast.leader_model.clone(),
            leader_prompt: cast.cast.leader_prompt.clone(),
            distribution: self.distribution,
            how: cast.cast.how.clone(),
            requirements: self.requirements,
            given: self.given_plan(&cast)?,
            plan: plan_file,
            approve_plan: false,
            assume: self.assume,
            in_place: self.in_place,
            tmux: self.tmux,
            budget: self.budget,
            uncommitted,
            repo: self.shared_repo()?,
            collects: false,
        };
        check_given(&spec)?;
        if let Some(why) = plan.as_ref().and_then(|plan| nobody_can(&spec, plan)) {
            return Err(AppError::refused(why)
                .hint("change the plan, or name a team that can do it, as in `2:codex,1:claude`"));
        }
        if spec.distribution == Distribution::BestOf && (spec.in_place || spec.base.is_none()) {
            return Err(
                AppError::usage("--best-of needs a worktree for each worker")
                    .hint("use it in a git repository and without --no-worktrees"),
            );
        }
        let is_led = matches!(spec.plan_source(), PlanSource::Leader(_));
        let is_asked = is_led && app.can_ask() && !self.is_detached && !self.assume;
        spec.approve_plan = self.approve_plan.unwrap_or(is_asked);
        Ok(PreparedRun {
            team,
            project,
            spec,
            plan,
            cast,
            prompts,
        })
    }

    fn repository(&self, project: &Path) -> Result<Option<FoundRepo>> {
        if self.in_place {
            return Ok(None);
        }
        let path = env_vars::get(env_vars::PATH).unwrap_or_default();
        let found = Git::find(&path).and_then(|git| Repo::find(&git, project));
        found.map(Some).map_err(|error| {
            let hint = match error.problem {
                GitProblem::NoProgram
                | GitProblem::NotRepository
                | GitProblem::Bare
                | GitProblem::NoCommits => format!(
                    "{}; or let all workers work in the project's own folder with --no-worktrees",
                    error.hint
                ),
                _ => error.hint,
            };
            AppError::refused(error.message).hint(hint)
        })
    }

    fn base(&self, found: &FoundRepo) -> Result<Base> {
        let base = self.wanted_base(found)?;
        let is_ours = |branch: &String| branch == "omc-team" || branch.starts_with("omc-team/");
        if let Some(branch) = base.branch.as_ref().filter(|branch| is_ours(branch)) {
            return Err(AppError::refused(format!(
                "{branch} is reserved for branches of teams, and nothing can land there"
            ))
            .hint("switch to a branch of your own, or rename this one"));
        }
        Ok(base)
    }

    fn wanted_base(&self, found: &FoundRepo) -> Result<Base> {
        let Some(name) = &self.base else {
            return Ok(Base {
                commit: found.head.to_string(),
                branch: found.branch.clone(),
            });
        };
        // A branch takes precedence over a tag of the same name, because the work may land on it.
        let tip = found.repo.branch_tip(name)?;
        let branch = match tip {
            Some(_) => Some(name.clone()),
            None => found.branch.clone(),
        };
        let commit = match tip {
            Some(tip) => Some(tip),
            None => found
                .repo
                .resolve(name)
                .map_err(|error| AppError::refused(error.message).hint(error.hint))?,
        };
        let commit = commit.ok_or_else(|| {
            AppError::not_found(format!("there is no commit {name}"))
                .hint("`git log` and `git branch` show those there are")
        })?;
        Ok(Base {
            branch,
            commit: commit.to_string(),
        })
    }

    /// Returns the requested flow, otherwise that of the preset.
    fn flow_name(&self, cast: &CastTeam) -> String {
        let of_preset = cast.cast.flow.as_ref().map(|own| own.flow.name.clone());
        let asked = self.flow.clone().or(of_preset);
        asked.unwrap_or_else(|| FlowKind::default().name().to_owned())
    }

    fn plan_file(&self, app: &App) -> Result<(Option<Plan>, Option<String>)> {
        let Some(file) = &self.plan else {
            return Ok((None, None));
        };
        if file == Path::new("-") {
            return Err(AppError::usage("a run needs its plan in a file").hint(
                "a run that crashes reads it again; `task import -` takes the standard input",
            ));
        }
        let file = app.absolute(file);
        let name = recordable(&file, "the plan")?.to_owned();
        let bytes = read_file(&file, PLAN_LIMIT)?;
        let plan = Plan::parse(&file, &bytes).map_err(|faults| {
            AppError::refused(faults.to_string()).hint("`teamster plan check FILE` checks it")
        })?;
        Ok((Some(plan), Some(name)))
    }

    /// Returns the plan that comes with the run: the caller's, otherwise the preset's if no agent plans.
    fn given_plan(&self, team: &CastTeam) -> Result<Option<GivenPlan>> {
        if let Some(tasks) = &self.tasks {
            let bytes = serde_json::to_vec(&json!({ "tasks": tasks })).unwrap_or_default();
            let plan = Plan::parse(Path::new("tasks.json"), &bytes)
                .map_err(|faults| AppError::refused(faults.to_string()))?;
            if plan.tasks.iter().any(|task| !task.task.verify.is_empty()) {
                return Err(
                    AppError::refused("these tasks name commands in `verify`").hint(
                        "leave them out: only the person can give commands that verify the work",
                    ),
                );
            }
            return Ok(Some(GivenPlan {
                by: PlanOrigin::Session,
                plan: plan.draft(),
            }));
        }
        let is_unplanned = team.leader == RunSpec::ENGINE
            && self.plan.is_none()
            && self.distribution == Distribution::One;
        let of_preset = team.cast.plan.clone().filter(|_| is_unplanned);
        Ok(of_preset.map(|plan| GivenPlan {
            by: PlanOrigin::Preset,
            plan,
        }))
    }

    fn checks(&self, project: &Path, team: &CastTeam) -> Result<(Vec<Check>, Vec<String>)> {
        if !self.verify.is_empty() {
            let given = self.verify.iter();
            return Ok((
                given
                    .map(|command| Check::new(command, "--verify").as_target())
                    .collect(),
                Vec::new(),
            ));
        }
        let cast = &team.cast;
        if let (false, Some(preset)) = (cast.verify.is_empty(), &cast.preset) {
            let mut of_project = team.presets.of_the_project();
            let check = if of_project.any(|file| file.preset.name == *preset) {
                Check::of_project
            } else {
                Check::new
            };
            let source = format!("the team {preset}");
            let given = cast.verify.iter();
            let checks = given.map(|command| check(command, &source));
            return Ok((checks.collect(), Vec::new()));
        }
        let Some(dir) = Dir::open_root(project)? else {
            return Ok((Vec::new(), Vec::new()));
        };
        let path = env_vars::get(env_vars::PATH).unwrap_or_default();
        let detected = detect(&dir, &path);
        let skipped = detected.skipped.iter();
        let skipped = skipped.map(|skipped| format!("{} ({})", skipped.command, skipped.why));
        Ok((detected.checks, skipped.collect()))
    }

    fn team_name(&self, app: &App, task: &str) -> Result<TeamName> {
        if let Some(name) = &self.team {
            return Ok(name.parse()?);
        }
        let now = teamster_store::SystemClock.now().to_string();
        let digits: String = now.chars().filter(char::is_ascii_digit).collect();
        let stamp = format!(
            "{}-{}",
            digits.get(4..8).unwrap_or("0000"),
            digits.get(8..14).unwrap_or("000000")
        );
        let mut slug = String::new();
        for word in task
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
        {
            if slug.len() + word.len() > 24 {
                break;
            }
            if !slug.is_empty() {
                slug.push('-');
            }
            slug.push_str(&word.to_ascii_lowercase());
        }
        if slug.is_empty() {
            "run".clone_into(&mut slug);
        }
        let teams = app.read()?.teams()?;
        for number in 1..1_000_u32 {
            let name = match number {
                1 => format!("{slug}-{stamp}"),
                more => format!("{slug}-{stamp}-{more}"),
            };
            if !teams.iter().any(|team| team.name == name) {
                return Ok(name.parse()?);
            }
        }
        Err(AppError::refused("no name is free for the team").hint("give it one with --team"))
    }
}

/// Refuses a run whose given plan assigns tasks to workers that are not in the team.
fn check_given(spec: &RunSpec) -> Result {
    let Some(given) = &spec.given else {
        return Ok(());
    };
    let has_role = |role: &str| spec.members.iter().any(|member| member.has_role(role));
    let roles = given
        .plan
        .tasks
        .iter()
        .filter_map(|task| task.role.as_deref());
    let mut missing: Vec<&str> = roles.filter(|role| !has_role(role)).collect();
    missing.sort_unstable();
    missing.dedup();
    if let (Some(preset), Some(first)) = (&spec.preset, missing.first())
        && given.by == PlanOrigin::Preset
    {
        let (roles, agents) = (missing.join(" and "), &spec.agents);
        return Err(AppError::refused(format!(
            "the plan of the team {preset} has tasks for {roles}, and no member of {agents} has that role"
        ))
        .hint(format!(
            "name an agent for each, as in `1:claude:{first}`; or leave the members to the preset; or let an agent plan with --leader"
        )));
    }
    let plan =
        Plan::from_draft(&given.plan).map_err(|faults| AppError::refused(faults.to_string()))?;
    match nobody_can(spec, &plan) {
        Some(why) => Err(AppError::refused(why)
            .hint("change the tasks, or name a team that can do them, as in `2:codex,1:claude`")),
        None => Ok(()),
    }
}

impl PreparedRun {
    /// Creates the team. From then on the run can be resumed by any host.
    pub fn create(self, app: &App, unknown: UntrustedPolicy) -> Result<StartedRun> {
        let dir = Dir::open_or_create_root(&self.project)?;
        let members = self.trusted_members(app, unknown)?;
        let lock = ProjectLock::take(&dir)?.ok_or_else(busy)?;
        let new = NewTeam {
            name: self.team.clone(),
            description: self.spec.task.chars().take(200).collect(),
            project: recordable(&self.project, "the project")?.to_owned(),
            members,
            run: Some(json!(self.spec)),
        };
        let base = self.spec.base.as_ref().map(|base| base.commit.as_str());
        app.store()?.create_team(&new, base)?;
        let lock = lock.with_team(&app.layout, &self.team)?.ok_or_else(busy)?;
        let lock = with_hosting_right(app, &self.team, lock)?.ok_or_else(busy)?;
        Ok(StartedRun {
            team: self.team,
            spec: self.spec,
            lock,
        })
    }

    /// Returns all members with their capabilities. Commands of the project that were not accepted are never started.
    fn trusted_members(&self, app: &App, unknown: UntrustedPolicy) -> Result<Vec<NewMember>> {
        let settings = workers::settings(app, &self.project)?;
        let mut members = Vec::new();
        for hand in &self.spec.members {
            let provider = settings.provider(&hand.provider)?;
            members.push(NewMember {
                name: hand.name.clone(),
                provider: provider.name.clone(),
                capabilities: Some(hand.abilities()),
            });
        }
        trust::require_for_run(
            app,
            &settings.layout,
            &settings.config,
            &self.cast.presets,
            &self.spec,
            unknown,
        )?;
        Ok(members)
    }

    /// Shows to `show` what the run would do, without starting anything.
    pub fn preview<T>(&self, app: &App, show: impl FnOnce(&Preview<'_>) -> T) -> Result<T> {
        let sentence;
        let assigned;
        let (plan, planned_by) = if let (Some(plan), Some(file)) = (&self.plan, &self.spec.plan) {
            let mut plan = plan.clone();
            plan.assign_roles(&self.spec.members);
            assigned = plan;
            (&assigned, file.clone())
        } else if let Some(given) = &self.spec.given {
            let mut plan = Plan::from_draft(&given.plan)
                .map_err(|faults| AppError::refused(faults.to_string()))?;
            plan.assign_roles(&self.spec.members);
            assigned = plan;
            let preset = self.spec.preset.as_deref().unwrap_or_default();
            let by = match given.by {
                PlanOrigin::Preset => format!("the preset {preset}"),
                PlanOrigin::Session => "the caller of the run".to_owned(),
            };
            (&assigned, by)
        } else {
            sentence = Plan::unplanned(&self.spec).map_err(AppError::refused)?;
            let by = match self.spec.leading_agent() {
                None => "the task as given".to_owned(),
                Some(leader) => format!("the task as given, until {leader} makes a plan"),
            };
            (&sentence, by)
        };
        let settings = workers::settings(app, &self.project)?;
        let teamster = launch::own_program();
        let mut reach = BTreeMap::new();
        for member in &self.spec.members {
            let provider = settings.provider(&member.provider)?;
            let way = briefing::channel_facts(provider.kind.word(), &teamster);
            reach.insert(member.name.clone(), way);
        }
        let leader_prompt = self.leader_prompt(app)?;
        Ok(show(&Preview {
            team: self.team.as_str(),
            task: &self.spec.task,
            cast: &self.cast.cast,
            plan,
            spec: &self.spec,
            prompts: &self.prompts,
            reach: &reach,
            leader_prompt: leader_prompt.as_deref(),
            planned_by: &planned_by,
            verify: &self.spec.verify,
            flow: &self.spec.flow,
            reservations: app.config.reservations.value,
            longest_prompt: app.config.rules().prompt,
        }))
    }

    /// Returns the prompt for the planner; `None` when no agent plans. No check has been run yet.
    fn leader_prompt(&self, app: &App) -> Result<Option<String>> {
        if self.spec.leading_agent().is_none() || self.plan.is_some() {
            return Ok(None);
        }
        let base = self.spec.base.as_ref();
        let base = base.and_then(|base| base.commit.parse::<CommitId>().ok());
        let mut tracked = Vec::new();
        if let Some(base) = base {
            let path = env_vars::get(env_vars::PATH).unwrap_or_default();
            let repo = Git::find(&path)
                .and_then(|git| Repo::find(&git, &self.project))?
                .repo;
            tracked = repo.tracked_files(&base)?;
        }
        let dir = Dir::open_root(&self.project)?;
        let readme = match (dir, RepositoryOverview::readme_of(&tracked)) {
            (Some(dir), Some(name)) => dir.read(name)?,
            _ => None,
        };
        let readme = readme.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned());
        let checks: Vec<CheckState> = (self.spec.verify.iter())
            .map(|check| CheckState {
                command: check.command.clone(),
                state: "has not been run".to_owned(),
                output: String::new(),
            })
            .collect();
        let request = PlanRequest {
            task: &self.spec.task,
            members: &self.spec.members,
            told: &self.spec.leader_prompt,
            overview: &RepositoryOverview::new(&tracked, &readme.unwrap_or_default()),
            checks: &checks,
            budget: &self.spec.budget,
            // The host decides this in the same way when it plans.
            may_ask: !self.spec.assume
                && (self.spec.approve == Approve::Ask || self.spec.approve_plan || app.can_ask()),
            requirements: self.spec.requirements,
            needs_analysis: self.spec.flow_kind() == FlowKind::Party,
            answers: &[],
            revision: None,
            prompts: &self.prompts,
        };
        let prompt = request.prompt(self.team.as_str(), app.config.rules().prompt);
        let prompt = prompt.map_err(|error| AppError::refused(error.to_string()))?;
        Ok(Some(prompt))
    }

    /// Returns how many files of the user are uncommitted, and so not part of the base.
    pub fn uncommitted(&self) -> usize {
        self.spec.uncommitted
    }
}

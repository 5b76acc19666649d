//! From the words of the command to the order of a run.

use std::path::{Path, PathBuf};

use serde_json::json;
use teamster_fs::Dir;
use teamster_isolate::git::{FoundRepo, Git, GitProblem, Repo};
use teamster_journal::payload::{Base, Budget, Check, MAX_FIX, RunSpec};
use teamster_run::host::{ExclusiveLock, ProjectLock};
use teamster_run::order::nobody_can;
use teamster_run::plan::Plan;
use teamster_run::preview::Preview;
use teamster_run::request::Request;
use teamster_run::verify::detect;
use teamster_store::Clock;
use teamster_types::TeamName;
use teamster_types::team::{NewMember, NewTeam};

use super::casting::Team;
use super::hosting::busy;
use super::{FlowName, Run};
use crate::commands::worker;
use crate::context::{Context, recordable};
use crate::env_vars;
use crate::error::{CommandError, Result};
use crate::files::read_named;
use crate::shown::plain;
use crate::trust::{self, Unknown};

/// The longest plan file.
const PLAN_LIMIT: usize = 4 * 1024 * 1024;

/// A run that can be begun.
pub struct Wanted {
    team: TeamName,
    project: PathBuf,
    order: RunSpec,
    plan: Option<Plan>,
    cast: Team,
}

/// A run that was begun: its team is there, and its seat is ours.
pub struct Begun {
    pub name: TeamName,
    pub order: RunSpec,
    pub seat: ExclusiveLock,
}

impl Run {
    /// Everything that can be wrong is found here, before anything is made.
    pub(super) fn order(&self, context: &Context) -> Result<Wanted> {
        let request = Request::parse(&self.words).map_err(|error| {
            CommandError::usage(error.to_string()).hint("see `teamster run --help`")
        })?;
        // What was typed is looked at before what is there.
        let team = self.team_name(context, &request.task)?;
        let project = context.layout.project.clone();
        recordable(&project, "the project")?;
        let found = self.repository(&project)?;
        let (plan, plan_file) = self.plan_file(context)?;
        let cast = self.cast(context, &request, team.as_str())?;
        let budget = Budget {
            tokens: self.budget_tokens,
            usd: self.budget_usd,
            minutes: self.budget_minutes,
        };
        if budget
            .usd
            .is_some_and(|usd| !(usd.is_finite() && usd > 0.0))
        {
            return Err(CommandError::usage("--budget-usd is a number above 0"));
        }
        let base = match &found {
            Some(found) => Some(self.base(found)?),
            None => None,
        };
        let (verify, unverified) = self.checks(&project, &cast)?;
        let uncommitted = match &found {
            Some(found) => found
                .repo
                .uncommitted()
                .map_err(|error| CommandError::refused(error.message).hint(error.hint))?,
            None => 0,
        };
        let order = RunSpec {
            agents: cast.cast.agents.clone(),
            task: request.task,
            preset: cast.cast.preset.clone(),
            members: cast.cast.members.clone(),
            base,
            verify,
            unverified,
            approve: self.approve.map(Into::into).unwrap_or_default(),
            max_fix: self.max_fix.unwrap_or(MAX_FIX),
            flow: match self.flow {
                FlowName::Staged => "staged",
                FlowName::Party => "party",
                FlowName::Pdca => "pdca",
            }
            .to_owned(),
            leader: cast.leader.clone(),
            leader_model: cast.leader_model.clone(),
            leader_prompt: cast.cast.leader_prompt.clone(),
            how: cast.cast.how.clone(),
            requirements: self.requirements,
            plan: plan_file,
            approve_plan: self.approve_plan,
            in_place: self.no_worktrees,
            tmux: self.tmux,
            budget,
            uncommitted,
        };
        if let Some(why) = plan.as_ref().and_then(|plan| nobody_can(&order, plan)) {
            return Err(CommandError::refused(why)
                .hint("change the plan, or name a team that can do it, as in `2:codex,1:claude`"));
        }
        if order.approve_plan && !trust::is_terminal(context) {
            return Err(
                CommandError::usage("--approve-plan needs a terminal to ask at")
                    .hint("`--dry-run` shows the plan without one"),
            );
        }
        Ok(Wanted {
            team,
            project,
            order,
            plan,
            cast,
        })
    }

    fn repository(&self, project: &Path) -> Result<Option<FoundRepo>> {
        if self.no_worktrees {
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
                    "{}; or let everybody work in the project's own folder with --no-worktrees",
                    error.hint
                ),
                _ => error.hint,
            };
            CommandError::refused(error.message).hint(hint)
        })
    }

    fn base(&self, found: &FoundRepo) -> Result<Base> {
        let base = self.wanted_base(found)?;
        let is_ours = |branch: &String| branch == "omc-team" || branch.starts_with("omc-team/");
        if let Some(branch) = base.branch.as_ref().filter(|branch| is_ours(branch)) {
            return Err(CommandError::refused(format!(
                "{branch} is a name for branches of teams, and nothing can land there"
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
        // A branch is meant before a tag of the same name: it is where the work may land.
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
                .map_err(|error| CommandError::refused(error.message).hint(error.hint))?,
        };
        let commit = commit.ok_or_else(|| {
            CommandError::not_found(format!("there is no commit {name}"))
                .hint("`git log` and `git branch` show those there are")
        })?;
        Ok(Base {
            branch,
            commit: commit.to_string(),
        })
    }

    fn plan_file(&self, context: &Context) -> Result<(Option<Plan>, Option<String>)> {
        let Some(file) = &self.plan else {
            return Ok((None, None));
        };
        if file == Path::new("-") {
            return Err(CommandError::usage("a run needs its plan in a file").hint(
                "a run that crashes reads it again; `task import -` takes the standard input",
            ));
        }
        let file = context.absolute(file);
        let name = recordable(&file, "the plan")?.to_owned();
        let bytes = read_named(&file, PLAN_LIMIT)?;
        let plan = Plan::parse(&file, &bytes).map_err(|faults| {
            CommandError::refused(faults.to_string()).hint("`teamster plan check FILE` checks it")
        })?;
        Ok((Some(plan), Some(name)))
    }

    fn checks(&self, project: &Path, team: &Team) -> Result<(Vec<Check>, Vec<String>)> {
        if !self.verify.is_empty() {
            let given = self.verify.iter();
            return Ok((
                given
                    .map(|command| Check::new(command, "--verify"))
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

    fn team_name(&self, context: &Context, task: &str) -> Result<TeamName> {
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
        let teams = context.read()?.teams()?;
        for number in 1..1_000_u32 {
            let name = match number {
                1 => format!("{slug}-{stamp}"),
                more => format!("{slug}-{stamp}-{more}"),
            };
            if !teams.iter().any(|team| team.name == name) {
                return Ok(name.parse()?);
            }
        }
        Err(CommandError::refused("no name is free for the team").hint("give it one with --team"))
    }
}

impl Wanted {
    /// Makes the team. From then on the run can be taken up by anybody.
    pub(super) fn create(self, context: &Context, trust_project: bool) -> Result<Begun> {
        let dir = Dir::open_or_create_root(&self.project)?;
        let members = self.trusted_members(context, trust_project)?;
        let seat = ProjectLock::take(&dir)?.ok_or_else(busy)?;
        let new = NewTeam {
            name: self.team.clone(),
            description: self.order.task.chars().take(200).collect(),
            project: recordable(&self.project, "the project")?.to_owned(),
            members,
            run: Some(json!(self.order)),
        };
        let base = self.order.base.as_ref().map(|base| base.commit.as_str());
        context.store()?.create_team(&new, base)?;
        let seat = seat
            .with_team(&context.layout, &self.team)?
            .ok_or_else(busy)?;
        Ok(Begun {
            name: self.team,
            order: self.order,
            seat,
        })
    }

    /// Everyone with what they can do. Nothing that comes with the project is started which was not accepted.
    fn trusted_members(&self, context: &Context, trust_project: bool) -> Result<Vec<NewMember>> {
        let settings = worker::settings(context, &self.project)?;
        let mut members = Vec::new();
        for hand in &self.order.members {
            let provider = settings.provider(&hand.provider)?;
            members.push(NewMember {
                name: hand.name.clone(),
                provider: provider.name.clone(),
                capabilities: Some(hand.can.clone()),
            });
        }
        trust::require_for_run(
            context,
            &settings.layout,
            &settings.config,
            &self.cast.presets,
            &self.order,
            Unknown::of_flag(trust_project),
        )?;
        Ok(members)
    }

    /// Shows what would be done, and starts nothing.
    pub(super) fn show(&self, context: &Context) -> Result {
        let sentence;
        let (plan, planned_by) = if let (Some(plan), Some(file)) = (&self.plan, &self.order.plan) {
            (plan, file.clone())
        } else {
            let names: Vec<_> = self.order.members.iter().map(|m| m.name.clone()).collect();
            sentence =
                Plan::of_sentence(&self.order.task, &names).map_err(CommandError::refused)?;
            let by = match self.order.leader.as_str() {
                "engine" => "the sentence as it is".to_owned(),
                leader => format!("the sentence as it is; in the run {leader} makes the plan"),
            };
            (&sentence, by)
        };
        let preview = Preview {
            team: self.team.as_str(),
            task: &self.order.task,
            cast: &self.cast.cast,
            plan,
            planned_by: &planned_by,
            verify: &self.order.verify,
            flow: &self.order.flow,
            reservations: context.config.reservations.value,
            longest_prompt: context.config.rules().prompt,
        };
        let mut notes = String::new();
        if self.order.uncommitted > 0 {
            notes = format!(
                "\n{} of your files are not committed: they are no part of the base, and stay as they are\n",
                self.order.uncommitted
            );
        }
        context
            .out
            .answer(|| preview.json(), || plain(&preview.text()) + &notes)
    }
}

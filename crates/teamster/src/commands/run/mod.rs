//! Implements `teamster run`.

mod hosting;
mod messages;
mod observer;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use teamster_app::runs::{self, PreparedRun, ResumeRequest, RunRequest};
use teamster_app::trust::Unknown;
use teamster_journal::payload::{Approve, Budget, Distribution, ReviewMode};
use teamster_types::TeamName;
use teamster_types::flow::FlowKind;

use crate::context::Context;
use crate::error::Result;
use crate::shown::plain;
pub(super) use hosting::{host, merge};
pub(super) use observer::Signals;

/// Run a team on a task: plan it, do it, merge it, verify it, ask you
///
/// Workers do their tasks in worktrees of their own; what they finish is merged on a branch of the team's. Your branch
/// changes only when you approve, your uncommitted files never. Ctrl-C once finishes current tasks and stops, twice stops
/// now, three times kills; `teamster run --resume TEAM` goes on, after a crash too.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster run 3:executor \"fix all type errors\"   # with an agent
  teamster run 2:codex,1:claude:reviewer \"add tests\"   # with agents
  teamster run 1:fix --provider 'fix=command:make fix' \"fix it\" --approve never
  teamster run 3:executor \"the plan\" --plan plan.toml   # with an agent
  teamster run --resume fix-all-1115-1030   # exits 3

Exit codes of a run:
  0  complete and verified, or waiting at the gate (--approve never)
  4  your branch could not be changed as it is
  10 rejected   11 failed verification, or no plan   12 budget   13 cancelled
  14 some tasks failed for good")]
#[allow(
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "each is a flag of the command line, and called like it"
)]
pub struct RunArgs {
    /// Who works and on what: `[N:agent[:role][,…]] TASK`
    #[arg(value_name = "WORDS", required_unless_present = "resume")]
    words: Vec<String>,
    /// The team's name [default: made from the task and the time]
    #[arg(long, value_name = "NAME")]
    team: Option<String>,
    /// A preset: bugfix, devops, dev-backend, dev-frontend, or one of your own
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// A plan in TOML, YAML or JSON; `teamster plan check` checks it
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// A command that verifies the result; repeatable [default: the preset's, else those found]
    #[arg(long, value_name = "CMD")]
    verify: Vec<String>,
    /// The flow to follow: its phases, what they need, and its words [default: the preset's, else staged]
    #[arg(long, value_enum)]
    flow: Option<FlowName>,
    /// Who plans and leads: auto, engine, or an agent [default: auto]
    #[arg(long, value_name = "AGENT")]
    leader: Option<String>,
    /// Every worker does the whole task, each for itself
    #[arg(long, conflicts_with_all = ["plan", "leader", "best_of"])]
    each: bool,
    /// Every worker does the whole task, and the best result is taken
    #[arg(long, conflicts_with_all = ["plan", "leader"])]
    best_of: bool,
    /// Who decides at the gate: you, the checks, or nobody now [default: ask]
    #[arg(long, value_enum)]
    approve: Option<ApproveWord>,
    /// How often what the checks find is worked on
    #[arg(long, value_name = "N")]
    max_fix: Option<u32>,
    /// Whether an agent reviews the merged work before the gate opens [default: prefer]
    #[arg(long, value_enum)]
    review: Option<ReviewWord>,
    /// Where the work begins [default: the commit that is checked out]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// The repository that workers on other machines share with this one [default: this one itself]
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// Tokens that may be used
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// Dollars that may be spent
    #[arg(long, value_name = "USD")]
    budget_usd: Option<f64>,
    /// Minutes that it may take
    #[arg(long, value_name = "N")]
    budget_minutes: Option<f64>,
    /// An agent for this run: NAME=KIND:ARGUMENT; repeatable
    #[arg(long, value_name = "NAME=KIND:ARG")]
    provider: Vec<String>,
    /// Everybody works in the project's own folder: no worktrees, no merges
    #[arg(long)]
    no_worktrees: bool,
    /// Run workers in panes of our own tmux
    #[arg(long)]
    tmux: bool,
    /// Write down what is wanted before it is worked on
    #[arg(long)]
    requirements: bool,
    /// Whether you decide about the plan first [default: ask where an agent plans and you are at a terminal]
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "ask"
    )]
    approve_plan: Option<ApprovePlanWord>,
    /// Accept the team and the plan that are proposed, and let the leader go by assumptions
    #[arg(long)]
    yes: bool,
    /// Accept the commands that come with the project; `teamster trust --show` shows them
    #[arg(long)]
    trust_project: bool,
    /// Show the team, the plan, who would do what and the prompts; start nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on with a run that was stopped or has crashed
    #[arg(long, value_name = "TEAM", conflicts_with_all = [
        "words", "plan", "preset", "team", "verify", "flow", "leader", "base", "repo", "provider", "no_worktrees", "tmux",
        "requirements", "approve_plan", "yes", "dry_run", "each", "best_of",
    ])]
    resume: Option<String>,
    /// Go on without this terminal
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FlowName {
    /// The stages of the engine: plan, execute, verify, fix, approval
    Staged,
    /// A session with findings and tickets, from the analysis to your approval
    Party,
    /// Plan, design, do, check, act, and another round where the check says so
    Pdca,
}

impl From<FlowName> for FlowKind {
    fn from(name: FlowName) -> Self {
        match name {
            FlowName::Staged => Self::Staged,
            FlowName::Party => Self::Party,
            FlowName::Pdca => Self::Pdca,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ApproveWord {
    Ask,
    Auto,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum ApprovePlanWord {
    /// You accept, edit or reject it, or say what to change
    Ask,
    /// It is carried out as it is
    Off,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReviewWord {
    /// Nobody reviews it
    Off,
    /// An agent of the team does, if there is one that can
    Prefer,
    /// The same, and without a review only you can approve
    Require,
}

impl From<ReviewWord> for ReviewMode {
    fn from(word: ReviewWord) -> Self {
        match word {
            ReviewWord::Off => Self::Off,
            ReviewWord::Prefer => Self::Prefer,
            ReviewWord::Require => Self::Require,
        }
    }
}

impl From<ApproveWord> for Approve {
    fn from(word: ApproveWord) -> Self {
        match word {
            ApproveWord::Ask => Self::Ask,
            ApproveWord::Auto => Self::Auto,
            ApproveWord::Never => Self::Never,
        }
    }
}

impl RunArgs {
    /// Whether it takes up a run that exists.
    pub fn resumes(&self) -> bool {
        self.resume.is_some()
    }

    pub fn run(self, context: &Context) -> Result {
        let unknown = Unknown::of_flag(self.trust_project);
        if let Some(team) = &self.resume {
            let team: TeamName = team.parse()?;
            let request = ResumeRequest {
                team: team.clone(),
                budget: self.budget(),
                max_fix: self.max_fix,
                approve: self.approve.map(Into::into),
                review: self.review.map(Into::into),
                unknown,
            };
            let spec = runs::resume(context, &request)?;
            if self.detach {
                return detach(context, &team, &self.for_another_host());
            }
            let lock = runs::lock(context, &team)?.ok_or_else(runs::busy)?;
            return host(context, &team, spec, lock, None);
        }
        let prepared = runs::prepare(context, &self.request())?;
        if self.dry_run {
            return show(context, &prepared);
        }
        let started = prepared.create(context, unknown)?;
        if self.detach {
            // It is for the one who goes on.
            drop(started.lock);
            return detach(context, &started.team, &[]);
        }
        host(context, &started.team, started.spec, started.lock, None)
    }

    fn request(&self) -> RunRequest {
        RunRequest {
            words: self.words.clone(),
            team: self.team.clone(),
            preset: self.preset.clone(),
            plan: self.plan.clone(),
            tasks: None,
            verify: self.verify.clone(),
            flow: self.flow.map(|flow| FlowKind::from(flow).name().to_owned()),
            leader: self.leader.clone(),
            distribution: match (self.each, self.best_of) {
                (true, _) => Distribution::Each,
                (_, true) => Distribution::BestOf,
                _ => Distribution::One,
            },
            approve: self.approve.map(Into::into),
            max_fix: self.max_fix,
            review: self.review.map_or(ReviewMode::Prefer, Into::into),
            base: self.base.clone(),
            repo: self.repo.clone(),
            budget: self.budget(),
            providers: self.provider.clone(),
            in_place: self.no_worktrees,
            tmux: self.tmux,
            requirements: self.requirements,
            approve_plan: self.approve_plan.map(|word| word == ApprovePlanWord::Ask),
            assume: self.yes,
            is_detached: self.detach,
            accept_team: self.yes || self.dry_run,
        }
    }

    fn budget(&self) -> Budget {
        Budget {
            tokens: self.budget_tokens,
            usd: self.budget_usd,
            minutes: self.budget_minutes,
        }
    }

    /// Returns what changes the run, as arguments for another process.
    fn for_another_host(&self) -> Vec<String> {
        let mut args = Vec::new();
        let mut say = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                args.extend([name.to_owned(), value]);
            }
        };
        say(
            "--budget-tokens",
            self.budget_tokens.map(|it| it.to_string()),
        );
        say("--budget-usd", self.budget_usd.map(|it| it.to_string()));
        say(
            "--budget-minutes",
            self.budget_minutes.map(|it| it.to_string()),
        );
        say("--max-fix", self.max_fix.map(|it| it.to_string()));
        let approve = self.approve.and_then(|word| word.to_possible_value());
        say("--approve", approve.map(|it| it.get_name().to_owned()));
        let review = self.review.and_then(|word| word.to_possible_value());
        say("--review", review.map(|it| it.get_name().to_owned()));
        args
    }
}

/// Shows what would be done.
fn show(context: &Context, prepared: &PreparedRun) -> Result {
    let notes = match prepared.uncommitted() {
        0 => String::new(),
        some => format!(
            "\n{some} of your files are not committed: they are no part of the base, and stay as they are\n"
        ),
    };
    prepared.preview(context, |preview| {
        context
            .out
            .answer(|| preview.json(), || plain(&preview.text()) + &notes)
    })?
}

/// Lets another process host a run that exists, and says how to follow it.
fn detach(context: &Context, team: &TeamName, more: &[String]) -> Result {
    let host = runs::begin_detached(context, team, more)?;
    context.out.answer(
        || json!({ "team": team, "pid": host.pid, "log": host.log.display().to_string() }),
        || {
            let pid = host.pid;
            format!(
                "team {team} works as process {pid}; `teamster status --team {team} --watch` shows how far it is, \
                 `teamster journal --team {team} --follow` all that happens\n"
            )
        },
    )
}

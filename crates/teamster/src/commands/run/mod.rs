//! Implements `teamster run`.

mod hosting;
mod messages;
mod observer;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;
use teamster_app::runs::{self, PreparedRun, ResumeRequest, RunRequest};
use teamster_app::trust::UntrustedPolicy;
use teamster_journal::payload::{Approve, Budget, Distribution, ReviewMode};
use teamster_types::TeamName;
use teamster_types::flow::FlowKind;

use crate::context::Context;
use crate::error::Result;
use crate::shown::plain;
pub(super) use hosting::{host, merge};
pub(super) use observer::Signals;

/// Run a team on a task: plan, work, merge, verify, then ask for approval
///
/// Each worker works in its own worktree, and finished tasks are merged on the team's branch. Your branch changes only when
/// you approve, and your uncommitted files never do. Press Ctrl-C once to finish the current tasks and stop, twice to stop
/// now, three times to kill; `teamster run --resume TEAM` continues the run, even after a crash.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster run 3:executor \"fix all type errors\"   # with an agent
  teamster run 2:codex,1:claude:reviewer \"add tests\"   # with agents
  teamster run 1:fix --provider 'fix=command:make fix' \"fix it\" --approve never
  teamster run 3:executor \"the plan\" --plan plan.toml   # with an agent
  teamster run --resume fix-all-1115-1030   # exits 3

Exit codes of a run:
  0  complete, or waiting at the gate (--approve never)
  1  failed
  4  your branch could not be updated
  10 rejected   11 not verified, or no usable plan   12 budget   13 cancelled
  14 some tasks failed permanently")]
#[allow(
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "each is a flag of the command line, and called like it"
)]
pub struct RunArgs {
    /// The team and its task: `[N:agent[:role][,…]] TASK`
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
    /// A command that verifies the result; repeatable [default: the preset's, else those detected in the project]
    #[arg(long, value_name = "CMD")]
    verify: Vec<String>,
    /// The flow to follow: its phases, their requirements and their names [default: the preset's, else staged]
    #[arg(long, value_enum)]
    flow: Option<FlowName>,
    /// Who plans and leads: auto, an agent, or engine (no leader) [default: auto]
    #[arg(long, value_name = "AGENT")]
    leader: Option<String>,
    /// Every worker does the whole task on its own
    #[arg(long, conflicts_with_all = ["plan", "leader", "best_of"])]
    each: bool,
    /// Every worker does the whole task, and the best result is kept
    #[arg(long, conflicts_with_all = ["plan", "leader"])]
    best_of: bool,
    /// What happens at the gate: wait for you (ask), approve if all checks pass (auto), or exit and leave the gate open
    /// (never) [default: ask]
    #[arg(long, value_enum)]
    approve: Option<ApproveWord>,
    /// The maximum number of rounds of fixing what the checks find
    #[arg(long, value_name = "N")]
    max_fix: Option<u32>,
    /// Whether an agent reviews the merged work before the gate opens [default: prefer]
    #[arg(long, value_enum)]
    review: Option<ReviewWord>,
    /// The commit to start from [default: HEAD]
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// The repository that all machines push to and fetch from [default: this project]
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// The maximum number of tokens to use
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// The maximum cost in dollars
    #[arg(long, value_name = "USD")]
    budget_usd: Option<f64>,
    /// The maximum duration in minutes
    #[arg(long, value_name = "N")]
    budget_minutes: Option<f64>,
    /// An agent for this run: NAME=KIND:ARGUMENT; repeatable
    #[arg(long, value_name = "NAME=KIND:ARG")]
    provider: Vec<String>,
    /// Let all workers work in the project's folder, without worktrees and merges
    #[arg(long)]
    no_worktrees: bool,
    /// Run workers in tmux panes, which `worker attach` shows
    #[arg(long)]
    tmux: bool,
    /// Clarify the requirements before planning; the leader asks you what the task leaves open
    #[arg(long)]
    requirements: bool,
    /// Whether the plan needs your approval [default: ask, if an agent plans and you are at a terminal]
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "ask"
    )]
    approve_plan: Option<ApprovePlanWord>,
    /// Accept the proposed team and plan, and let the leader make assumptions
    #[arg(long)]
    yes: bool,
    /// Allow the commands that come with the project; `teamster trust --show` shows them
    #[arg(long)]
    trust_project: bool,
    /// Show the team, the plan, the assignments and the prompts, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Continue a run that was stopped or has crashed
    #[arg(long, value_name = "TEAM", conflicts_with_all = [
        "words", "plan", "preset", "team", "verify", "flow", "leader", "base", "repo", "provider", "no_worktrees", "tmux",
        "requirements", "approve_plan", "yes", "dry_run", "each", "best_of",
    ])]
    resume: Option<String>,
    /// Run in the background
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FlowName {
    /// The stages themselves: plan, execute, verify, fix, approval
    Staged,
    /// A session with findings and tickets, from analysis to approval
    Party,
    /// Plan, design, do, check, act, repeated until the check passes
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
    /// You accept, edit or reject it, or request changes
    Ask,
    /// It is carried out without asking
    Off,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReviewWord {
    /// No review
    Off,
    /// An agent of the team reviews it, if one is able to
    Prefer,
    /// Like prefer, but work without a review can only be approved by you
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
    /// Whether it resumes an existing run.
    pub fn resumes(&self) -> bool {
        self.resume.is_some()
    }

    pub fn run(self, context: &Context) -> Result {
        let unknown = UntrustedPolicy::of_flag(self.trust_project);
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
            // The other process takes this lock.
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

    /// Returns the options that change the run, as arguments for another process.
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
            "\n{some} of your files are not committed: they are not part of the base and stay as they are\n"
        ),
    };
    prepared.preview(context, |preview| {
        context
            .out
            .answer(|| preview.json(), || plain(&preview.text()) + &notes)
    })?
}

/// Starts another process that hosts an existing run, and prints how to follow it.
fn detach(context: &Context, team: &TeamName, more: &[String]) -> Result {
    let host = runs::begin_detached(context, team, more)?;
    context.out.answer(
        || json!({ "team": team, "pid": host.pid, "log": host.log.display().to_string() }),
        || {
            let pid = host.pid;
            format!(
                "team {team} runs as process {pid}; `teamster status --team {team} --watch` shows its progress, \
                 `teamster journal --team {team} --follow` every event\n"
            )
        },
    )
}

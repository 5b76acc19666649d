//! The single view model for every surface: `status`, `top`, `replay`, the web page and its API.
//!
//! It has two sources: a snapshot of the store, which holds the current state, and a [`TeamProjection`] of the journal,
//! which holds the rest and every past moment. [`LiveTeam`] combines both and keeps them current;
//! [`TeamProjection::view`] shows a moment from the journal alone.
//!
//! The types of this module are the contract of `/api/v1`: their fields use the API's own names, and the page's
//! TypeScript types and the `OpenAPI` document are generated from them. Texts are passed on as they were written; the
//! caller that displays them cleans and redacts them.

mod collaboration;
mod cost;
mod graph;
mod live;
#[cfg(test)]
mod live_tests;
mod overview;
mod patch;
mod projection;
mod rows;
mod run;
mod sessions;
mod stage;
mod team;

pub use collaboration::{
    ChoiceView, FindingView, LeaderActionView, PlanReplyView, ProposalView, ReviewPhase,
    ReviewView, WakeState, WakeView,
};
pub use cost::{BudgetView, CostPoint, CostView, Exhausted, Spent, TaskCost, WorkerCost};
pub use live::LiveTeam;
pub(crate) use live::kind;
pub use overview::{ProjectView, TeamRow, TeamsOverview};
pub use patch::Patch;
pub use projection::{MOST_MESSAGES, PAGE, TeamProjection, message_of};
pub use rows::{MessageView, PermissionRequest, TaskRow, WorkerView};
pub use run::{
    AnswerView, Approval, BaseView, FinishedView, MergeState, MergeView, PlanTask, PlanView,
    RunMember, RunView, StageView, Verification, VerificationState, VerifyCommand,
};
pub use sessions::Sessions;
pub use stage::{JournalReach, PhaseNow, RunNow, run_lately, run_now};
pub use team::{
    History, Lane, Mark, SessionView, Span, SpanEnd, StageSpan, TeamKind, TeamView, Tick, Timeline,
    Viewed,
};

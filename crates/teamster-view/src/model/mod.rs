//! One model of what a person sees, for every surface: `status`, `top`, `replay`, the web page and its API.
//!
//! Everything here is made of two things: a snapshot of the store, which tells the present, and a [`Story`], the fold of
//! the journal, which tells the rest and any past moment. [`LiveTeam`] puts both together and keeps them current;
//! [`Story::view`] shows a moment from the journal alone.
//!
//! The types of this module are the contract of `/api/v1`: their fields are written in the API's own words, and the
//! page's TypeScript types and the `OpenAPI` document are made from them. Texts are passed on as they were written;
//! whoever shows them cleans and redacts them.

mod cost;
mod graph;
mod live;
#[cfg(test)]
mod live_tests;
mod overview;
mod patch;
mod rows;
mod run;
mod sessions;
mod stage;
mod story;
mod team;
mod timeline;

pub use cost::{Budget, Cost, CostPoint, Exhausted, Spent, TaskCost, WorkerCost};
pub use live::LiveTeam;
pub use overview::{Overview, Project, TeamRow};
pub use patch::Patch;
pub use rows::{Message, PermissionRequest, TaskRow, Worker};
pub use run::{
    Answer, Approval, Base, Finished, Merge, MergeState, Plan, PlanTask, Run, RunMember, Stage,
    Verification, VerificationState, VerifyCommand,
};
pub use sessions::Sessions;
pub use stage::{RunNow, run_lately, run_now};
pub use story::{MOST_MESSAGES, PAGE, Story, message_of};
pub use team::{History, Session, TeamKind, TeamView, Viewed};
pub use timeline::{Lane, Mark, Span, SpanEnd, StageSpan, Tick, Timeline};

//! Calls git by its command line: the repository, each worker's worktree, a worker's changes, and the merge train.
//!
//! Invariants: the user's index, stash and checked-out branch are never touched, except by [`Integration::land`], which
//! a user has requested; teamster runs no hook, no `fsmonitor` and no diff program that a repository's settings name; a
//! worktree with unsaved work is moved aside or left alone, never deleted. Filters such as git-lfs do run, because
//! without them a commit would be wrong.

mod changes;
mod check_tree;
mod command;
mod commit;
mod diff;
mod displaced;
mod error;
mod fresh_index;
mod inspect;
mod integration;
mod kept_refs;
mod land;
mod list;
mod merge;
mod names;
mod nested;
mod project_files;
mod refs;
mod registered;
mod replacements;
mod repo;
mod restore;
mod salvage;
mod secrets;
mod setup;
mod shared;
mod tracking;
mod worktree;

pub use changes::{ChangeKind, WorktreeChange};
pub use check_tree::CheckTree;
pub use command::Git;
pub use commit::Author;
pub use diff::{BranchTip, FileLineCounts, tips};
pub use error::{GitError, GitProblem};
pub use integration::{Integration, PreparedIntegration};
pub use kept_refs::KeptRef;
pub use land::{Landed, NotRestored};
pub use list::{ListedWorktree, WorktreeKind, WorktreeState, list, teams};
pub use merge::{MergeOutcome, MergePrediction};
pub use names::{CommitId, branch_of, integration_branch, pin_ref};
pub use nested::UNFETCHABLE;
pub use refs::Refs;
pub use replacements::stored_objects;
pub use repo::{FoundRepo, Repo};
pub use secrets::{SecretFile, SecretReason};
pub use setup::{SetupReport, SetupStep};
pub use shared::{SharedRepo, clone_shared};
pub use worktree::{BranchUpdate, DisplacedWork, PreparedWorktree, Removal, Worktree};

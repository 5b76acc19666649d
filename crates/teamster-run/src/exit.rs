//! What a run exits with.

/// Complete and verified.
pub const COMPLETE: u8 = 0;
/// It could not be planned, or nobody could be started.
pub const FAILED: u8 = 1;
/// Its work could not land as things are.
pub const CONFLICT: u8 = 4;
/// A person did not want it.
pub const REJECTED: u8 = 10;
/// Checks fail that did not fail before.
pub const UNVERIFIED: u8 = 11;
/// It has cost what it may cost.
pub const BUDGET: u8 = 12;
/// A person stopped it.
pub const CANCELLED: u8 = 13;
/// Some tasks failed for good.
pub const TASKS_FAILED: u8 = 14;

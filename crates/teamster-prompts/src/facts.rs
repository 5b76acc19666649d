//! The facts that each template takes. Every field is present in every prompt; a field without a value is empty.

mod leading;
mod working;

pub use leading::{
    Candidate, CheckState, FindingFacts, FolderFacts, JudgePrompt, MemberFacts, PlanLimits,
    PlanPrompt, RepositoryFacts, ReviewPrompt, ReviewedTask, Said, TaskStateFacts, WakeLimits,
    WakePrompt,
};
pub use working::{
    Answer, Checks, ConflictFacts, ConflictPrompt, DoneTask, EarlierAttempt, FixFacts, FixPrompt,
    Mail, OtherWorker, Place, Reach, Situation, TaskFacts, WorkerPrompt, You,
};

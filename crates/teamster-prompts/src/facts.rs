//! The facts that each template takes. Every field is present in every prompt; a field without a value is empty.

mod leading;
mod working;

pub use leading::{
    CandidateFacts, CheckState, FindingFacts, FolderFacts, JudgePrompt, MemberFacts, PlanLimits,
    PlanPrompt, QuotedText, RepositoryFacts, ReviewPrompt, ReviewedTask, TaskStateFacts,
    WakeLimits, WakePrompt,
};
pub use working::{
    AnswerFacts, ChannelFacts, CheckFacts, CommonFacts, ConflictFacts, ConflictPrompt, DoneTask,
    EarlierAttempt, FixFacts, FixPrompt, MailFacts, OtherWorker, RecipientFacts, TaskFacts,
    WorkerPrompt, WorkplaceFacts,
};

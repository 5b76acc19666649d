//! Limits how much an agent may write through its tools for one task: an agent in a loop must not fill the disk or flood
//! its team with messages.

use teamster_types::TaskId;

use super::ToolFailure;

/// The most bytes of text that an agent may write for one task, each copy of a message counted.
const MOST_BYTES: usize = 2 * 1024 * 1024;

/// A kind of text that an agent writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaKind {
    /// A message, with the number of its recipients.
    Message(usize),
    /// A question.
    Question,
    /// A progress report.
    Progress,
    /// A finding.
    Finding,
    /// A proposed task.
    Proposal,
}

impl QuotaKind {
    /// Returns the most of this kind for one task, and the word for it.
    const fn limit(self) -> (usize, &'static str) {
        match self {
            Self::Message(_) => (100, "messages"),
            Self::Question => (20, "questions"),
            Self::Progress => (200, "reports of progress"),
            Self::Finding => (100, "findings"),
            Self::Proposal => (20, "proposed tasks"),
        }
    }

    const fn place(self) -> usize {
        match self {
            Self::Message(_) => 0,
            Self::Question => 1,
            Self::Progress => 2,
            Self::Finding => 3,
            Self::Proposal => 4,
        }
    }

    const fn amount(self) -> usize {
        match self {
            Self::Message(recipients) => recipients,
            _ => 1,
        }
    }
}

/// What an agent has written for its task so far.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    task: Option<TaskId>,
    counts: [usize; 5],
    bytes: usize,
}

impl Quota {
    /// Counts a text that is about to be written for a task, or refuses it.
    pub(crate) fn take(
        &mut self,
        task: &TaskId,
        written: QuotaKind,
        bytes: usize,
    ) -> Result<(), ToolFailure> {
        if self.task.as_ref() != Some(task) {
            *self = Self {
                task: Some(task.clone()),
                ..Self::default()
            };
        }
        let (most, word) = written.limit();
        let count = self.counts[written.place()].saturating_add(written.amount());
        if count > most {
            return Err(ToolFailure::new(
                format!("a task has at most {most} {word}, and this task has used them up"),
                "say the rest at the end of the task, in its summary",
            ));
        }
        let all = self
            .bytes
            .saturating_add(bytes.saturating_mul(written.amount()));
        if all > MOST_BYTES {
            return Err(ToolFailure::new(
                format!(
                    "a task writes at most {MOST_BYTES} bytes to others, and this task has reached that limit"
                ),
                "put long texts into files of your worktree",
            ));
        }
        self.counts[written.place()] = count;
        self.bytes = all;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_writes_is_bounded_by_number_and_by_size() {
        let task: TaskId = "1".parse().unwrap();
        let mut quota = Quota::default();
        for _ in 0..20 {
            assert!(quota.take(&task, QuotaKind::Question, 10).is_ok());
        }
        let failure = quota.take(&task, QuotaKind::Question, 10).unwrap_err();
        assert!(failure.message.contains("20 questions"), "{failure}");
        assert!(quota.take(&task, QuotaKind::Message(90), 10).is_ok());
        assert!(quota.take(&task, QuotaKind::Message(11), 10).is_err());
        assert!(quota.take(&task, QuotaKind::Finding, MOST_BYTES).is_err());
        assert!(quota.take(&task, QuotaKind::Finding, 10).is_ok());
    }

    #[test]
    fn another_task_begins_anew() {
        let mut quota = Quota::default();
        let (one, two): (TaskId, TaskId) = ("1".parse().unwrap(), "2".parse().unwrap());
        for _ in 0..20 {
            assert!(quota.take(&one, QuotaKind::Proposal, 1).is_ok());
        }
        assert!(quota.take(&one, QuotaKind::Proposal, 1).is_err());
        assert!(quota.take(&two, QuotaKind::Proposal, 1).is_ok());
    }
}

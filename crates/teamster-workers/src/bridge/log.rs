//! Everything the agent sent, redacted: one file for each task, cut into two parts before it grows without bound.

use std::cell::RefCell;

use teamster_fs::{Dir, FsError, Sync, layout};
use teamster_types::redact::{LineRedactor, redact};
use teamster_types::{TaskId, TeamName, Time, WorkerName};

/// Who a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The agent's standard output.
    Agent,
    /// Its standard error.
    Error,
    /// The bridge.
    Bridge,
}

impl From {
    fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Error => "stderr",
            Self::Bridge => "teamster",
        }
    }
}

/// The log of one task.
#[derive(Debug)]
pub(super) struct Log {
    folder: Dir,
    task: TaskId,
    limit: u64,
    /// One for each that a line can come from.
    redactors: RefCell<[LineRedactor; 3]>,
}

impl Log {
    /// Opens the log of a task. What an earlier attempt left is gone on with.
    pub(super) fn open(
        project: &Dir,
        team: &TeamName,
        worker: &WorkerName,
        task: &TaskId,
        limit: u64,
    ) -> Result<Self, FsError> {
        let mut folder = project.child_or_create(layout::OMC)?;
        for name in layout::log_folders(team, worker) {
            folder = folder.child_or_create(name)?;
        }
        Ok(Self {
            folder,
            task: task.clone(),
            limit,
            redactors: RefCell::default(),
        })
    }

    /// Adds a line. That it cannot be kept must not stop the work, so the caller only counts the error.
    /// `shown` is what it says to a person, where that is known.
    pub(super) fn line(
        &self,
        now: Time,
        from: From,
        line: &[u8],
        shown: Option<&str>,
    ) -> Result<(), FsError> {
        let text = String::from_utf8_lossy(line);
        let Some(text) = self.redactors.borrow_mut()[from as usize].line(&text) else {
            return Ok(());
        };
        // What the client sent as JSON stays JSON; anything else is a text.
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        let (key, value) = if is_json && text.trim_start().starts_with('{') {
            ("event", text.trim().to_owned())
        } else {
            ("text", serde_json::Value::from(text.as_ref()).to_string())
        };
        let word = from.word();
        let shown = shown.map(|shown| serde_json::Value::from(redact(shown).as_ref()));
        let shown = shown.map_or_else(String::new, |shown| format!(",\"shown\":{shown}"));
        let entry = format!("{{\"ts\":\"{now}\",\"from\":\"{word}\",\"{key}\":{value}{shown}}}\n");
        let name = layout::task_log(&self.task);
        let size = self.folder.append(&name, entry.as_bytes(), Sync::Fast)?;
        if size >= self.limit {
            let old = layout::old_task_log(&self.task);
            self.folder.rename(&name, &self.folder, &old)?;
        }
        Ok(())
    }
}

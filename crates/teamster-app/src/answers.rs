//! Answers to workers that cannot go on without somebody's words.

use teamster_types::task::Task;
use teamster_types::{TaskId, TeamName};

use crate::app::App;
use crate::error::Result;

/// Answers the worker of a blocked task. The task can be claimed again, and whoever claims it is told.
pub fn answer_block(app: &App, team: &TeamName, task: &TaskId, text: &str) -> Result<Task> {
    app.actor.must_be_person("answering for the person")?;
    let store = app.store()?;
    Ok(store.unblock(team, app.actor.name(), task, text)?)
}

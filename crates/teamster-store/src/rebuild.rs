//! The tasks of a team, rebuilt from its journal alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use teamster_fs::OrTrace as _;
use teamster_journal::{Event, apply};
use teamster_types::TaskId;
use teamster_types::json::Object;
use teamster_types::redact::redact_json;
use teamster_types::task::Task;

/// The tasks of a team as the journal describes them, up to the last event that was applied. Cheap to clone: unchanged
/// tasks are shared.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tasks: BTreeMap<TaskId, Arc<Task>>,
    highest: Option<TaskId>,
}

impl Tasks {
    /// Applies one event. Events that are not about tasks change nothing.
    pub fn apply(&mut self, event: &Event) {
        if let Some(id) = &event.task_id
            && event.is_about_tasks()
        {
            self.highest = self.highest.take().max(Some(id.clone()));
            if event.data.get("whole") == Some(&Value::Bool(true)) {
                self.tasks.remove(id);
            }
            self.change(id, &event.data);
        }
        if let Some(Value::Object(also)) = event.data.get("also") {
            for (id, data) in also {
                if let (Ok(id), Value::Object(data)) = (id.parse(), data) {
                    self.change(&id, data);
                }
            }
        }
    }

    fn change(&mut self, id: &TaskId, data: &Object) {
        // An event that cannot be applied leaves the task unknown.
        let before = self.tasks.remove(id).map(Arc::unwrap_or_clone);
        let after = apply(before, id, data).ok_or_trace("apply an event to a task");
        if let Some(task) = after.flatten() {
            self.tasks.insert(id.clone(), Arc::new(task));
        }
    }

    /// Removes one task and returns it.
    pub fn take(&mut self, id: &TaskId) -> Option<Task> {
        self.tasks.remove(id).map(Arc::unwrap_or_clone)
    }

    /// Returns one task.
    pub fn get(&self, id: &TaskId) -> Option<&Task> {
        self.tasks.get(id).map(AsRef::as_ref)
    }

    /// Returns the tasks, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().map(AsRef::as_ref)
    }

    /// Returns the tasks that were not removed with `take`.
    pub fn remaining(&self) -> Vec<Task> {
        self.iter().cloned().collect()
    }

    /// Returns the highest id that was ever assigned.
    pub fn highest(&self) -> Option<TaskId> {
        self.highest.clone()
    }
}

/// Returns whether a rebuilt task and a task file agree. The journal holds no token, no renewed lease and no secret.
pub fn is_same_task(rebuilt: &Task, file: &Task) -> bool {
    comparable(rebuilt) == comparable(file)
}

fn comparable(task: &Task) -> Value {
    let mut object = task.public();
    if let Some(Value::Object(ours)) = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("teamster"))
    {
        ours.shift_remove("version");
        if let Some(Value::Object(claim)) = ours.get_mut("claim") {
            claim.shift_remove("leasedUntil");
        }
    }
    let mut value = Value::Object(object);
    drop_nulls(&mut value);
    redact_json(&mut value);
    value
}

/// Removes keys with the value `null`, which in the journal means that the key was removed.
fn drop_nulls(value: &mut Value) {
    if let Value::Object(object) = value {
        object.retain(|_, inner| !inner.is_null());
        object.values_mut().for_each(drop_nulls);
    }
}

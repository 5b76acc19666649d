//! Events as somebody wrote them into a journal, complete or not.

use serde_json::Value;
use teamster_journal::{EventKind, NewEvent};

/// Returns an event of this kind with `data` as it is, whatever its payload should look like.
pub fn recorded(kind: &str, actor: &str, data: &Value) -> NewEvent {
    let data = data.as_object().cloned().unwrap_or_default();
    NewEvent::new(actor, EventKind::parse(kind, &data))
}

//! Who takes part in a session, as whoever begins it names them.

use serde_json::{Value, json};

use crate::{PartyError, Result};

/// The members with every key that readers look for: `name`, `agent`, `role`, `spawned`. Other keys stay.
pub(super) fn checked(members: &[Value]) -> Result<Vec<Value>> {
    let mut names: Vec<&str> = Vec::new();
    let mut checked = Vec::with_capacity(members.len());
    for member in members {
        let bad = |what: String| {
            PartyError::refused(
                what,
                r#"members are a list such as [{"name":"leader","agent":"leader-agent","role":"orchestrator"}]"#,
            )
        };
        let name = member.get("name").and_then(Value::as_str);
        let (Some(given), Some(name)) = (member.as_object(), name.filter(|name| !name.is_empty()))
        else {
            return Err(bad(format!("a member has no name: {member}")));
        };
        if names.contains(&name) {
            return Err(bad(format!("two members are called {name}")));
        }
        names.push(name);
        let mut whole = given.clone();
        for key in ["agent", "role"] {
            let value = whole.entry(key).or_insert_with(|| json!(""));
            if !value.is_string() {
                return Err(bad(format!("`{key}` of {name} must be a text")));
            }
        }
        let spawned = whole.entry("spawned").or_insert(Value::Bool(false));
        if !spawned.is_boolean() {
            return Err(bad(format!("`spawned` of {name} must be true or false")));
        }
        checked.push(Value::Object(whole));
    }
    Ok(checked)
}

//! Adds teamster's hooks to the text of settings, and removes them again.

use serde_json::{Value, json};

use super::edit::{NewItem, TextStyle, append, put, remove};
use super::hooks::{self, TOOL_EVENTS};
use super::json::{JsonFault, JsonNode, JsonShape, scan};

const HOOKS: &str = "hooks";

/// Why settings are not edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingsFault {
    /// They are not JSON.
    NotJson(JsonFault),
    /// A value is not of the type that the client expects.
    Wrong {
        place: String,
        is: &'static str,
        should: &'static str,
    },
}

/// One of teamster's entries: its position and the program that it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HookEntry {
    event: String,
    program: String,
    member: usize,
    group: usize,
    hook: usize,
}

/// Settings without any content.
const EMPTY: &str = "{}\n";

/// Returns whether a text contains no settings at all.
pub(super) fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

/// Returns the text with teamster's hooks for `events`, each after existing entries. An existing entry of teamster's
/// only gets the right program; if tool events are not in `events`, their entries are removed.
pub(super) fn add_hooks(
    text: &str,
    program: &str,
    events: &[&str],
) -> Result<String, SettingsFault> {
    let mut text = if is_blank(text) { EMPTY } else { text }.to_owned();
    check(&text)?;
    for event in TOOL_EVENTS {
        let keep = usize::from(events.contains(&event));
        text = remove_entries(text, |entry| entry.event == event, keep)?.0;
    }
    for event in events {
        text = put_event(
            &remove_entries(text, |entry| entry.event == *event, 1)?.0,
            program,
            event,
        )?;
    }
    Ok(text)
}

/// Returns the text without teamster's entries, and their events. `None` when nothing else is left.
pub(super) fn remove_hooks(text: &str) -> Result<(Option<String>, Vec<String>), SettingsFault> {
    if is_blank(text) {
        return Ok((Some(text.to_owned()), Vec::new()));
    }
    let mut events = Vec::new();
    for entry in entries(&scan_settings(text)?) {
        if !events.contains(&entry.event) {
            events.push(entry.event);
        }
    }
    let (left, emptied) = remove_entries(text.to_owned(), |_| true, 0)?;
    Ok(((!emptied).then_some(left), events))
}

/// Returns the program and the events of teamster's entries.
pub(super) fn installed(text: &str) -> Result<Option<(String, Vec<String>)>, SettingsFault> {
    if is_blank(text) {
        return Ok(None);
    }
    let entries = entries(&scan_settings(text)?);
    let events = entries.iter().map(|entry| entry.event.clone()).collect();
    Ok(entries.first().map(|entry| (entry.program.clone(), events)))
}

/// Returns whether the settings disable all hooks.
pub(super) fn are_hooks_off(text: &str) -> bool {
    let root = scan(text).ok();
    let off = root.as_ref().and_then(|root| root.get("disableAllHooks"));
    off.is_some_and(|off| off.shape == JsonShape::True)
}

/// Returns the text for a user to paste where the settings are not edited: the whole member, one line for each event.
pub(super) fn snippet(program: &str, events: &[&str]) -> String {
    let style = TextStyle {
        newline: "\n",
        unit: "  ".to_owned(),
        colon: ": ".to_owned(),
    };
    let lines: Vec<String> = events
        .iter()
        .map(|event| {
            let mut line = String::new();
            let groups = json!([hooks::group(event, &hooks::command(program, event))]);
            style.on_one_line(&groups, &mut line);
            format!("    \"{event}\": {line}")
        })
        .collect();
    format!("  \"hooks\": {{\n{}\n  }}", lines.join(",\n"))
}

fn scan_settings(text: &str) -> Result<JsonNode, SettingsFault> {
    scan(text).map_err(SettingsFault::NotJson)
}

/// Fails if teamster's hooks cannot be added to these settings.
fn check(text: &str) -> Result<(), SettingsFault> {
    let root = scan_settings(text)?;
    let wrong = |place: String, node: &JsonNode, should: &'static str| {
        Err(SettingsFault::Wrong {
            place,
            is: node.kind(text),
            should,
        })
    };
    if root.members().is_none() {
        return wrong("the whole of it".to_owned(), &root, "an object");
    }
    let Some(hooks) = root.get(HOOKS) else {
        return Ok(());
    };
    if hooks.members().is_none() {
        return wrong(format!("`{HOOKS}`"), hooks, "an object");
    }
    for event in hooks::events(false) {
        if let Some(groups) = hooks.get(event)
            && groups.elements().is_none()
        {
            return wrong(format!("`{HOOKS}.{event}`"), groups, "an array");
        }
    }
    Ok(())
}

fn put_event(text: &str, program: &str, event: &str) -> Result<String, SettingsFault> {
    let root = scan_settings(text)?;
    let command = hooks::command(program, event);
    if let Some(entry) = entries(&root).into_iter().find(|one| one.event == event) {
        if entry.program == program {
            return Ok(text.to_owned());
        }
        let hook = find(&root, &entry).and_then(|hook| hook.get("command"));
        return Ok(match hook {
            Some(old) => put(text, old.span.clone(), &Value::from(command).to_string()),
            None => text.to_owned(),
        });
    }
    let style = TextStyle::of(text, &root);
    let group = hooks::group(event, &command);
    let groups = json!([group]);
    let hooks_key = HOOKS.to_owned();
    let event_key = event.to_owned();
    Ok(match root.get(HOOKS) {
        None => {
            let all = json!({ event: groups });
            let item = NewItem {
                key: Some(&hooks_key),
                value: &all,
            };
            append(text, &style, &root, None, item)
        }
        Some(hooks) => match hooks.get(event) {
            None => {
                let item = NewItem {
                    key: Some(&event_key),
                    value: &groups,
                };
                append(text, &style, hooks, Some(&root), item)
            }
            Some(there) => {
                let item = NewItem {
                    key: None,
                    value: &group,
                };
                append(text, &style, there, Some(hooks), item)
            }
        },
    })
}

/// Removes teamster's entries that match `is_meant`, except the first `keep`, and returns whether nothing else is left.
fn remove_entries(
    mut text: String,
    is_meant: impl Fn(&HookEntry) -> bool,
    keep: usize,
) -> Result<(String, bool), SettingsFault> {
    loop {
        let root = scan_settings(&text)?;
        let Some(entry) = entries(&root).into_iter().filter(&is_meant).nth(keep) else {
            return Ok((text, false));
        };
        let Some(hooks) = root.get(HOOKS) else {
            return Ok((text, false));
        };
        let event = &hooks.members().unwrap_or_default()[entry.member].value;
        let group = &event.elements().unwrap_or_default()[entry.group];
        let inner = group.get(HOOKS).unwrap_or(group);
        let place = root.members().unwrap_or_default().iter();
        let place = place.into_iter().rposition(|member| member.key == HOOKS);
        let place = place.unwrap_or_default();
        // A container that held nothing but teamster's entries is removed too, unless an earlier member of the same
        // name would take effect again.
        text = if inner.items().len() > 1 {
            remove(&text, inner, entry.hook)
        } else if event.items().len() > 1 {
            remove(&text, event, entry.group)
        } else if is_repeated(hooks, entry.member) {
            put(&text, event.span.clone(), "[]")
        } else if hooks.items().len() > 1 {
            remove(&text, hooks, entry.member)
        } else if is_repeated(&root, place) {
            put(&text, hooks.span.clone(), "{}")
        } else if root.items().len() > 1 {
            remove(&text, &root, place)
        } else {
            return Ok((put(&text, root.span.clone(), "{}"), true));
        };
    }
}

fn is_repeated(object: &JsonNode, at: usize) -> bool {
    let members = object.members().unwrap_or_default();
    let key = members.get(at).map(|member| &member.key);
    members
        .iter()
        .take(at)
        .any(|before| Some(&before.key) == key)
}

/// Returns all of teamster's entries, in the order of the text.
fn entries(root: &JsonNode) -> Vec<HookEntry> {
    let mut found = Vec::new();
    let hooks = root
        .get(HOOKS)
        .and_then(JsonNode::members)
        .unwrap_or_default();
    for (member, event) in hooks.iter().enumerate() {
        // The client uses the last of several members with the same name.
        if hooks[member + 1..]
            .iter()
            .any(|later| later.key == event.key)
        {
            continue;
        }
        let groups = event.value.elements().unwrap_or_default();
        for (group, inner) in groups.iter().enumerate() {
            let inner = inner.get(HOOKS).and_then(JsonNode::elements);
            for (hook, one) in inner.unwrap_or_default().iter().enumerate() {
                let is_command = one.get("type").and_then(JsonNode::text) == Some("command");
                let command = one.get("command").and_then(JsonNode::text);
                let program = command.and_then(|command| hooks::program_of(command, &event.key));
                // An entry with separate arguments runs without a shell and was not created by teamster.
                if let (true, Some(program), None) = (is_command, program, one.get("args")) {
                    found.push(HookEntry {
                        event: event.key.clone(),
                        program,
                        member,
                        group,
                        hook,
                    });
                }
            }
        }
    }
    found
}

fn find<'a>(root: &'a JsonNode, entry: &HookEntry) -> Option<&'a JsonNode> {
    let event = &root.get(HOOKS)?.members()?.get(entry.member)?.value;
    let group = event.elements()?.get(entry.group)?;
    group.get(HOOKS)?.elements()?.get(entry.hook)
}

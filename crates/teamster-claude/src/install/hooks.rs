//! What our entries in the client's settings are, and how they are known again.

use serde_json::{Map, Value, json};

/// Limits a hook, in seconds. It takes milliseconds; this is for a machine under heavy load.
pub const TIMEOUT: u32 = 5;

/// The tools whose use we follow. Anchored: anything that is not a plain list of names is searched for anywhere in a
/// tool's name, and `mcp__board__createTask` is none of ours.
pub const TOOLS: &str = "^(Agent|Task.*|SendMessage)$";

/// The name of the command as people install it.
const NAME: &str = "teamster";

/// Every event we follow that no tool causes, in the order in which they are written. All are known to every
/// supported client: one unknown name makes some of them drop all hooks of a plugin.
pub const EVENTS: [&str; 10] = [
    "SubagentStart",
    "SubagentStop",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Stop",
    "StopFailure",
    "SessionStart",
    "SessionEnd",
    "Notification",
];

/// The events of [`TOOLS`], which cost two calls for each use of a tool.
pub const TOOL_EVENTS: [&str; 2] = ["PreToolUse", "PostToolUse"];

/// Returns every event, or with `light` those that no tool causes.
pub fn events(light: bool) -> Vec<&'static str> {
    let tools: &[&str] = if light { &[] } else { &TOOL_EVENTS };
    EVENTS.iter().chain(tools).copied().collect()
}

/// Our group of an event: what the client runs, when, and for how long at most.
pub fn group(event: &str, command: &str) -> Value {
    let mut group = Map::new();
    if TOOL_EVENTS.contains(&event) {
        group.insert("matcher".to_owned(), TOOLS.into());
    }
    let hook = json!({ "type": "command", "command": command, "timeout": TIMEOUT });
    group.insert("hooks".to_owned(), Value::Array(vec![hook]));
    Value::Object(group)
}

/// Returns all events with our groups, as they stand under `hooks`.
pub fn all(events: &[&str], command: impl Fn(&str) -> String) -> Value {
    let all = events.iter().map(|event| {
        let group = group(event, &command(event));
        ((*event).to_owned(), Value::Array(vec![group]))
    });
    Value::Object(all.collect())
}

/// Returns what a shell runs for an event.
pub fn command(program: &str, event: &str) -> String {
    format!("{} hook {event}", quoted(program))
}

/// Returns the program of a command that [`command`] made for this event, here or on the day it was installed.
pub fn program_of(command: &str, event: &str) -> Option<String> {
    let (word, rest) = first_word(command)?;
    let name = word.rsplit('/').next().unwrap_or(&word);
    let is_ours = name == NAME && rest.strip_prefix(" hook ") == Some(event);
    is_ours.then_some(word)
}

/// Quotes a word so that a shell reads it back as it is.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+,:@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Returns the first word of a command and what follows it; `None` when the shell would do more than read it.
fn first_word(command: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut rest = command;
    loop {
        let mut characters = rest.chars();
        match characters.next() {
            None | Some(' ') if !word.is_empty() => return Some((word, rest)),
            Some('\'') => {
                let (inside, after) = characters.as_str().split_once('\'')?;
                word.push_str(inside);
                rest = after;
            }
            // A person may have written it with these; a shell would look into them for more than these.
            Some('"') => {
                let (inside, after) = characters.as_str().split_once('"')?;
                if inside.contains(['\\', '$', '`']) {
                    return None;
                }
                word.push_str(inside);
                rest = after;
            }
            Some('\\') => {
                word.push(characters.next()?);
                rest = characters.as_str();
            }
            Some(c) if c.is_whitespace() || "$`;&|<>()*?[]#~={}!\"".contains(c) => return None,
            Some(c) => {
                word.push(c);
                rest = characters.as_str();
            }
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_again_wherever_the_binary_lies() {
        for program in [
            "/usr/local/bin/teamster",
            "/home/me/my tools/teamster",
            "/home/o'brien/teamster",
            "/home/\"x\"/teamster",
            "/home/$HOME/`id`/teamster",
            "/home/김/teamster",
            "/a=b/teamster",
            "/a\nb/teamster",
            "/a\\b/teamster",
            "/!x/teamster",
        ] {
            let command = command(program, "Stop");
            assert_eq!(program_of(&command, "Stop").as_deref(), Some(program));
        }
        assert_eq!(
            command("/opt/teamster", "Stop"),
            "/opt/teamster hook Stop",
            "no quotes where none are needed"
        );
    }

    #[test]
    fn what_a_person_wrote_by_hand_is_ours_only_in_the_same_shape() {
        for same in [
            "teamster hook Stop",
            "\"/my tools/teamster\" hook Stop",
            "/my\\ tools/teamster hook Stop",
            "'/a'\"/b\"/teamster hook Stop",
        ] {
            assert!(program_of(same, "Stop").is_some(), "{same}");
        }
        for other in [
            "",
            "teamster",
            "teamster hook",
            "teamster hook SessionEnd",
            "teamster hook Stop; rm x",
            "teamster hook Stop ",
            "teamster  hook Stop",
            "TEAMSTER_DEBUG=1 teamster hook Stop",
            "exec teamster hook Stop",
            "/opt/teamster2 hook Stop",
            "\"$HOME/teamster\" hook Stop",
            "$HOME/teamster hook Stop",
            "~/teamster hook Stop",
            "'/opt/teamster hook Stop",
            "/opt/teamster\\",
        ] {
            assert_eq!(program_of(other, "Stop"), None, "{other}");
        }
    }
}

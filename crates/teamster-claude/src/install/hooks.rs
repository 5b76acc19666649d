//! The entries of teamster in the client's settings, and how they are recognized.

use serde_json::{Map, Value, json};
use teamster_types::shell;

/// The timeout of a hook, in seconds. It takes milliseconds; this is for a machine under heavy load.
pub const TIMEOUT: u32 = 5;

/// The tools whose use is followed. Anchored: the client matches anything but a plain list of names anywhere in a
/// tool's name, and `mcp__board__createTask` must not match.
pub const TOOLS: &str = "^(Agent|Task.*|SendMessage)$";

/// The name of the command as users install it.
const NAME: &str = "teamster";

/// Every followed event that is not caused by a tool, in the order in which they are written. All are known to every
/// supported client: one unknown name makes some clients drop all hooks of a plugin.
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

/// The events of [`TOOLS`], which cost two hook calls for each use of a tool.
pub const TOOL_EVENTS: [&str; 2] = ["PreToolUse", "PostToolUse"];

/// Returns every event, or with `light` those that are not caused by a tool.
pub fn events(light: bool) -> Vec<&'static str> {
    let tools: &[&str] = if light { &[] } else { &TOOL_EVENTS };
    EVENTS.iter().chain(tools).copied().collect()
}

/// Returns teamster's hook group for an event: what the client runs, when, and its timeout.
pub fn group(event: &str, command: &str) -> Value {
    let mut group = Map::new();
    if TOOL_EVENTS.contains(&event) {
        group.insert("matcher".to_owned(), TOOLS.into());
    }
    let hook = json!({ "type": "command", "command": command, "timeout": TIMEOUT });
    group.insert("hooks".to_owned(), Value::Array(vec![hook]));
    Value::Object(group)
}

/// Returns the value of `hooks` with teamster's groups for all events.
pub fn all(events: &[&str], command: impl Fn(&str) -> String) -> Value {
    let all = events.iter().map(|event| {
        let group = group(event, &command(event));
        ((*event).to_owned(), Value::Array(vec![group]))
    });
    Value::Object(all.collect())
}

/// Returns the shell command for an event.
pub fn command(program: &str, event: &str) -> String {
    format!("{} hook {event}", shell::word(program))
}

/// Returns the program of a command that [`command`] made for this event, whatever path it was installed from.
pub fn program_of(command: &str, event: &str) -> Option<String> {
    let (word, rest) = first_word(command)?;
    let name = word.rsplit('/').next().unwrap_or(&word);
    let is_ours = name == NAME && rest.strip_prefix(" hook ") == Some(event);
    is_ours.then_some(word)
}

/// Splits a command into its first word and the rest; `None` when the shell would expand or interpret it.
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
            // A user may have used double quotes; inside them a shell still interprets these characters.
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

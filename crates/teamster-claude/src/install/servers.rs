//! Adds teamster's MCP server to the text of a client's settings, and removes it again.
//!
//! Clients with JSON settings list their MCP servers in `mcpServers`, each under its name.

use serde_json::{Value, json};

use super::edit::{NewItem, TextStyle, append, put, remove};
use super::json::{JsonNode, scan};

const SERVERS: &str = "mcpServers";
/// The name of teamster's server in a client's settings.
const NAME: &str = "teamster";
/// Settings without any content.
const EMPTY: &str = "{}\n";

/// Why settings are not edited, as a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub String);

/// Returns the settings with teamster's server, started as `program mcp`. A repeated call changes nothing.
pub fn put_server(text: &str, program: &str) -> Result<String, SettingsError> {
    let blank = text.trim_start_matches('\u{feff}').trim().is_empty();
    let text = if blank { EMPTY } else { text };
    let root = scanned(text)?;
    let server = json!({ "command": program, "args": ["mcp"] });
    let style = TextStyle::of(text, &root);
    let name = NAME.to_owned();
    let Some(servers) = root.get(SERVERS) else {
        let all = json!({ NAME: server });
        let key = SERVERS.to_owned();
        let item = NewItem {
            key: Some(&key),
            value: &all,
        };
        return Ok(append(text, &style, &root, None, item));
    };
    if servers.members().is_none() {
        return Err(SettingsError(format!("`{SERVERS}` is not an object")));
    }
    let Some(there) = servers.get(NAME) else {
        let item = NewItem {
            key: Some(&name),
            value: &server,
        };
        return Ok(append(text, &style, servers, Some(&root), item));
    };
    match program_of(there) {
        Some(known) if known == program => Ok(text.to_owned()),
        Some(_) => {
            let command = there.get("command").map(|command| command.span.clone());
            Ok(command.map_or_else(
                || text.to_owned(),
                |span| put(text, span, &Value::from(program).to_string()),
            ))
        }
        None => Err(SettingsError(format!(
            "`{SERVERS}.{NAME}` exists and was not created by `teamster install`"
        ))),
    }
}

/// Returns the settings without teamster's server, or `None` if nothing else is left. Settings without it are returned
/// unchanged.
pub fn take_server(text: &str) -> Result<Option<String>, SettingsError> {
    let root = scanned(text)?;
    let members = root.members().unwrap_or_default();
    let Some(place) = members.iter().rposition(|member| member.key == SERVERS) else {
        return Ok(Some(text.to_owned()));
    };
    let servers = &members[place].value;
    let named = servers.members().unwrap_or_default();
    let ours = named
        .iter()
        .rposition(|member| member.key == NAME && program_of(&member.value).is_some());
    let Some(ours) = ours else {
        return Ok(Some(text.to_owned()));
    };
    Ok(if named.len() > 1 {
        Some(remove(text, servers, ours))
    } else if members.len() > 1 {
        Some(remove(text, &root, place))
    } else {
        None
    })
}

/// Returns the program of a server that is started as `program mcp`, like teamster's.
fn program_of(server: &JsonNode) -> Option<&str> {
    let arguments = server.get("args")?.elements()?;
    match arguments {
        [one] if one.text() == Some("mcp") => server.get("command")?.text(),
        _ => None,
    }
}

fn scanned(text: &str) -> Result<JsonNode, SettingsError> {
    let root = scan(text).map_err(|fault| {
        let (line, column) = fault.place(text);
        SettingsError(format!(
            "it is not plain JSON (line {line}, column {column}: {})",
            fault.what
        ))
    })?;
    if root.members().is_none() {
        return Err(SettingsError("it is not an object".to_owned()));
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_comes_in_once_and_goes_without_a_trace() {
        for text in [
            "{\n  \"theme\": \"dark\"\n}\n",
            "{\"a\":1,\"mcpServers\":{\"x\":{\"command\":\"y\"}}}",
            "{\r\n\t\"mcpServers\": {\r\n\t\t\"x\": {}\r\n\t}\r\n}",
        ] {
            let with = put_server(text, "/bin/teamster").unwrap();
            assert_ne!(with, text);
            assert_eq!(put_server(&with, "/bin/teamster").unwrap(), with);
            assert_eq!(take_server(&with).unwrap().as_deref(), Some(text));
        }
    }

    #[test]
    fn settings_that_held_nothing_else_go_with_it() {
        let with = put_server("", "/bin/teamster").unwrap();
        assert_eq!(take_server(&with).unwrap(), None);
    }

    #[test]
    fn moved_program_is_followed_and_a_server_of_others_is_left_alone() {
        let with = put_server("{}", "/old/teamster").unwrap();
        let moved = put_server(&with, "/new/teamster").unwrap();
        assert_eq!(moved, with.replace("/old/", "/new/"));
        let other = r#"{"mcpServers":{"teamster":{"url":"https://x"}}}"#;
        assert!(put_server(other, "/bin/teamster").is_err());
        assert_eq!(take_server(other).unwrap().as_deref(), Some(other));
        for unfit in ["{", "[]", r#"{"mcpServers":7}"#, "{} // x"] {
            assert!(put_server(unfit, "/bin/teamster").is_err(), "{unfit}");
        }
    }
}

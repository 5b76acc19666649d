//! A running session of Claude Code, as recorded in `sessions/{pid}.json`.

use serde_json::Value;

use crate::process::{ProcessId, ProcessState};

/// A recorded session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSession {
    /// Its id.
    pub id: String,
    /// The process of Claude Code. Older versions do not record its pid namespace.
    pub process: ProcessId,
    /// The tmux pane it runs in.
    pub pane: Option<String>,
}

impl ClientSession {
    /// Parses the record of the process `pid`; `None` when it names no session.
    pub fn parse(pid: u32, value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let id = Some(text("sessionId")).filter(|id| !id.is_empty())?;
        let start = match value.get("procStart") {
            Some(Value::Number(number)) => number.as_u64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        // `linux:…:pid:[4026531836]` names the namespace.
        let domain = text("pidDomain");
        let pid_ns = domain.find("pid:[").map_or("", |at| &domain[at..]);
        let pane = text("tmux");
        Some(Self {
            id: id.to_owned(),
            process: ProcessId {
                pid,
                process_start_time: start.unwrap_or(0),
                boot_id: String::new(),
                pid_ns: pid_ns.to_owned(),
                host: String::new(),
            },
            pane: pane.rfind('%').map(|at| pane[at..].to_owned()),
        })
    }

    /// Returns whether it leads the team in the folder `team`: by the id in the registry, or by the name that newer
    /// versions of Claude Code derive from it.
    pub fn leads(&self, lead_session: &str, team: &str) -> bool {
        let derived = team.strip_prefix("session-");
        let is_derived =
            derived.is_some_and(|start| start.len() == 8 && self.id.starts_with(start));
        (!lead_session.is_empty() && self.id == lead_session) || is_derived
    }
}

/// Returns what the session records prove about the process in a tmux pane, with the pid of the session that proves it;
/// `None` when no session was recorded there. One running session proves that it is alive, and only the end of all of
/// them proves that it is gone.
pub fn process_state_in_pane(
    sessions: &[ClientSession],
    pane: &str,
    process_state: impl Fn(&ProcessId) -> ProcessState,
) -> Option<(ProcessState, u32)> {
    let is_there =
        |session: &&ClientSession| !pane.is_empty() && session.pane.as_deref() == Some(pane);
    let lives = sessions
        .iter()
        .filter(is_there)
        .map(|session| (process_state(&session.process), session.process.pid));
    let lives: Vec<(ProcessState, u32)> = lives.collect();
    let of = |wanted: ProcessState| lives.iter().copied().find(|(life, _)| *life == wanted);
    of(ProcessState::Alive)
        .or_else(|| of(ProcessState::Unknown))
        .or_else(|| of(ProcessState::Gone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_of_both_clients_that_write_them_are_read() {
        let old =
            json!({"pid":64,"sessionId":"4094b6f4-0ea7","procStart":"578634","version":"2.1.197"});
        let new = json!({"pid":26171,"sessionId":"36fee606-cef6","procStart":"93061","tmux":"main:@0.%0",
            "pidDomain":"linux:00000000000000000000000000000000:pid:[4026531836]"});
        let old = ClientSession::parse(64, &old).unwrap();
        assert_eq!(
            (old.process.process_start_time, old.pane.as_deref()),
            (578_634, None)
        );
        let new = ClientSession::parse(26171, &new).unwrap();
        assert_eq!(new.process.pid_ns, "pid:[4026531836]");
        assert_eq!(new.pane.as_deref(), Some("%0"));
        assert!(new.leads("36fee606-cef6", "any"));
        assert!(new.leads("", "session-36fee606"));
        for (session, team) in [
            ("", ""),
            ("36fee606", "any"),
            ("e", "session-36fee60"),
            ("", "36fee606"),
        ] {
            assert!(!new.leads(session, team), "{session} {team}");
        }
        assert!(ClientSession::parse(1, &json!({"sessionId":""})).is_none());
        assert!(ClientSession::parse(1, &json!([1])).is_none());
    }
}

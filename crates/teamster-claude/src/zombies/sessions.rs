//! Claude Code's running sessions, `sessions/{pid}.json`. The `.key` file beside one is a secret and never opened.

use serde_json::Value;
use teamster_fs::proc::Machine;
use teamster_fs::{Dir, layout};
use teamster_types::process::{Life, ProcessId};

use super::processes::{life, number};

/// No session's record is larger.
const LARGEST: u64 = 1024 * 1024;

/// A session that left a record.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) process: ProcessId,
    /// The pane it runs in.
    pub(super) pane: Option<String>,
}

impl Session {
    pub(super) fn life(&self, machine: &Machine) -> Life {
        life(machine, &self.process)
    }

    /// Whether it leads the team: by the id that the registry names, or by the name that newer clients derive from it.
    pub(super) fn leads(&self, lead_session: &str, team: &str) -> bool {
        (!lead_session.is_empty() && self.id == lead_session)
            || layout::implicit_team(&self.id).is_some_and(|name| name == team)
    }
}

/// Every session whose record can be read.
pub(super) fn read_all(root: &Dir) -> Vec<Session> {
    let Ok(Some(folder)) = root.child(layout::NATIVE_SESSIONS) else {
        return Vec::new();
    };
    let entries = folder.entries().unwrap_or_default();
    entries
        .iter()
        .filter_map(|entry| {
            let pid = layout::pid_of_session_file(&entry.name)?;
            folder
                .stamp(&entry.name)
                .ok()?
                .filter(|stamp| stamp.size <= LARGEST)?;
            let (bytes, _) = folder.read(&entry.name).ok()??;
            parse(pid, &serde_json::from_slice(&bytes).ok()?)
        })
        .collect()
}

fn parse(pid: u32, value: &Value) -> Option<Session> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let domain = text("pidDomain");
    Some(Session {
        id: Some(text("sessionId"))
            .filter(|id| !id.is_empty())?
            .to_owned(),
        process: ProcessId {
            pid,
            process_start_time: number(value.get("procStart")).unwrap_or(0),
            boot_id: String::new(),
            pid_ns: domain
                .find("pid:[")
                .map_or(String::new(), |at| domain[at..].to_owned()),
            host: String::new(),
        },
        pane: text("tmux")
            .rfind('%')
            .map(|at| text("tmux")[at..].to_owned()),
    })
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
        let old = parse(64, &old).unwrap();
        assert_eq!(
            (old.process.process_start_time, old.pane.as_deref()),
            (578_634, None)
        );
        let new = parse(26171, &new).unwrap();
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
        assert!(parse(1, &json!({"sessionId":""})).is_none());
        assert!(parse(1, &json!([1])).is_none());
    }
}

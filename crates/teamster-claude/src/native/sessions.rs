//! The client's sessions: which process runs which.

use serde_json::Value;
use teamster_fs::layout;
use teamster_fs::proc::Machine;
use teamster_types::process::{Life, ProcessId};

use super::Registry;

impl Registry {
    /// Whether a session is proven dead: the client recorded its process, and nothing runs there any more.
    ///
    /// A session without a record proves nothing. The `.key` files beside the records are secrets and not opened.
    pub fn is_dead(&self, session: &str) -> bool {
        let Ok(Some(folder)) = self.claude().child(layout::NATIVE_SESSIONS) else {
            return false;
        };
        let mut recorded = false;
        let mut machine = None;
        for entry in folder.entries().into_iter().flatten() {
            let Some(pid) = layout::pid_of_session_file(&entry.name) else {
                continue;
            };
            let Ok(Some((bytes, _))) = folder.read(&entry.name) else {
                continue;
            };
            let record: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            if session.is_empty()
                || record.get("sessionId").and_then(Value::as_str) != Some(session)
            {
                continue;
            }
            recorded = true;
            let machine = machine.get_or_insert_with(Machine::read);
            let start = record.get("procStart").and_then(Value::as_str);
            let process = ProcessId {
                pid,
                process_start_time: start.and_then(|start| start.parse().ok()).unwrap_or(0),
                pid_ns: namespace(&record),
                ..machine.me().clone()
            };
            if machine.life(&process) != Life::Gone {
                return false;
            }
        }
        recorded
    }
}

/// `linux:…:pid:[4026531836]` names the namespace; a pid of another one cannot be judged from here.
fn namespace(record: &Value) -> String {
    let domain = record.get("pidDomain").and_then(Value::as_str);
    let domain = domain.unwrap_or_default();
    domain
        .find("pid:[")
        .map_or_else(String::new, |at| domain[at..].to_owned())
}

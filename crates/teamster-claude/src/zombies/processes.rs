//! Which processes are meant, and whether they live.

use std::path::Path;

use serde_json::Value;
use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_types::process::{Life, ProcessId};

use crate::native::PaneArguments;

/// Whether a process lives. One of another machine cannot be judged, whatever runs here under its number.
pub(super) fn life(machine: &Machine, process: &ProcessId) -> Life {
    let elsewhere =
        process.boot_id.is_empty() && !process.host.is_empty() && process.host != machine.me().host;
    if elsewhere {
        Life::Unknown
    } else {
        machine.life(process)
    }
}

/// The process in `leadProcess`: `pid`, `procStart`, `pidSpace` as `host#pid:[…]`.
pub(super) fn lead_process(value: &Value) -> Option<ProcessId> {
    let space = value
        .get("pidSpace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let (host, pid_ns) = space.split_once('#').unwrap_or(("", ""));
    Some(ProcessId {
        pid: number(value.get("pid"))?.try_into().ok()?,
        process_start_time: number(value.get("procStart")).unwrap_or(0),
        boot_id: String::new(),
        pid_ns: pid_ns.to_owned(),
        host: host.to_owned(),
    })
    .filter(|process| process.pid != 0)
}

/// A number, also one that was written as text.
pub(super) fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Every process whose command line says which team it belongs to. Where there is no `/proc` nobody is found, and
/// nobody is called gone for it.
pub(super) fn of_teams() -> Vec<(u32, PaneArguments)> {
    let Ok(Some(all)) = Dir::open_root(Path::new("/proc")) else {
        return Vec::new();
    };
    let entries = all.entries().unwrap_or_default();
    let pids = entries
        .iter()
        .filter_map(|entry| entry.name.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, PaneArguments::of_process(pid)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_recorded_lead_is_read_in_every_shape() {
        let machine = Machine::read();
        let me = machine.me();
        let record = |space: &str, start: Value| json!({"pid": me.pid, "pidSpace": space, "claimedAt": 1, "procStart": start});
        let here = format!("{}#{}", me.host, me.pid_ns);
        let text = json!(me.process_start_time.to_string());
        let other = json!((me.process_start_time + 1).to_string());
        for (value, expected) in [
            (record(&here, text.clone()), Life::Alive),
            (record(&here, json!(me.process_start_time)), Life::Alive),
            (record("", text.clone()), Life::Alive),
            (record(&here, json!([])), Life::Alive),
            (record(&here, other), Life::Gone),
            (
                record("another#pid:[4026531836]", text.clone()),
                Life::Unknown,
            ),
            (record(&format!("{}#pid:[1]", me.host), text), Life::Unknown),
        ] {
            let process = lead_process(&value).unwrap();
            assert_eq!(life(&machine, &process), expected, "{value}");
        }
        for none in [json!({}), json!({"pid": 0}), json!({"pid": "x"}), json!(7)] {
            assert_eq!(lead_process(&none), None, "{none}");
        }
    }
}

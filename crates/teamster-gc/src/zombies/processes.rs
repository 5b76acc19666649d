//! Which processes are meant, and whether they live.

use std::path::Path;

use serde_json::Value;
use teamster_claude::native::PaneArguments;
use teamster_fs::Dir;

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

//! The lines in `zombie-alerts.jsonl` about workers that did not end in order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use teamster_fs::{Dir, Durability, FsError, Lock, LockWait, OrTrace as _, layout};
use teamster_types::end::EndRecord;
use teamster_types::{TeamName, Time, WorkerName};

/// How long to wait for the file's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How many bytes at the end of the file are searched for a line about the same launch.
const SEARCHED_BYTES: u64 = 256 * 1024;

/// Records the ends of workers below a Claude folder.
#[derive(Clone, Debug)]
pub struct EndAlerts {
    claude: PathBuf,
}

impl EndAlerts {
    /// Creates the recorder for a Claude folder.
    pub fn below(claude: &Path) -> Self {
        Self {
            claude: claude.to_owned(),
        }
    }

    /// Records that a launch of a worker ended by a signal or a crash. Every process that detects the end calls this, possibly
    /// at the same time; only one line per launch is written. If writing fails, the journal still has the event.
    pub(crate) fn record(&self, team: &TeamName, worker: &WorkerName, launch: &str, now: Time) {
        self.try_to_record(team, worker, launch, now)
            .or_trace("record the end of a worker");
    }

    fn try_to_record(
        &self,
        team: &TeamName,
        worker: &WorkerName,
        launch: &str,
        now: Time,
    ) -> Result<(), FsError> {
        let claude = Dir::open_or_create_root(&self.claude)?;
        let line = EndRecord::vanished(team.as_str(), worker.as_str()).to_line(launch, now);
        // If the lock cannot be taken in time, a duplicate line is better than none.
        let lock = Lock::wait(&claude, layout::ZOMBIE_ALERTS, LOCK_TIMEOUT, false)?;
        if matches!(lock, LockWait::Held(_)) && is_recorded(&claude, launch)? {
            return Ok(());
        }
        claude.append(layout::ZOMBIE_ALERTS, &line, Durability::Fast)?;
        Ok(())
    }
}

fn is_recorded(claude: &Dir, launch: &str) -> Result<bool, FsError> {
    let size = claude
        .stamp(layout::ZOMBIE_ALERTS)?
        .map_or(0, |stamp| stamp.size);
    let from = size.saturating_sub(SEARCHED_BYTES);
    let Some((bytes, _)) = claude.read_from(layout::ZOMBIE_ALERTS, from)? else {
        return Ok(false);
    };
    let is_it = |line: &[u8]| {
        let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
        value.is_some_and(|value| value["session_id"] == launch)
    };
    Ok(bytes.split(|byte| *byte == b'\n').any(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launch_has_one_line_however_many_find_its_end_at_once() {
        let folder = teamster_testkit::scratch::Scratch::new("alerts");
        let alerts = EndAlerts::below(folder.path());
        let (team, worker) = ("alpha".parse().unwrap(), "w1".parse().unwrap());
        let launches = ["one", "two", "three"];
        std::thread::scope(|scope| {
            for launch in launches.iter().cycle().take(12) {
                let (alerts, team, worker) = (&alerts, &team, &worker);
                scope.spawn(move || {
                    alerts.record(team, worker, launch, Time::from_millis(7));
                });
            }
        });
        let claude = Dir::open_root(folder.path()).unwrap().unwrap();
        let (bytes, _) = claude.read(layout::ZOMBIE_ALERTS).unwrap().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let mut lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        lines.sort_by_key(|line| line["session_id"].to_string());
        let sessions: Vec<&str> = lines
            .iter()
            .map(|line| line["session_id"].as_str().unwrap())
            .collect();
        assert_eq!(sessions, ["one", "three", "two"]);
        let expected = serde_json::json!({"ts": 7, "team": "alpha", "teammate": "w1", "exit_code": -1,
            "type": "crash", "session_id": "one"});
        assert_eq!(lines[0], expected);
    }
}

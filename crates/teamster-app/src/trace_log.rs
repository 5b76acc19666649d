//! The trace of a host, a bridge or Studio: one file for each, for debugging, with every call of git, every step, and
//! every error that was not fatal.
//!
//! `TEAMSTER_LOG` selects what is written, by module and level: `debug`, `teamster_run=debug,info`, `off`. Secrets are
//! redacted, and the size of the file is limited. Other commands, including hooks, write no trace.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

use teamster_fs::layout::{self, Layout};
use teamster_fs::{Dir, FsError, LogFile};
use teamster_store::{Clock as _, SystemClock};
use teamster_types::redact::redact;
use teamster_types::{TeamName, WorkerName};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::env_vars;

/// The size in bytes at which a trace is rotated.
const LIMIT: u64 = 8 * 1024 * 1024;

/// Starts the trace of a host, or of the bridge of a worker.
///
/// A trace that cannot be written is not an error: the run matters more.
pub(crate) fn begin(project: &Path, team: &TeamName, worker: Option<&WorkerName>) {
    begin_in(|| open(project, team, worker));
}

/// Starts the trace of Studio, under the same rules.
pub fn begin_studio(layout: &Layout) {
    begin_in(|| {
        let dir = Dir::open_or_create_root(layout.user_folder())?;
        let (name, old) = (layout::STUDIO_LOG, layout::OLD_STUDIO_LOG);
        Ok(LogFile::new(dir, name, old, LIMIT))
    });
}

fn begin_in(open: impl FnOnce() -> Result<LogFile, FsError>) {
    let Some(targets) = trace_filter() else {
        return;
    };
    let Ok(log) = open() else {
        return;
    };
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_timer(TraceTime)
        .with_writer(TraceFile(Arc::new(log)));
    // A process hosts one run, is one worker or serves one page, so a second subscriber would be the same.
    let _ = tracing_subscriber::registry()
        .with(targets)
        .with(layer)
        .try_init();
}

/// Returns the path of the trace of a team's host in its project; `None` when there is none.
pub fn of_host(project: &Path, team: &TeamName) -> Option<String> {
    trace_filter()?;
    let folders = layout::host_log_folders(team).join("/");
    let path = format!("{}/{folders}/{}", layout::OMC, layout::HOST_LOG);
    project.join(&path).exists().then_some(path)
}

/// Returns a description of the traces and their locations.
pub fn described(layout: &Layout) -> String {
    let Some(targets) = trace_filter() else {
        return format!("off, by {}", env_vars::LOG);
    };
    format!(
        "{targets}, in {omc}/logs/TEAM/{}, {omc}/logs/TEAM/WORKER/{} and {}; {} changes it",
        layout::HOST_LOG,
        layout::BRIDGE_TRACE,
        layout.user_folder().join(layout::STUDIO_LOG).display(),
        env_vars::LOG,
        omc = layout::OMC
    )
}

/// Returns the filter for the trace; `None` when nothing is written.
fn trace_filter() -> Option<Targets> {
    let filter = env_vars::get(env_vars::LOG);
    let targets = targets(filter.as_deref().and_then(OsStr::to_str));
    (targets != Targets::new().with_default(LevelFilter::OFF)).then_some(targets)
}

/// Parses a filter. An invalid one falls back to the default, because a typo must not hide what happens.
fn targets(filter: Option<&str>) -> Targets {
    // A bare name would turn everything else off; an absolute path is the log file of hooks.
    let is_directive = |part: &str| match part.split_once('=') {
        Some((module, level)) => !module.contains('/') && level.parse::<LevelFilter>().is_ok(),
        None => !part.is_empty() && part.parse::<LevelFilter>().is_ok(),
    };
    filter
        .filter(|filter| filter.split(',').all(|part| is_directive(part.trim())))
        .and_then(|filter| filter.parse().ok())
        .unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO))
}

fn open(project: &Path, team: &TeamName, worker: Option<&WorkerName>) -> Result<LogFile, FsError> {
    let mut dir = Dir::open_or_create_root(project)?.child_or_create(layout::OMC)?;
    let (folders, name, old) = match worker {
        None => (
            layout::host_log_folders(team).to_vec(),
            layout::HOST_LOG,
            layout::OLD_HOST_LOG,
        ),
        Some(worker) => (
            layout::log_folders(team, worker).to_vec(),
            layout::BRIDGE_TRACE,
            layout::OLD_BRIDGE_TRACE,
        ),
    };
    for folder in folders {
        dir = dir.child_or_create(folder)?;
    }
    Ok(LogFile::new(dir, name, old, LIMIT))
}

/// Formats the time of a line, as in the journal.
struct TraceTime;

impl FormatTime for TraceTime {
    fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
        write!(to, "{}", SystemClock.now())
    }
}

/// Writes each line redacted.
struct TraceFile(Arc<LogFile>);

impl<'a> MakeWriter<'a> for TraceFile {
    type Writer = TraceLine;

    fn make_writer(&'a self) -> Self::Writer {
        TraceLine(Arc::clone(&self.0))
    }
}

/// One line of the trace; the subscriber writes each line with one call.
struct TraceLine(Arc<LogFile>);

impl io::Write for TraceLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        // A full disk is reported by the run itself.
        let _ = self.0.append(redact(&text).as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_is_read_by_module_and_level_and_a_wrong_one_is_the_usual() {
        let usual = Targets::new().with_default(LevelFilter::INFO);
        assert_eq!(targets(None), usual);
        assert_eq!(targets(Some("")), usual);
        assert_eq!(targets(Some("/tmp/hooks.log")), usual);
        assert_eq!(targets(Some("hooks.log")), usual);
        assert_eq!(targets(Some("teamster_run=loud")), usual);
        let debug = usual.with_target("teamster_run", LevelFilter::DEBUG);
        assert_eq!(targets(Some("teamster_run=debug,info")), debug);
        let off = Targets::new().with_default(LevelFilter::OFF);
        assert_eq!(targets(Some("off")), off);
    }
}

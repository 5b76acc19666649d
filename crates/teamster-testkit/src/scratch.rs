//! A folder for one test, stores in it, and a clock for them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use teamster_fs::Durability;
use teamster_fs::layout::Layout;
use teamster_fs::proc::Machine;
use teamster_store::{Clock, FileStore, FileStoreSettings, SystemClock};
use teamster_types::Time;
use teamster_types::process::ProcessId;

/// The in-memory file system on Linux; other systems use the usual folder for temporary files.
const MEMORY: &str = "/dev/shm";

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a new, empty folder.
    pub fn new(name: &str) -> Self {
        let memory = Path::new(MEMORY);
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let path = parent.join(format!("teamster-{name}-{}", teamster_fs::random_hex()));
        for folder in [&path, &path.join("project")] {
            std::fs::create_dir(folder)
                .unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
        }
        Self { path }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the project that a team in it works on.
    pub fn project(&self) -> PathBuf {
        self.path.join("project")
    }

    /// Returns the roots of a store in it.
    pub fn layout(&self) -> Layout {
        Layout {
            claude: self.path.join("claude"),
            project: self.project(),
            user_config: self.path.join("config.toml"),
            project_config: self.project().join(".teamster/config.toml"),
            database: None,
        }
    }

    /// Opens a store in it. Its writes survive the death of a process, which is all that these tests need.
    pub fn store(&self, clock: Arc<dyn Clock>, patience: Duration) -> FileStore {
        let settings = FileStoreSettings {
            sync: Durability::Fast,
            patience,
            ..FileStoreSettings::default()
        };
        FileStore::open(&self.layout(), clock, settings)
            .unwrap_or_else(|error| panic!("cannot open a store: {error}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A clock that stands still until it is advanced.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Returns a clock that shows `now`.
    pub fn new(now: Time) -> Self {
        Self(AtomicI64::new(now.as_millis()))
    }

    /// Moves the clock by `millis`, backwards when negative.
    pub fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Returns a clock that is stopped at the current time.
pub fn stopped_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(SystemClock.now()))
}

/// Returns a process id of this machine that is gone: no process has this pid with this start time.
pub fn gone() -> ProcessId {
    let machine = Machine::read();
    let me = machine.me();
    ProcessId {
        process_start_time: me.process_start_time.saturating_sub(1).max(1),
        ..me.clone()
    }
}

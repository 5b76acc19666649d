//! A call that runs until it is stopped.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// The time limit for every wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running call and the lines it prints. It is killed on drop.
pub struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    pub(super) fn new(mut child: Child) -> Self {
        let output = BufReader::new(child.stdout.take().unwrap());
        let (say, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for the next line.
    #[track_caller]
    pub fn line(&mut self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|error| panic!("no further line: {error}"))
    }

    /// Waits for the next line, and parses it as JSON.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Returns whether the call still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends SIGINT, and returns how the call ended.
    pub fn interrupt(&mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status();
        assert!(sent.unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Studio: the page's API, its authentication, its stream, and the terminal view, with the real binary.

mod acting;
mod attacked;
mod corrections;
mod demo;
mod diffs;
mod door;
mod facts;
mod gate;
mod hostile;
mod http;
mod logs;
mod otlp;
mod past;
mod questions;
mod sessions;
mod stream;
pub mod terminal;
mod trace;

use std::process::Child;
use std::time::Duration;

use serde_json::Value;

use crate::kit::TestProject;
use http::{HttpResponse, Request};

/// The timeout of every wait: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub use teamster_testkit::wait::wait_for;

/// A server that runs until it is dropped.
pub struct Studio {
    child: Child,
    pub port: u16,
    pub token: String,
    pub bearer: String,
    pub printed: std::path::PathBuf,
}

impl Studio {
    pub fn start(project: &TestProject) -> Self {
        Self::start_on(project, 0, &[])
    }

    pub fn start_on(project: &TestProject, port: u16, more: &[&str]) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let printed = project.home().join(format!("studio-{number}.out"));
        let file = std::fs::File::create(&printed).unwrap();
        let port = port.to_string();
        let words = ["studio", "--json", "--port", port.as_str()];
        let call = project.call(words.iter().chain(more));
        Self::of(call.spawn_into(file), printed)
    }

    /// Wraps a server that prints its first line into this file.
    fn of(child: Child, printed: std::path::PathBuf) -> Self {
        let said = wait_for("the first line", || {
            let text = std::fs::read_to_string(&printed).unwrap();
            let line = text.split_once('\n')?.0.to_owned();
            Some(line)
        });
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        let url = said["url"].as_str().unwrap();
        Self {
            child,
            port: said["port"].as_u64().unwrap().try_into().unwrap(),
            token: url.split_once("token=").unwrap().1.to_owned(),
            bearer: said["bearer"].as_str().unwrap().to_owned(),
            printed,
        }
    }

    pub fn request(&self, method: &str, path: &str) -> Request {
        Request::new(self.port, method, path)
    }

    /// Sends a request like a program that has the key.
    pub fn get(&self, path: &str) -> HttpResponse {
        self.request("GET", path).bearer(&self.bearer).send()
    }

    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    pub fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.request("POST", path)
            .bearer(&self.bearer)
            .body(&body.to_string())
            .send()
    }

    /// Returns how many threads of this name the server has.
    pub fn threads(&self, name: &str) -> usize {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(tasks).unwrap().flatten();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
            .filter(|comm| comm.trim_end() == name)
            .count()
    }

    /// Kills the server with SIGKILL, and returns its port.
    pub fn kill(mut self) -> u16 {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.port
    }
}

impl Drop for Studio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

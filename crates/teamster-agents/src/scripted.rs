//! `scripted:…`: an agent without a model, which plays a script.
//!
//! It is a process like any other agent: our own binary with the hidden command `play`, which gets the script on its
//! standard input. What it prints are JSON lines, and they are read as strictly as any client's.

mod play;
mod read;
mod script;
mod section;
mod step_list;

use std::path::{Path, PathBuf};

pub use play::{ScriptContext, ScriptEnd, ScriptHost, play};
pub use script::{Script, ScriptError};

use crate::driver::{
    AgentInput, CannotLaunch, Driver, Interrupt, Job, Launch, OUTER_SESSION_VARS, SoftSignal,
    whose_work,
};
use crate::reader::OutputReader;

/// An agent that plays a script.
#[derive(Clone, Debug)]
pub struct ScriptedDriver {
    file: PathBuf,
    text: Result<String, ScriptError>,
}

impl ScriptedDriver {
    /// Reads the script of this file, once: what was read is what is played, whatever becomes of the file.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            text: Script::text(file),
        }
    }
}

impl Driver for ScriptedDriver {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
        // A script with a mistake is found here, where its line can be told.
        let unfit = |error: &ScriptError| CannotLaunch::Unfit(error.to_string());
        let text = self.text.as_ref().map_err(unfit)?;
        Script::parse(&self.file, text).map_err(|error| unfit(&error))?;
        Ok(Launch {
            program: job.teamster.to_owned(),
            args: vec!["play".into(), "-".into()],
            set: whose_work(job),
            unset: OUTER_SESSION_VARS.to_vec(),
            secrets: Vec::new(),
            input: AgentInput::Text(text.as_bytes().to_vec()),
        })
    }

    fn script(&self) -> Option<&[u8]> {
        self.text.as_ref().ok().map(String::as_bytes)
    }

    fn reader(&self, _job: &Job<'_>) -> Box<dyn OutputReader> {
        Box::<read::ScriptedReader>::default()
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Signal(SoftSignal::Terminate)
    }
}

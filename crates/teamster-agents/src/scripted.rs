//! `scripted:…`: an agent without a model, which plays a script.
//!
//! It is a process like any other agent: our own binary with the hidden command `play`. What it prints are JSON
//! lines, and they are read as strictly as any client's.

mod play;
mod read;
mod script;
mod section;
mod step_list;

use std::path::{Path, PathBuf};

pub use play::{Played, Scene, World, play};
pub use script::{Script, ScriptError};

use crate::driver::{
    CannotLaunch, Driver, Input, Interrupt, Job, Launch, OF_A_SESSION_AROUND_US, Polite, whose_work,
};
use crate::reader::Reader;

/// An agent that plays a script.
#[derive(Clone, Debug)]
pub struct Scripted {
    file: PathBuf,
}

impl Scripted {
    /// The script's file, by its absolute path: the agent works in another folder.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
        }
    }
}

impl Driver for Scripted {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
        // A script with a mistake is found here, where its line can be told.
        Script::read(&self.file).map_err(|error| CannotLaunch::Unfit(error.to_string()))?;
        Ok(Launch {
            program: job.teamster.to_owned(),
            args: vec!["play".into(), self.file.clone().into()],
            set: whose_work(job),
            unset: OF_A_SESSION_AROUND_US.to_vec(),
            secrets: Vec::new(),
            input: Input::Nothing,
        })
    }

    fn reader(&self, _job: &Job<'_>) -> Box<dyn Reader> {
        Box::<read::ScriptedReader>::default()
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Signal(Polite::Terminate)
    }
}

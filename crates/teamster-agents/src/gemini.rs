//! Gemini: `stream-json`, the prompt on its standard input.

mod read;

use std::ffi::OsString;

use crate::detect;
use crate::driver::{
    AgentInput, CannotLaunch, Driver, Interrupt, Job, Launch, OUTER_SESSION_VARS, SoftSignal,
    as_words, whose_work,
};
use crate::permission::Rule;
use crate::reader::OutputReader;

/// Gemini CLI.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeminiDriver;

const SECRETS: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];

impl Driver for GeminiDriver {
    fn provider(&self) -> &'static str {
        "gemini"
    }

    fn launch(&self, job: &Job<'_>) -> Result<Launch, CannotLaunch> {
        let program = detect::program("gemini", job.path)?;
        // It asks nobody when it runs by itself. Without `yolo` it does not offer commands to the model at all.
        let approval = match job.permissions.shell {
            Rule::Allow => "yolo",
            Rule::Deny | Rule::Ask => "auto_edit",
        };
        let mut args: Vec<OsString> = [
            "-o",
            "stream-json",
            "--skip-trust",
            "--approval-mode",
            approval,
        ]
        .map(Into::into)
        .to_vec();
        if let Some(model) = job.model {
            args.extend(["-m".into(), model.into()]);
        }
        if let Some(resume) = &job.resume {
            args.extend(["--resume".into(), resume.session.into()]);
        }
        let mut set = whose_work(job);
        // Else it starts itself a second time, and a signal would reach the first only.
        set.push(("GEMINI_CLI_NO_RELAUNCH".into(), "true".into()));
        Ok(Launch {
            program,
            args,
            set,
            unset: OUTER_SESSION_VARS.to_vec(),
            secrets: SECRETS.map(str::to_owned).to_vec(),
            input: AgentInput::Text(as_words(job.prompt).into_owned().into_bytes()),
        })
    }

    fn reader(&self, job: &Job<'_>) -> Box<dyn OutputReader> {
        Box::new(read::GeminiReader::new(job))
    }

    fn says_whole_texts(&self) -> bool {
        false
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt::Signal(SoftSignal::Terminate)
    }
}

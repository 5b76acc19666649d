//! The context of a command: the application, and where output goes.

use std::io::IsTerminal as _;
use std::ops::Deref;

use teamster_app::{App, env_vars};

use crate::error::Result;
use crate::input::confirm;
use crate::output::Output;

/// What a command works with: the use cases of the application, and the output.
pub struct Context {
    /// Where output goes.
    pub out: Output,
    app: App,
}

/// A command mostly passes its context on to use cases.
impl Deref for Context {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl Context {
    /// Finds the project, store and settings from the environment and the current folder.
    pub fn find(out: Output) -> Result<Self> {
        let mut app = App::find()?;
        let can_ask =
            !out.is_json() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        app.confirm = can_ask.then_some(confirm);
        Ok(Self { out, app })
    }

    /// Returns whether one team is selected, by an argument or by `TEAMSTER_TEAM`, instead of all teams of the
    /// project.
    pub fn names_team(&self, named: Option<&str>) -> bool {
        named.is_some() || env_vars::get(env_vars::TEAM).is_some()
    }

    /// Like [`Context::find`], for a command that needs valid settings.
    pub fn find_checked(out: Output) -> Result<Self> {
        let context = Self::find(out)?;
        context.config.check()?;
        for problem in &context.config.problems {
            out.remark(&format!("warning: {problem}"));
        }
        Ok(context)
    }

    /// Like [`Context::find`], for a command that stops something: invalid settings must not prevent that, so
    /// defaults replace them.
    pub fn find_to_stop(out: Output) -> Result<Self> {
        let context = Self::find(out)?;
        let mut problems = context.config.problems.iter();
        if let Some(problem) = problems.find(|problem| problem.fatal) {
            out.remark(&format!(
                "warning: {problem}; using defaults for invalid settings"
            ));
        }
        Ok(context)
    }
}

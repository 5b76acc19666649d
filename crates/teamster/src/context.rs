//! What a command works with: the application, and where its answers go.

use std::io::IsTerminal as _;
use std::ops::Deref;

use teamster_app::{App, env_vars};

use crate::error::Result;
use crate::input::says_yes;
use crate::output::Output;

/// What a command works with: the use cases it calls, and where their answers go.
pub struct Context {
    /// Where answers go.
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
    /// Finds everything from the environment and the current folder.
    pub fn find(out: Output) -> Result<Self> {
        let mut app = App::find()?;
        let can_ask =
            !out.is_json() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        app.confirm = can_ask.then_some(says_yes);
        Ok(Self { out, app })
    }

    /// Returns whether one team is meant, by an argument or by `TEAMSTER_TEAM`, instead of those of the project.
    pub fn names_team(&self, named: Option<&str>) -> bool {
        named.is_some() || env_vars::get(env_vars::TEAM).is_some()
    }

    /// Finds the same for a command that needs settings it can rely on.
    pub fn find_checked(out: Output) -> Result<Self> {
        let context = Self::find(out)?;
        context.config.check()?;
        for problem in &context.config.problems {
            out.remark(&format!("warning: {problem}"));
        }
        Ok(context)
    }

    /// Finds the same for a command that stops something: nothing that is wrong with the settings may keep it from that,
    /// so defaults take the place of what cannot be used.
    pub fn find_to_stop(out: Output) -> Result<Self> {
        let context = Self::find(out)?;
        let mut problems = context.config.problems.iter();
        if let Some(problem) = problems.find(|problem| problem.fatal) {
            out.remark(&format!(
                "warning: {problem}; defaults are used for settings that cannot be used"
            ));
        }
        Ok(context)
    }
}

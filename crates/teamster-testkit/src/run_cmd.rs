//! The arguments of a complete `teamster run …` call.

/// Builds the arguments of one `teamster run …` call, in the order in which they are given.
#[derive(Clone, Debug)]
pub struct RunCmd {
    args: Vec<String>,
}

impl RunCmd {
    /// Starts the arguments for this team, with its agents (`2:w`) and the task.
    pub fn new(team: &str, agents: &str, request: &str) -> Self {
        let args = ["run", agents, request, "--team", team];
        Self {
            args: args.map(str::to_owned).to_vec(),
        }
    }

    /// Defines a provider (`NAME=KIND:…`).
    #[must_use]
    pub fn provider(self, provider: &str) -> Self {
        self.more(&["--provider", provider])
    }

    /// Sets the provider that makes the plan.
    #[must_use]
    pub fn leader(self, name: &str) -> Self {
        self.more(&["--leader", name])
    }

    /// Sets the plan file.
    #[must_use]
    pub fn plan(self, file: &str) -> Self {
        self.more(&["--plan", file])
    }

    /// Adds a check.
    #[must_use]
    pub fn verify(self, command: &str) -> Self {
        self.more(&["--verify", command])
    }

    /// Sets the approval mode (`auto`, `never`).
    #[must_use]
    pub fn approve(self, mode: &str) -> Self {
        self.more(&["--approve", mode])
    }

    /// Adds any other arguments.
    #[must_use]
    pub fn more(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Returns the arguments.
    pub fn iter(&self) -> std::slice::Iter<'_, String> {
        self.args.iter()
    }
}

impl<'a> IntoIterator for &'a RunCmd {
    type Item = &'a String;
    type IntoIter = std::slice::Iter<'a, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for RunCmd {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.args.into_iter()
    }
}

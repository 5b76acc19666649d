//! The arguments of a whole `teamster run …` call.

/// Builds the arguments of one `teamster run …` call, in the order in which they are given.
#[derive(Clone, Debug)]
pub struct RunCmd {
    args: Vec<String>,
}

impl RunCmd {
    /// Begins a run of this team: who works (`2:w`), and on what.
    pub fn new(team: &str, agents: &str, request: &str) -> Self {
        let args = ["run", agents, request, "--team", team];
        Self {
            args: args.map(str::to_owned).to_vec(),
        }
    }

    /// Names a provider (`NAME=KIND:…`).
    #[must_use]
    pub fn provider(self, provider: &str) -> Self {
        self.more(&["--provider", provider])
    }

    /// Lets this provider make the plan.
    #[must_use]
    pub fn leader(self, name: &str) -> Self {
        self.more(&["--leader", name])
    }

    /// Takes the plan from this file.
    #[must_use]
    pub fn plan(self, file: &str) -> Self {
        self.more(&["--plan", file])
    }

    /// Adds a check.
    #[must_use]
    pub fn verify(self, command: &str) -> Self {
        self.more(&["--verify", command])
    }

    /// Says who opens the gate (`auto`, `never`).
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

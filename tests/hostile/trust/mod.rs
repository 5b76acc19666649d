//! Nothing that comes with a repository runs before a person accepted it.

mod canary;
mod checks;
mod links;
mod scripts;
mod settings;
mod setup;

use crate::run::shop::Shop;

/// A program that the repository wants to run; it counts its calls.
struct Canary<'a> {
    shop: &'a Shop,
}

impl<'a> Canary<'a> {
    fn new(shop: &'a Shop) -> Self {
        Self { shop }
    }

    /// The shell command that counts one call.
    fn command(&self) -> String {
        format!("echo ran >> {}/canary", self.shop.aside().display())
    }

    /// How often it was called.
    fn calls(&self) -> usize {
        let file = self.shop.aside().join("canary");
        std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
    }

    /// Writes project settings whose `worktree.setup` calls it.
    fn plant_setup(&self) {
        let settings = format!("[worktree]\nsetup = [{:?}]\n", self.command());
        self.shop.project.write(".teamster/config.toml", &settings);
    }
}

/// A script whose only task runs a shell command.
fn runs(command: &str) -> String {
    format!("[[step]]\ntask = \"mend it\"\ndo = \"run\"\ncommand = {command:?}\n")
}

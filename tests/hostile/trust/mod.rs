//! Nothing from a repository runs before a person has accepted it.

mod canary;
mod checks;
mod links;
mod settings;
mod setup;

use crate::run::Shop;

/// A program that the repository wants to run; it counts its calls.
struct Canary<'a> {
    shop: &'a Shop,
}

impl<'a> Canary<'a> {
    fn new(shop: &'a Shop) -> Self {
        Self { shop }
    }

    /// Returns the shell command that counts one call.
    fn command(&self) -> String {
        format!("echo ran >> {}/canary", self.shop.aside().display())
    }

    /// Returns the number of calls.
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

/// Returns a script whose only task runs a shell command.
fn runs(command: &str) -> String {
    format!("[[step]]\ntask = \"mend it\"\ndo = \"run\"\ncommand = {command:?}\n")
}

const PLAN: &str = "[[tasks]]\nid = \"a\"\nsubject = \"a\"\n\
    [[tasks]]\nid = \"b\"\nsubject = \"b\"\nblockedBy = [\"a\"]\n";

fn step(task: &str, command: &str) -> String {
    format!("[[step]]\ntask = {task:?}\ndo = \"run\"\ncommand = {command:?}\n")
}

#[test]
fn script_that_changes_in_mid_run_is_not_played() {
    let shop = Shop::new();
    let canary = Canary::new(&shop);
    let evil = shop.aside().join("evil.toml");
    std::fs::write(&evil, step("b", &canary.command())).unwrap();
    let replace = format!(
        "cp {} {}/play.toml; echo a > a.txt",
        evil.display(),
        shop.folder().display()
    );
    let script = step("a", &replace) + &step("b", "echo b > b.txt");
    shop.project.write("play.toml", &script);
    shop.project.write(
        ".teamster/config.toml",
        "[providers.theirs]\nkind = \"scripted\"\nfile = \"play.toml\"\n",
    );
    let plan = shop.plan(PLAN);
    let words = ["run", "1:theirs", "mend it", "--team", "shop", "--plan"];
    let more = [plan.as_str(), "--trust-project", "--verify", "true"];
    let words = words.iter().chain(&more).chain(&["--approve", "auto"]);
    shop.call(words).run().exits(0);
    assert_eq!(canary.calls(), 0, "the changed script was played");
    assert_eq!(shop.git(&["show", "main:b.txt"]), "b");
    // The next worker would read it, and does not start before it is accepted.
    let start = ["worker", "start", "--team", "shop", "--name", "worker-1"];
    let refused = shop.call(start.iter().chain(&["--provider", "theirs"]));
    let refused = refused.run().exits(6);
    assert!(refused.stderr.contains("has changed"), "{}", refused.stderr);
}

//! Runs: the decisions before a run and the run itself, with real processes, mostly in a [`Shop`].

mod briefings;
mod budgets;
mod cancel;
mod checks;
mod client_questions;
mod distribution;
mod flows;
mod gate;
mod kills;
mod landed;
mod leader;
mod overreach;
mod permissions;
mod places;
mod planning;
mod plans;
mod presets;
mod questions;
mod review;
mod state_file;
mod stops;
mod tasks;
mod trace;
mod verify;
mod wake;
mod whole;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use teamster_testkit::RunCmd;
use teamster_testkit::wait::{LONG, poll};

use crate::kit::{Call, Ran, TestProject};
use crate::workers::carriers;
use landed::compare_with_gate;

/// The variable that all processes of a test inherit. Checks get no variable with teamster's own prefix.
pub const MARK: &str = "SHOP_TEST_MARK";

/// The folders of teamster in a project; everything else belongs to the user.
const OURS: [&str; 5] = [".git", ".omc", ".party", ".bkit", ".teamster"];

/// The plan of the shop's team.
pub const PLAN: &str = r#"
[[tasks]]
id = "add"
subject = "Mend adding"
owner = "worker-1"

[[tasks]]
id = "mul"
subject = "Mend multiplying"
owner = "worker-2"

[[tasks]]
id = "total"
subject = "Mend the total"
blockedBy = ["add", "mul"]
"#;

/// The script of its workers. Both tasks that change `news.txt` begin before either is merged, and the second ends
/// after the first was merged.
const SCRIPT: &str = r#"
[[step]]
task = "add"
do = "run"
command = "touch ROOT/at-add; until test -e ROOT/at-mul; do sleep 0.02; done"
[[step]]
task = "add"
do = "edit"
path = "add.sh"
find = "$1 - $2"
replace = "$1 + $2"
[[step]]
task = "add"
do = "edit"
path = "news.txt"
content = "adding is mended\n"

[[step]]
task = "mul"
do = "run"
command = "touch ROOT/at-mul; until test $(git rev-parse omc-team/shop/integration) != $(git rev-parse BASE); do sleep 0.02; done"
[[step]]
task = "mul"
do = "edit"
path = "mul.sh"
find = "$1 + $2"
replace = "$1 * $2"
[[step]]
task = "mul"
do = "edit"
path = "news.txt"
content = "multiplying is mended\n"

[[step]]
task = "Resolve the conflict of task"
do = "edit"
path = "mul.sh"
find = "$1 + $2"
replace = "$1 * $2"
[[step]]
task = "Resolve the conflict of task"
do = "edit"
path = "news.txt"
content = "adding and multiplying are mended\n"

[[step]]
task = "total"
do = "run"
command = "grep -q '1 + ' add.sh && grep -q '1 \\* ' mul.sh && grep -q mended news.txt"
[[step]]
task = "total"
do = "edit"
path = "total.sh"
find = "mul.sh 1"
replace = "mul.sh 2"
[[step]]
task = "total"
do = "edit"
path = "stock.txt"
content = "pears\n"

[[step]]
task = "Fix what"
do = "run"
command = "sort -u stock.txt *.part > .sorted && mv .sorted stock.txt"
"#;

/// A real repository with three modules, a bug in each, and a test suite, and a team of scripted workers that fixes
/// them.
///
/// One task waits for others, two of them conflict, and a check that passed before fails. The user has uncommitted
/// files in it.
pub struct Shop {
    pub project: TestProject,
    mark: String,
    is_mounted: bool,
}

impl Shop {
    pub fn new() -> Self {
        Self::made(Self::bare())
    }

    /// Makes a shop with the `project` or the `home` on a separate disk, in a namespace where that is allowed.
    pub fn on_disk(place: &str) -> Self {
        let mut shop = Self::bare();
        shop.is_mounted = true;
        let disk = match place {
            "project" => shop.folder(),
            _ => shop.aside(),
        };
        let mount = ["-t", "tmpfs", "-o", "size=256m", "tmpfs"];
        let status = Command::new("mount").args(mount).arg(disk).status();
        assert!(status.unwrap().success(), "a disk cannot be mounted here");
        Self::made(shop)
    }

    fn made(shop: Self) -> Self {
        shop.git(&["init", "--quiet", "--initial-branch", "main"]);
        shop.git(&["config", "user.name", "Test"]);
        shop.git(&["config", "user.email", "test@localhost"]);
        let write = |path: &str, text: &str| shop.project.write(path, text);
        write("add.sh", "echo $(($1 - $2))\n");
        write("mul.sh", "echo $(($1 + $2))\n");
        write("total.sh", "sh add.sh $(sh mul.sh 1 3) 4\n");
        write("news.txt", "nothing new\n");
        write("apples.part", "apples\n");
        write("stock.txt", "apples\n");
        write("readme.txt", "A shop.\n");
        write(
            "test.sh",
            "test $(sh add.sh 2 2) = 4 && test $(sh mul.sh 3 3) = 9 && test $(sh total.sh) = 10\n",
        );
        // It fails once parts are missing from the stock, which `total` causes.
        write(
            "check.sh",
            "for part in *.part; do grep -qx ${part%.part} stock.txt || { echo no $part; exit 1; }; done\n",
        );
        shop.git(&["add", "--all"]);
        shop.git(&["commit", "--quiet", "--message", "Begin"]);
        shop
    }

    /// Makes a shop with uncommitted files: one changed, one staged, one unknown to git.
    pub fn in_use() -> Self {
        let shop = Self::new();
        shop.project.write("readme.txt", "A shop, half described");
        shop.project.write("staged.txt", "staged\n");
        shop.git(&["add", "staged.txt"]);
        shop.project.write("draft/idea.txt", "an idea\n");
        shop
    }

    /// Makes a project without git.
    pub fn bare() -> Self {
        let project = TestProject::new();
        std::fs::remove_dir_all(project.folder().join(".git")).unwrap();
        Self {
            project,
            mark: teamster_fs::random_hex(),
            is_mounted: false,
        }
    }

    pub fn folder(&self) -> PathBuf {
        self.project.folder()
    }

    /// Returns a folder for files that are not part of the project.
    pub fn aside(&self) -> PathBuf {
        self.project.home()
    }

    pub fn git(&self, args: &[&str]) -> String {
        let output = self.git_command(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    /// Returns git's output, or its error. Paths and texts that are not UTF-8 are converted lossily.
    pub fn try_git(&self, args: &[&str]) -> Result<String, String> {
        tried(self.git_command(args), args)
    }

    /// Like [`Shop::try_git`], without the user's settings.
    pub fn try_plain_git(&self, args: &[&str]) -> Result<String, String> {
        let mut command = self.git_command(args);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null");
        tried(command, args)
    }

    /// Returns whether a call of git succeeds.
    pub fn git_ok(&self, args: &[&str]) -> bool {
        self.git_command(args).output().unwrap().status.success()
    }

    fn git_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(args)
            .current_dir(self.folder())
            .env("HOME", self.project.home())
            .env("GIT_OPTIONAL_LOCKS", "0")
            .stdin(Stdio::null());
        command
    }

    /// Writes a script for workers beside the project; returns the provider that plays it.
    pub fn script(&self, text: &str) -> String {
        let aside = self.aside();
        let text = text.replace("ROOT", aside.to_str().unwrap());
        let file = aside.join("script.toml");
        std::fs::write(&file, text).unwrap();
        format!("w=scripted:{}", file.display())
    }

    /// Writes a plan beside the project; returns its path.
    pub fn plan(&self, text: &str) -> String {
        let file = self.aside().join("plan.toml");
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// Writes a plan of this many independent tasks; returns its path.
    pub fn parts(&self, count: u32) -> String {
        let mut text = String::new();
        for id in 1..=count {
            let _ = writeln!(text, "[[tasks]]\nid = \"t{id}\"\nsubject = \"Part {id}\"");
        }
        self.plan(&text)
    }

    /// Prepares the standard run of the shop, with more arguments.
    pub fn whole_run(&self, more: &[&str]) -> Call {
        let base = self.git(&["rev-parse", "HEAD"]);
        let script = self.script(&SCRIPT.replace("BASE", &base));
        let plan = self.plan(PLAN);
        let args = RunCmd::new("shop", "2:w", "mend the shop")
            .provider(&script)
            .plan(&plan)
            .verify("sh test.sh")
            .verify("sh check.sh");
        self.call(args.more(more))
    }

    /// Prepares a run of a one-line task with workers that play a script.
    pub fn scripted_run(&self, script: &str, more: &[&str]) -> Call {
        let script = self.script(script);
        let args = RunCmd::new("shop", "1:w", "mend it").provider(&script);
        self.call(args.more(more))
    }

    pub fn call<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Call {
        let call = self.project.call(args);
        call.env(MARK, &self.mark)
    }

    pub fn run<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Ran {
        self.call(args).run()
    }

    /// Returns all events so far.
    pub fn events(&self) -> Vec<Value> {
        let file = self.project.claude("teams/shop/events.jsonl");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // The last line may be incomplete at the moment.
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Returns all events of a type so far.
    pub fn events_of(&self, kind: &str) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["type"] == kind);
        events
    }

    /// Waits for a condition, and shows the journal if it never holds.
    #[track_caller]
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        if poll(LONG, || is_so().then_some(())).is_none() {
            let journal = self.run(&["journal", "--team", "shop"]).stdout;
            panic!("{what} did not come true:\n{journal}");
        }
    }

    /// Waits until the gate is open; returns its commit.
    #[track_caller]
    pub fn gate(&self) -> String {
        self.until("the gate", || self.stage() == "approval" && self.is_asked());
        self.asked()
    }

    fn is_asked(&self) -> bool {
        let events = self.events();
        let last = |kind: &str| events.iter().rposition(|event| event["type"] == kind);
        last("approval.requested") > last("run.stage")
    }

    /// Returns the commit of the last gate.
    pub fn asked(&self) -> String {
        let asked = self.events_of("approval.requested");
        asked.last().unwrap()["data"]["commit"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Returns the run's stage, by its journal.
    pub fn stage(&self) -> String {
        let events = self.events();
        let mut stages = events
            .iter()
            .filter(|event| event["type"] == "run.stage" || event["type"] == "run.finished");
        stages.next_back().map_or_else(String::new, |event| {
            event["data"]["to"].as_str().unwrap().to_owned()
        })
    }

    pub fn tasks(&self) -> Vec<Value> {
        let ran = self.run(&["task", "list", "--team", "shop", "--json"]);
        ran.json()["tasks"].as_array().unwrap().clone()
    }

    pub fn report(&self) -> String {
        std::fs::read_to_string(self.folder().join(".omc/reports/shop/report.md")).unwrap()
    }

    /// Returns the report, or an empty text.
    pub fn report_if_any(&self) -> String {
        let file = self.folder().join(".omc/reports/shop/report.md");
        std::fs::read_to_string(file).unwrap_or_default()
    }

    pub fn state_file(&self, path: &str) -> Value {
        let text = std::fs::read_to_string(self.folder().join(path)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the living processes of this test.
    pub fn alive(&self) -> Vec<u32> {
        carriers(MARK, &self.mark)
    }

    /// Asserts that no process of the team is left.
    #[track_caller]
    pub fn is_quiet(&self) {
        assert_eq!(self.alive(), [0_u32; 0], "somebody is left");
    }

    /// Returns everything that belongs to the user: files, index, branches, and git's status of them.
    pub fn of_user(&self) -> OfUser {
        let mut files = BTreeMap::new();
        collect(&self.folder(), &self.folder(), &mut files);
        let refs = self.git(&["for-each-ref", "refs/heads", "refs/tags", "refs/stash"]);
        OfUser {
            files,
            status: self.git(&["status", "--porcelain=v2"]),
            index: std::fs::read(self.folder().join(".git/index")).unwrap(),
            head: std::fs::read_to_string(self.folder().join(".git/HEAD")).unwrap(),
            refs: refs
                .lines()
                .filter(|line| !line.contains("omc-team/"))
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Asserts that the uncommitted files of [`Shop::in_use`] are unchanged.
    #[track_caller]
    pub fn has_drafts(&self) {
        let read = |path: &str| std::fs::read_to_string(self.folder().join(path)).unwrap();
        assert_eq!(read("readme.txt"), "A shop, half described");
        assert_eq!(read("staged.txt"), "staged\n");
        assert_eq!(read("draft/idea.txt"), "an idea\n");
        let status = self.git(&["status", "--porcelain"]);
        assert_eq!(
            status, " M readme.txt\nA  staged.txt\n?? draft/",
            "{status}"
        );
    }

    /// Returns the existing branches and worktrees of the team.
    pub fn left(&self) -> Vec<String> {
        let branches = self.git(&["for-each-ref", "--format=%(refname)", "refs/heads/omc-team"]);
        let trees = self.git(&["worktree", "list", "--porcelain"]);
        let trees = trees
            .lines()
            .filter(|line| line.starts_with("worktree "))
            .skip(1);
        branches.lines().chain(trees).map(str::to_owned).collect()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.run(&["shutdown", "--team", "shop", "--force", "--json"]);
        // A failed test leaves its host, and the processes that the host waited for.
        for pid in self.alive() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        // A failed test has already reported its reason.
        let landed = if std::thread::panicking() {
            Ok(())
        } else {
            compare_with_gate(self)
        };
        if self.is_mounted {
            for disk in [self.folder(), self.aside()] {
                let _ = Command::new("umount").arg("-l").arg(disk).output();
            }
        }
        landed.unwrap();
    }
}

fn tried(mut command: Command, args: &[&str]) -> Result<String, String> {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("git {args:?}: {}: {said}{why}", output.status))
}

/// Everything that belongs to the user.
#[derive(Debug, PartialEq)]
pub struct OfUser {
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    pub status: String,
    pub index: Vec<u8>,
    pub head: String,
    pub refs: Vec<String>,
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_owned();
        if OURS.iter().any(|ours| Path::new(ours) == name) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

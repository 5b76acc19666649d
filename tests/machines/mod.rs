//! One team on several machines: each has its own home and clone, and reaches the others only through a real
//! PostgreSQL server and git.

mod chaos;
mod full_disk;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;
use teamster_testkit::postgres::{PostgresServer, shared_server};
use teamster_testkit::wait::wait_until;

use crate::kit::{Call, Ran, TestProject, skip};

/// The team of every test.
const TEAM: &str = "letters";

/// A machine: a separate home that is configured for the database.
struct Machine {
    project: TestProject,
    url: String,
    /// More environment variables for all its processes.
    env: Vec<(&'static str, String)>,
}

impl Machine {
    fn new(url: &str) -> Self {
        Self {
            project: TestProject::new(),
            url: url.to_owned(),
            env: Vec::new(),
        }
    }

    /// Makes a machine with a repository, on which a run can begin.
    fn with_repository(url: &str) -> Self {
        let machine = Self::new(url);
        std::fs::remove_dir_all(machine.project.folder().join(".git")).unwrap();
        machine.git(&["init", "--quiet", "--initial-branch", "main"]);
        machine.git(&["config", "user.name", "Me"]);
        machine.git(&["config", "user.email", "me@localhost"]);
        machine.project.write("README.md", "Letters\n");
        machine.git(&["add", "."]);
        machine.git(&["commit", "--quiet", "-m", "Begin"]);
        machine
    }

    fn folder(&self) -> PathBuf {
        self.project.folder()
    }

    fn git(&self, args: &[&str]) -> String {
        git_in(&self.folder(), &self.project.home(), args)
    }

    fn call(&self, args: &[&str]) -> Call {
        let call = self.project.call(args).env("TEAMSTER_STORE", &self.url);
        self.env
            .iter()
            .fold(call, |call, (name, value)| call.env(name, value))
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.call(args).run()
    }

    /// Begins a run with one local worker and a plan of this many tasks.
    fn begin_run(&self, tasks: usize, agent: &str, more: &[&str]) -> Host<'_> {
        self.begin_large_run(1, tasks, agent, more)
    }

    /// Begins a run with this many local workers and tasks; every fourth task waits for the one three before it.
    fn begin_large_run(
        &self,
        workers: usize,
        tasks: usize,
        agent: &str,
        more: &[&str],
    ) -> Host<'_> {
        let plan = self.project.home().join("plan.toml");
        let task = |number: usize| {
            let waits = match number % 4 {
                3 => format!("blockedBy = [\"t{}\"]\n", number - 3),
                _ => String::new(),
            };
            format!("[[tasks]]\nid = \"t{number}\"\nsubject = \"Write f{number}\"\n{waits}\n")
        };
        let text: String = (0..tasks).map(task).collect();
        std::fs::write(&plan, text).unwrap();
        let output = self.project.home().join("run.txt");
        let crew = format!("{workers}:writer");
        let mut args = vec![
            "run",
            &crew,
            "write the letters",
            "--provider",
            agent,
            "--verify",
            "ls",
            "--team",
            TEAM,
            "--approve",
            "auto",
            "--yes",
            "--review",
            "off",
            "--plan",
        ];
        args.push(plan.to_str().unwrap());
        args.extend(more);
        let child = self
            .call(&args)
            .spawn_into(std::fs::File::create(&output).unwrap());
        let host = Host {
            machine: self,
            child,
            output,
        };
        wait_until("a worker of the run begins", || {
            host.said().contains("begins task")
        });
        host
    }

    /// Joins the team from this machine.
    fn join(&self, name: &str, agent: &str, more: &[&str]) -> Value {
        self.join_by("join", name, agent, more)
    }

    /// Joins the team by one of the commands for that.
    fn join_by(&self, command: &str, name: &str, agent: &str, more: &[&str]) -> Value {
        let args = [
            "worker",
            command,
            "--team",
            TEAM,
            "--name",
            name,
            "--provider",
            agent,
            "--json",
        ];
        let args: Vec<&str> = args.into_iter().chain(more.iter().copied()).collect();
        self.run(&args).succeeds().json()
    }

    fn events(&self) -> Vec<Value> {
        let journal = self.run(&["journal", "--team", TEAM, "--json"]).succeeds();
        journal.json()["events"].as_array().unwrap().clone()
    }

    /// Returns how many tasks a worker has completed.
    fn completed_by(&self, worker: &str) -> usize {
        let is_its = |event: &&Value| event["type"] == "task.completed" && event["actor"] == worker;
        self.events().iter().filter(is_its).count()
    }
}

/// The host of a run.
struct Host<'a> {
    machine: &'a Machine,
    child: Child,
    output: PathBuf,
}

impl Host<'_> {
    fn said(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap()
    }

    /// Waits for its end, and asserts that everything landed: each task once, with its file.
    fn lands(mut self, tasks: usize) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said());
        let files = self.machine.git(&["ls-tree", "--name-only", "main"]);
        let files: BTreeSet<&str> = files.lines().collect();
        let expected: Vec<String> = (0..tasks).map(|number| format!("f{number}.txt")).collect();
        let expected: BTreeSet<&str> = expected
            .iter()
            .map(String::as_str)
            .chain(["README.md"])
            .collect();
        assert_eq!(files, expected, "{}", self.said());
        let listed = ["task", "list", "--team", TEAM, "--json"];
        let listed = self.machine.run(&listed).succeeds().json();
        let listed = listed["tasks"].as_array().unwrap();
        assert_eq!(listed.len(), tasks);
        assert!(
            listed.iter().all(|task| task["status"] == "completed"),
            "{listed:?}"
        );
    }
}

fn git_in(folder: &Path, home: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(folder)
        .env("HOME", home)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

/// Returns an agent that writes a file after this delay.
fn writer(seconds: &str) -> String {
    format!(
        "writer=command:sleep {seconds}; echo \"the letter\" > \"${{TEAMSTER_TASK_SUBJECT#Write }}.txt\""
    )
}

/// Creates a database with a store in it, and returns its URL.
fn database(server: &PostgresServer) -> String {
    let url = server.database();
    let machine = Machine::new(&url);
    machine.run(&["store", "init"]).succeeds();
    url
}

fn shared_database() -> Option<String> {
    let found = shared_server().map(database);
    if found.is_none() {
        skip("there is no PostgreSQL server");
    }
    found
}

#[test]
fn run_on_a_database_lands_and_leaves_no_team_in_files() {
    let Some(url) = shared_database() else { return };
    let host = Machine::with_repository(&url);
    host.begin_run(5, &writer("0.1"), &[]).lands(5);
    assert!(!host.project.claude("teams").exists());
    let report = format!(".omc/reports/{TEAM}/report.md");
    assert!(host.folder().join(report).is_file());
    // Another machine sees the same.
    let other = Machine::new(&url);
    let status = other
        .run(&["status", "--team", TEAM, "--json"])
        .succeeds()
        .json();
    assert_eq!(
        status["teams"][0]["progress"]["completedTasks"], 5,
        "{status}"
    );
    let top = other
        .run(&["top", "--once", "--team", TEAM, "--json"])
        .succeeds();
    assert!(top.stdout.contains("Write f4"), "{}", top.stdout);
    let doctor = other.run(&["doctor", "--json"]);
    let checks: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let checks = checks["checks"].as_array().unwrap().clone();
    let store = checks
        .iter()
        .find(|check| check["name"] == "store")
        .unwrap();
    assert_eq!(store["ok"], true, "{store}");
    let detail = store["detail"].as_str().unwrap();
    assert!(
        detail.ends_with("LISTEN works") && !detail.contains("only-for-tests"),
        "{detail}"
    );
}

#[test]
fn machines_that_join_do_tasks_of_a_run_and_all_of_it_lands() {
    let Some(url) = shared_database() else { return };
    let host = Machine::with_repository(&url);
    let agent = writer("0.3");
    let run = host.begin_run(16, &agent, &[]);
    let address = format!("file://{}", host.folder().display());
    let others = [("join", "b"), ("start", "c")].map(|(command, name)| {
        let machine = Machine::new(&url);
        let clone = machine.project.home().join("clone");
        let dir = ["--repo", &address, "--dir", clone.to_str().unwrap()];
        let joined = machine.join_by(command, name, &agent, &dir);
        assert_eq!(joined["project"], clone.display().to_string());
        machine
    });
    run.lands(16);
    for (machine, name) in others.iter().zip(["b", "c"]) {
        assert!(machine.completed_by(name) > 0, "{name} did nothing");
        // The run has asked them to stop, and they have.
        let clone = machine.project.home().join("clone");
        let records = clone.join(format!(".omc/state/team-bridge/{TEAM}/{name}.launch.json"));
        assert!(!records.exists());
        assert_eq!(
            git_in(&clone, &machine.project.home(), &["status", "--porcelain"]),
            ""
        );
    }
}

#[test]
fn work_travels_through_a_repository_that_is_nobodys_own() {
    let Some(url) = shared_database() else { return };
    let host = Machine::with_repository(&url);
    let between = host.project.home().join("between.git");
    let path = between.to_str().unwrap();
    host.git(&["clone", "--quiet", "--bare", ".", path]);
    let address = format!("file://{path}");
    let agent = writer("0.3");
    let run = host.begin_run(12, &agent, &["--repo", &address]);
    // The run names the repository, so a joining worker need not.
    let other = Machine::new(&url);
    let clone = other.project.home().join("clone");
    let joined = other.join("b", &agent, &["--dir", clone.to_str().unwrap()]);
    assert_eq!(joined["repo"], address);
    run.lands(12);
    assert!(other.completed_by("b") > 0);
    let merged = host.git(&["rev-parse", "main"]);
    let branch = format!("refs/heads/omc-team/{TEAM}/integration");
    let arrived = git_in(&between, &host.project.home(), &["rev-parse", &branch]);
    // What landed is what was last merged and pushed.
    host.git(&["merge-base", "--is-ancestor", &arrived, &merged]);
}

#[test]
fn log_of_a_worker_is_read_from_another_machine() {
    let Some(url) = shared_database() else { return };
    let host = Machine::with_repository(&url);
    let run = host.begin_run(6, &writer("0.3"), &[]);
    let address = format!("file://{}", host.folder().display());
    let other = Machine::new(&url);
    let clone = other.project.home().join("clone");
    let go = other.project.home().join("go");
    let speaks = format!(
        "writer=command:echo \"I look at it\"; until [ -e {} ]; do sleep 0.05; done; echo \"I am through\"; {}",
        go.display(),
        writer("0").split_once("; ").unwrap().1
    );
    let dir = ["--repo", &address, "--dir", clone.to_str().unwrap()];
    other.join("b", &speaks, &dir);
    let logs = ["worker", "logs", "b", "--team", TEAM];
    wait_until("the host's machine reads what the agent says", || {
        let read = host.run(&logs);
        read.code == Some(0) && read.stdout.contains("I look at it")
    });
    let followed = host.project.home().join("followed.txt");
    let follow = ["worker", "logs", "b", "--team", TEAM, "--follow"];
    let mut reader = host
        .call(&follow)
        .spawn_into(std::fs::File::create(&followed).unwrap());
    std::fs::write(&go, "").unwrap();
    wait_until("what it says later comes, too", || {
        let said = std::fs::read_to_string(&followed).unwrap();
        said.contains("I am through")
    });
    reader.kill().unwrap();
    reader.wait().unwrap();
    run.lands(6);
    // The worker has ended; the log that was uploaded before can still be read.
    let read = host.run(&logs).succeeds();
    assert!(read.stdout.contains("I look at it"), "{}", read.stdout);
    let nobody = Machine::new(&url);
    let silent = nobody.run(&logs).fails(3);
    assert!(
        silent.stderr.contains("on its own machine"),
        "{}",
        silent.stderr
    );
}

#[test]
fn worker_of_another_machine_that_is_killed_loses_no_task() {
    let Some(url) = shared_database() else { return };
    let host = Machine::with_repository(&url);
    let agent = writer("0.3");
    let run = host.begin_run(8, &agent, &[]);
    let address = format!("file://{}", host.folder().display());
    let other = Machine::new(&url);
    let clone = other.project.home().join("clone");
    let slow = "writer=command:echo begun > begun; sleep 600";
    let dir = ["--repo", &address, "--dir", clone.to_str().unwrap()];
    let joined = other.join("b", slow, &dir);
    let worktree = clone.join(format!(".omc/worktrees/{TEAM}/b/begun"));
    wait_until("it works on a task", || worktree.exists());
    let pid = joined["pid"].to_string();
    let killed = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    assert!(killed.success());
    run.lands(8);
    assert_eq!(other.completed_by("b"), 0);
}

#[test]
fn run_goes_on_when_the_server_has_crashed_and_is_back() {
    let Some(mut server) = PostgresServer::start("") else {
        return skip("there is no PostgreSQL server");
    };
    let url = database(&server);
    let host = Machine::with_repository(&url);
    let agent = writer("0.4");
    let run = host.begin_run(10, &agent, &[]);
    for merged in ["task 2", "task 5"] {
        wait_until("some of it is merged", || {
            let said = run.said();
            said.lines()
                .any(|line| line.contains(merged) && line.contains("is merged"))
        });
        server.crash_and_restart();
    }
    run.lands(10);
}

#[test]
fn another_machine_goes_on_with_the_run_of_a_host_that_is_gone() {
    take_over(false);
}

#[test]
fn merge_that_was_not_pushed_before_its_machine_was_lost_is_made_again() {
    take_over(true);
}

/// Loses the machine of a host, with or without its last push, and resumes the run on another machine.
fn take_over(last_push_is_lost: bool) {
    let Some(url) = shared_database() else { return };
    let host = Machine::with_repository(&url);
    let between = host.project.home().join("between.git");
    let path = between.to_str().unwrap();
    host.git(&["clone", "--quiet", "--bare", ".", path]);
    let agent = writer("0.3");
    let mut run = host.begin_run(10, &agent, &["--repo", &format!("file://{path}")]);
    wait_until("some of it is merged", || run.said().contains("is merged"));
    let other = Machine::new(&url);
    std::fs::remove_dir_all(other.folder()).unwrap();
    let folder = other.folder();
    git_in(
        &other.project.home(),
        &other.project.home(),
        // Only what is on the branch, not every object.
        &[
            "clone",
            "--quiet",
            "--no-local",
            "--single-branch",
            path,
            folder.to_str().unwrap(),
        ],
    );
    let resume = ["run", "--resume", TEAM, "--approve", "auto"];
    // While it is hosted, no other process can host it.
    let refused = other.run(&resume).fails(4);
    assert!(
        refused.stderr.contains("hosts this team"),
        "{}",
        refused.stderr
    );
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    // The machine is lost, with all its processes.
    host.run(&["worker", "stop", "worker-1", "--team", TEAM, "--force"])
        .exits(0);
    let lost = host.folder().with_file_name("lost");
    std::fs::rename(host.folder(), &lost).unwrap();
    let at_the_repository = |args: &[&str]| git_in(&between, &host.project.home(), args);
    if last_push_is_lost {
        let branch = format!("refs/heads/omc-team/{TEAM}/integration");
        at_the_repository(&["update-ref", &branch, &format!("{branch}~1")]);
    }
    // The host may have been killed before its push, and a task that was finished meanwhile may have begun at that merge.
    let events = other.events();
    let merges = events
        .iter()
        .filter(|event| event["type"] == "merge.merged");
    let merge = merges
        .filter_map(|event| event["data"]["merge"].as_str())
        .next_back();
    let is_lost = !at_the_repository(&["rev-list", "--all"]).contains(merge.unwrap());
    let taken = other.run(&resume);
    assert_eq!(taken.code, Some(0), "{}{}", taken.stdout, taken.stderr);
    let said = "and what was merged since is merged again";
    assert_eq!(taken.stdout.contains(said), is_lost, "{}", taken.stdout);
    let files = other.git(&["ls-tree", "--name-only", "main"]);
    for number in 0..10 {
        assert!(files.contains(&format!("f{number}.txt")), "{files}");
    }
    // Nothing has landed on the first machine.
    let there = git_in(
        &lost,
        &host.project.home(),
        &["ls-tree", "--name-only", "main"],
    );
    assert_eq!(there, "README.md");
}

#[test]
fn role_of_workers_works_for_its_team_and_sees_no_other() {
    let Some(server) = shared_server() else {
        return skip("there is no PostgreSQL server");
    };
    let url = database(server);
    let name = url.rsplit('/').next().unwrap().to_owned();
    let role = format!("w{}", teamster_fs::random_hex());
    server.sql(
        &name,
        &format!("CREATE ROLE {role} LOGIN PASSWORD 'of-workers'"),
    );
    let (_, place) = url.split_once('@').unwrap();
    let as_worker = format!("postgres://{role}:of-workers@{place}");
    let host = Machine::with_repository(&url);
    host.run(&["team", "create", "others", "--members", "x"])
        .succeeds();
    let secret = [
        "task",
        "create",
        "--team",
        "others",
        "--subject",
        "None of its business",
    ];
    host.run(&secret).succeeds();
    let agent = writer("0.3");
    let run = host.begin_run(8, &agent, &[]);
    let other = Machine::new(&as_worker);
    let clone = other.project.home().join("clone");
    let address = format!("file://{}", host.folder().display());
    let dir = ["--repo", &address, "--dir", clone.to_str().unwrap()];
    // Before the role is allowed, the team does not exist for it.
    let join = [
        "worker",
        "join",
        "--team",
        TEAM,
        "--name",
        "b",
        "--provider",
        &agent,
    ];
    let join: Vec<&str> = join.into_iter().chain(dir).collect();
    let refused = other.run(&join);
    assert!(matches!(refused.code, Some(3 | 6)), "{}", refused.stderr);
    host.run(&["store", "grant", &role, "--team", TEAM])
        .succeeds();
    other.join("b", &agent, &dir);
    let teams = other.run(&["team", "list", "--json"]).succeeds();
    assert!(!teams.stdout.contains("others"), "{}", teams.stdout);
    other.run(&["task", "list", "--team", "others"]).fails(3);
    other.run(&["team", "create", "mine"]).fails(6);
    run.lands(8);
    assert!(host.completed_by("b") > 0);
    host.run(&["store", "revoke", &role, "--team", TEAM])
        .succeeds();
    other.run(&["task", "list", "--team", TEAM]).fails(3);
    server.sql(&name, &format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn name_that_a_worker_of_another_machine_has_is_refused() {
    let Some(url) = shared_database() else { return };
    let host = Machine::with_repository(&url);
    host.run(&["team", "create", TEAM, "--members", "worker-1"])
        .succeeds();
    let address = format!("file://{}", host.folder().display());
    let machines = [Machine::new(&url), Machine::new(&url)];
    let dirs = machines
        .each_ref()
        .map(|machine| machine.project.home().join("clone").display().to_string());
    let more = |place: usize| ["--repo", &address, "--dir", &dirs[place]];
    machines[0].join("b", "command:true", &more(0));
    let again = [
        "worker",
        "join",
        "--team",
        TEAM,
        "--name",
        "b",
        "--provider",
        "command:true",
    ];
    let again: Vec<&str> = again.into_iter().chain(more(1)).collect();
    let refused = machines[1].run(&again);
    assert_ne!(refused.code, Some(0));
    assert!(
        refused
            .stderr
            .contains("b of team letters is already running"),
        "{}",
        refused.stderr
    );
    machines[1].join("c", "command:true", &more(1));
    for (machine, dir) in machines.iter().zip(&dirs) {
        let stop = ["shutdown", "--team", TEAM];
        machine
            .call(&stop)
            .env("TEAMSTER_PROJECT", dir)
            .run()
            .exits(0);
    }
}

#[test]
fn agents_are_not_told_where_the_database_is() {
    let Some(url) = shared_database() else { return };
    let host = Machine::with_repository(&url);
    let agent = "writer=command:env > \"${TEAMSTER_TASK_SUBJECT#Write }.txt\"";
    let run = host.begin_run(1, agent, &[]);
    run.lands(1);
    let environment = host.git(&["show", "main:f0.txt"]);
    assert!(environment.contains("TEAMSTER_TASK_ID="), "{environment}");
    assert!(!environment.contains("postgres"), "{environment}");
}

#[test]
fn what_cannot_be_joined_is_refused_and_nothing_is_made() {
    let Some(url) = shared_database() else { return };
    let machine = Machine::with_repository(&url);
    machine
        .run(&["team", "create", TEAM, "--members", "worker-1"])
        .succeeds();
    let join = |more: &[&str]| {
        let args = [
            "worker",
            "join",
            "--team",
            TEAM,
            "--provider",
            "command:true",
        ];
        let args: Vec<&str> = args.into_iter().chain(more.iter().copied()).collect();
        machine.call(&args)
    };
    // Teams in the file store belong to one machine.
    let files = join(&[]).env("TEAMSTER_STORE", "files").run().fails(2);
    assert!(
        files.stderr.contains("belong to one machine"),
        "{}",
        files.stderr
    );
    let nobody = [
        "worker",
        "join",
        "--team",
        "nobody",
        "--provider",
        "command:true",
    ];
    machine.run(&nobody).fails(3);
    // The repository is not given anywhere.
    join(&[]).run().fails(2);
    let clone = machine.project.home().join("clone");
    let dir = clone.to_str().unwrap();
    for address in ["ext::sh -c id", "https://me:secret@localhost/x", "-x"] {
        let repo = format!("--repo={address}");
        let refused = join(&[&repo, "--dir", dir]).run().fails(6);
        assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
    }
    join(&["--repo", "file:///nowhere/at/all", "--dir", dir])
        .run()
        .fails(6);
    assert!(!clone.exists());
    // A repository that has nothing in common with the team's, whether it is named or already there.
    let foreign = Machine::with_repository(&url);
    let clone = foreign.project.home().join("clone");
    std::fs::rename(foreign.folder(), &clone).unwrap();
    git_in(
        &clone,
        &foreign.project.home(),
        &["commit", "--quiet", "--amend", "-m", "Another"],
    );
    let address = format!("file://{}", machine.folder().display());
    let other = join(&["--repo", &address, "--dir", clone.to_str().unwrap()]).run();
    let other = other.fails(6);
    assert!(
        other.stderr.contains("is another repository"),
        "{}",
        other.stderr
    );
    assert!(!clone.join(".omc").exists());
    let members = machine
        .run(&["team", "show", TEAM, "--json"])
        .succeeds()
        .json();
    assert_eq!(
        members["team"]["members"].as_array().map_or(1, Vec::len),
        1,
        "{members}"
    );
}

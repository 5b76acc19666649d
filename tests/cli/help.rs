//! The help is correct: every example in it does what it says.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use teamster_journal::EventActor;
use teamster_store::{ClaimRequest, OutgoingMessage, Recipient, Store};
use teamster_testkit::wait::wait_until;
use teamster_types::json::Object;
use teamster_types::task::NewTask;
use teamster_types::{TaskId, TeamName};

use crate::kit::{Follower, TestProject, gone, living};

/// Returns every command and command group, by its words, with its help.
fn commands() -> Vec<(Vec<String>, String)> {
    let project = TestProject::new();
    let mut found = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let help = help_of(&project, &words);
        if words.is_empty() {
            // Commands under a heading that is unknown here would not be tested.
            let mut headings = help.lines().filter(|line| line.ends_with(':'));
            let known = |line: &&str| HEADINGS.contains(line) || OTHER_HEADINGS.contains(line);
            assert!(headings.all(|line| known(&line)), "{help}");
        }
        let inner = subcommands(&help).into_iter();
        open.extend(inner.map(|word| [words.clone(), vec![word]].concat()));
        found.push((words, help));
    }
    found.sort();
    found
}

fn help_of(project: &TestProject, words: &[String]) -> String {
    let flag = ["--help".to_owned()];
    project.run(words.iter().chain(&flag)).succeeds().stdout
}

/// The headings of other sections in the help of the program itself.
const OTHER_HEADINGS: [&str; 4] = ["Options:", "Examples:", "Exit codes:", "Environment:"];

/// The headings above commands.
const HEADINGS: [&str; 6] = [
    "Commands:",
    "Run a team:",
    "Coordinate:",
    "Claude Code:",
    "Sessions:",
    "Set up:",
];

fn subcommands(help: &str) -> Vec<String> {
    let sections = help.split("\n\n");
    let sections = sections.filter_map(|section| section.split_once('\n'));
    sections
        .filter(|(heading, _)| HEADINGS.contains(heading))
        .flat_map(|(_, commands)| commands.lines())
        // Lines that are indented further continue the description of the command above.
        .filter_map(|line| {
            line.strip_prefix("  ")
                .filter(|rest| !rest.starts_with(' '))
        })
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| *word != "help")
        .map(str::to_owned)
        .collect()
}

/// Returns the lines below `Examples:`.
fn examples(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Examples:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Prepares what the examples assume: a team with a task in every state, a message, a plan, a result.
///
/// It uses the store's library where it can: a process for each step would take longer than the examples.
fn prepared() -> (TestProject, String, String) {
    let project = TestProject::with_team();
    // The claiming process is gone, like a command that has printed its token.
    let store = project.store(Duration::ZERO).claiming_as(gone());
    let team: TeamName = "fix-auth".parse().unwrap();
    let id = |id: &str| id.parse::<TaskId>().unwrap();
    let create = |subject: &str, blocked_by: Vec<TaskId>| {
        let new = NewTask {
            subject: subject.to_owned(),
            blocked_by,
            ..NewTask::default()
        };
        store.create_task(&team, &EventActor::Person, &new).unwrap();
    };
    let claim = |worker: &str, task: &str| {
        let request = ClaimRequest {
            worker: worker.parse().unwrap(),
            id: Some(id(task)),
            lease: None,
        };
        store.claim(&team, &request).unwrap().unwrap().token
    };
    create("Read the code", Vec::new());
    let token = claim("worker-1", "1");
    store.complete(&team, &id("1"), &token, None).unwrap();
    create("Find the cause", Vec::new());
    let token = claim("worker-1", "2").reveal().to_owned();
    create("Fix the login form", Vec::new());
    create("Look at the logs", Vec::new());
    let failed = claim("worker-2", "4");
    store.fail(&team, &id("4"), &failed, "no logs").unwrap();
    create("Test the login form", vec![id("3")]);
    let hello = OutgoingMessage {
        from: "user".to_owned(),
        to: Recipient::Worker("worker-1".to_owned()),
        kind: "message".to_owned(),
        content: "hello".to_owned(),
        extra: Object::new(),
    };
    let message = store.send(&team, &hello).unwrap().remove(0).id().to_owned();
    project.write("plan.toml", "[[tasks]]\nid = 'a'\nsubject = 'A'\n");
    project.write("result.json", "{}");
    let init = [
        "state-file",
        "init",
        "--team",
        "fix-auth",
        "--feature",
        "login",
    ];
    project.run(init).succeeds();
    project.run(["state-file", "add", "worker-1"]).succeeds();
    project.write("notes.md", "It was the cache.\n");
    let begin = ["session", "init", "--team", "fix-auth", "--task", "Fix it"];
    project.run(begin).succeeds();
    project
        .run(["ticket", "create", "--title", "Test it"])
        .succeeds();
    (project, token, message)
}

#[test]
fn every_command_has_examples_that_work() {
    let mut all = Vec::new();
    for (words, help) in commands() {
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{words:?} has no example");
        assert!(help.contains("--json"), "{words:?} has no --json");
        for example in examples {
            let name = [vec!["teamster".to_owned()], words.clone()]
                .concat()
                .join(" ");
            assert!(example.contains(&name), "{words:?}: {example}");
            let typed = example.split("   # ").next().unwrap();
            assert!(typed.len() <= 78, "too long for a terminal: {example}");
            all.push(example);
        }
    }
    assert!(all.len() > 50, "only {} examples were found", all.len());
    // Most of an example's time is spent waiting.
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(6)) {
            scope.spawn(move || part.iter().for_each(|example| try_example(example)));
        }
    });
}

/// The setup for the examples of `teamster worktree`: a repository with worktrees.
const WORKTREES: &str = "set -e
git init --quiet .
git -c user.name=n -c user.email=e commit --quiet --allow-empty -m Begin
for name in worker-1 worker-1.kept-1; do
  git worktree add --quiet -b omc-team/fix-auth/$name .omc/worktrees/fix-auth/$name
done";

/// The setup for the examples of `teamster run`: a repository, and a script that fixes it.
const RUNS: &str = "set -e
git init --quiet .
git add Makefile
git -c user.name=n -c user.email=e commit --quiet -m Begin";

/// Runs an example, which must exit with 0 unless a comment after it says otherwise.
fn try_example(example: &str) {
    let (project, token, message) = prepared();
    let clients = project.home().join("clients");
    let call = |line: &str| {
        project
            .shell(&format!("PATH=\"{}:$PATH\"; {line}", clients.display()))
            .env("TOKEN", &token)
            .env("MESSAGE", &message)
    };
    if example.contains("teamster worktree ") {
        project.shell(WORKTREES).run().succeeds();
    }
    if example.contains("teamster run ") {
        project.write("Makefile", "fix:\n\techo mended > mended\n");
        project.shell(RUNS).run().succeeds();
    }
    let needs_workers = ["teamster worker ", "teamster shutdown"]
        .iter()
        .any(|words| example.contains(words));
    let _workers = needs_workers.then(|| Workers::prepare(&project, example));
    let (line, comment) = example.split_once("   # ").unwrap_or((example, ""));
    match comment {
        "in a terminal" => {
            // Here there is no terminal, no pane, no plan and no run at a gate.
            let is_gate = !line.contains("teamster worker ") && !line.contains("teamster plan ");
            call(line).run().exits(if is_gate { 4 } else { 3 });
            return;
        }
        "with an agent" | "with agents" => {
            // The developer's own clients must not be found, let alone started.
            let path = project.home().join("bin");
            let only = format!(
                "mkdir {0} && ln -s \"$(command -v git)\" {0}/git",
                path.display()
            );
            call(&only).run().succeeds();
            let line = line.replacen("teamster", env!("CARGO_BIN_EXE_teamster"), 1);
            let ran = call(&line).env("PATH", &path).run().fails(6);
            assert!(ran.stderr.contains("agent"), "{}", ran.stderr);
            return;
        }
        "until told" => {
            let mut follower = call(&format!("exec {line}")).follow();
            follower.line();
            assert!(follower.interrupt().success(), "{example}");
            return;
        }
        _ => {}
    }
    if comment == "until Ctrl-C" {
        // `exec` replaces the shell, so that the signal reaches teamster.
        interrupt(call(&format!("exec {line}")).follow(), example);
        return;
    }
    let code = comment.strip_prefix("exits ").unwrap_or("0");
    assert!(
        comment.is_empty() || comment.starts_with("exits "),
        "{example}"
    );
    call(line).run().exits(code.parse().unwrap());
}

/// The setup for the examples of `teamster worker`: a repository, and a worker that has finished a task. Dropping it
/// stops all workers.
struct Workers<'a>(&'a TestProject);

impl<'a> Workers<'a> {
    fn prepare(project: &'a TestProject, example: &str) -> Self {
        let begin = WORKTREES.split("for name").next().unwrap();
        project.shell(begin).run().succeeds();
        // The clients must be found but are not started: these workers get no tasks.
        for client in ["claude", "codex"] {
            let folder = project.home().join("clients");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(client), "#!/bin/sh\necho 1.0\n").unwrap();
            let may_run = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(folder.join(client), may_run).unwrap();
        }
        let workers = Self(project);
        if example.contains(" resume ") {
            let tired = serde_json::json!({ "status": "quarantined", "consecutiveErrors": 3 });
            project.beat("worker-1", Duration::ZERO, &living(), &tired);
        } else if !example.contains("worker start") {
            let start = "worker start --name worker-1 --provider";
            let words = start.split(' ').chain(["command:echo hello"]);
            project.run(words).succeeds();
            let is_done = || {
                let shown = project.run(["task", "show", "3", "--json"]).succeeds();
                shown.json()["task"]["status"] == "completed"
            };
            wait_until("the task that the worker does", is_done);
        }
        workers
    }
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        self.0.run(["shutdown", "--force", "--json"]);
    }
}

/// Asserts that the call prints something, keeps running, and ends on an interrupt.
fn interrupt(mut follower: Follower, example: &str) {
    follower.line();
    assert!(follower.is_running(), "{example} ended by itself");
    assert_eq!(follower.interrupt().signal(), Some(2), "{example}");
}

#[test]
#[allow(clippy::too_many_lines, reason = "the map grows with the commands")]
fn the_help_of_the_whole_is_a_map() {
    let project = TestProject::new();
    insta::assert_snapshot!(project.run(["--help"]).succeeds().stdout, @r#"
    Runs, watches and cleans up teams of coding agents that work on one project

    Usage: teamster [OPTIONS] <COMMAND>

    Run a team:
      run          Run a team on a task: plan, work, merge, verify, then ask for approval
      demo         Watch a demo team at work; needs no API key and no network
      merge        Merge the finished tasks of a team that has no run
      approve      Approve the work of a run waiting at the gate and land it on your branch
      reject       Reject the work of a run waiting at the gate
      revise       Request changes to the work of a run waiting at the gate
      cancel       Cancel a team's run, from any terminal and at any stage
      plan         Check plan files and decide on a plan that awaits your approval
      status       Show the progress of this project's teams and what needs your attention
      top          Watch a team in the terminal: workers, tasks, messages, timeline, log
      studio       Watch all teams live on a local web page
      replay       Replay a run from its journal

    Coordinate:
      team         Create, show and delete teams
      task         Create, claim, complete and show tasks
      message      Send, read and follow messages
      ask          Ask the team's leader, or a person, and wait for the answer
      answer       Answer an agent's question
      worker       Start, watch and stop workers
      shutdown     Stop every worker of a team and verify that none is left
      worktree     Show, salvage and remove workers' worktrees
      zombies      Find and remove teams, processes and worktrees left behind
      journal      Show what happened in a team, event by event
      store        Set up a database store, inspect it, and copy teams between stores

    Claude Code:
      install      Connect a client to teamster with hooks or tools
      uninstall    Undo what `install` did
      plugin       Export a plugin for Claude Code
      hook         Record a Claude Code event (called by the client)
      state-file   Read and change the state shown by viewers, for scripts

    Sessions:
      session      Start and show a session with an approval gate
      state        Move a session from phase to phase
      ticket       Create, list and update the tickets of a session
      finding      Record the findings of a session's phases
      flow         Show the states of a flow and the steps between them

    Set up:
      doctor       Check that everything teamster needs is installed and working
      config       Show settings
      trust        Allow or revoke commands that come with this project
      mcp          Serve tools to a coding agent, over standard input and output (MCP)
      completions  Print a shell completion script
      man          Print the manual page, or write a page for each command
      help         Print this message or the help of the given subcommand(s)

    Options:
          --json
              Print output as JSON

          --store <URL>
              The store to use: postgres://user@host/database (no password), or files

      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Examples:
      teamster demo
      teamster run 3:claude "fix all type errors"   # with agents
      teamster task create --subject "Fix the login form"
      teamster status

    Exit codes:
      0  done
      1  failed
      2  wrong usage
      3  not found
      4  conflict: taken, stale token, illegal step, still alive
      5  nothing to do
      6  refused: invalid name, limit, unsafe path, not allowed for this caller
      7  the store cannot be reached
      10 to 14  how a run ended: `teamster run --help`

    Environment:
      TEAMSTER_TEAM        the team to act on when --team is not given
      TEAMSTER_WORKER      the calling worker; it can act only for itself
      TEAMSTER_SOCKET      the socket of the worker's bridge, which handles commands of agents
      TEAMSTER_PROJECT     the project folder (else CLAUDE_PROJECT_DIR, else the git work tree)
      TEAMSTER_CLAUDE_DIR  where teams are kept (else CLAUDE_CONFIG_DIR, else ~/.claude)
      TEAMSTER_STORE       the database in which teams are kept, instead of files
      TEAMSTER_DEBUG       makes hooks log what they do, to standard error and to TEAMSTER_LOG
                           (else .bkit/hook.log)
      TEAMSTER_LOG         log filter for runs and workers: teamster_run=debug,info, or off
      VISUAL, EDITOR       the editor for plans (else vi)
      NO_COLOR             disables colours
      Settings have their own variables: see `teamster config show`
    "#);
    insta::assert_snapshot!(project.run(["task", "--help"]).succeeds().stdout, @r#"
    Create, claim, complete and show tasks

    Usage: teamster task [OPTIONS] <COMMAND>

    Commands:
      create    Create a task and print its id
      list      List tasks and their states
      show      Show a task in full
      update    Change a task
      claim     Claim a task and print it with the token needed to finish it
      renew     Extend the lease of a claim
      complete  Mark a claimed task as completed
      fail      Record a failed attempt; the fifth is final
      release   Release a claimed task without finishing it
      retry     Reset a failed task so that it can be claimed again
      answer    Answer a task that is waiting for your input
      delete    Delete an unclaimed task and drop it from the dependencies of others
      graph     Show the dependencies between tasks
      import    Create all tasks of a plan, or none
      route     Show which worker suits a task best
      help      Print this message or the help of the given subcommand(s)

    Options:
          --json         Print output as JSON
          --store <URL>  The store to use: postgres://user@host/database (no password), or files
      -h, --help         Print help

    Examples:
      teamster task create --subject "Fix the login form"
      teamster task claim --worker worker-1
      teamster task list
    "#);
    insta::assert_snapshot!(project.run(["task", "claim", "--help"]).succeeds().stdout, @r"
    Claim a task and print it with the token needed to finish it

    Usage: teamster task claim [OPTIONS] [ID]

    Arguments:
      [ID]  Claim this task instead of the next one

    Options:
          --json             Print output as JSON
          --team <TEAM>      The team [default: `TEAMSTER_TEAM`, else the only team of this project]
          --worker <WORKER>  The claiming worker [default: `TEAMSTER_WORKER`]
          --lease <TIME>     How long the claim lasts unless renewed [default: the setting
                             `claim.lease`, 120s]
          --store <URL>      The store to use: postgres://user@host/database (no password), or files
      -h, --help             Print help

    Without an id the worker gets its own tasks first, then unassigned ones that it can do, the lowest
    number first. Exit code 5: nothing is claimable now. Exit code 4: that task is taken.

    Examples:
      teamster task claim --worker worker-1
      teamster task claim --worker worker-2 3 --lease 10m --json
      teamster task claim --worker worker-2 2   # exits 4
    ");
    let bare = project.run([] as [&str; 0]).fails(2);
    assert!(bare.stderr.contains("Usage: teamster"));
}

#[test]
fn the_version_is_one_line() {
    let project = TestProject::new();
    let ran = project.run(["--version"]).succeeds();
    assert_eq!(
        ran.stdout,
        format!("teamster {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn help_and_completions_need_no_home() {
    let project = TestProject::new();
    for args in [
        &["--version"][..],
        &["task", "--help"],
        &["completions", "zsh"],
        &["man"],
    ] {
        project.call(args).without_env("HOME").run().succeeds();
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let project = TestProject::new();
    let made = project
        .run(["man", "--dir", "man1", "--json"])
        .succeeds()
        .json();
    let files: Vec<&str> = made["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file.as_str().unwrap())
        .collect();
    for (words, _) in commands() {
        let page = [vec!["teamster".to_owned()], words].concat().join("-") + ".1";
        assert!(files.contains(&page.as_str()), "{page}: {files:?}");
        assert!(project.folder().join("man1").join(page).exists());
    }
    project.run(["completions", "nonsense"]).fails(2);
}

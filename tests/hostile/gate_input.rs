//! A prompt takes only input that was typed after it was shown, and echoes it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use teamster_fs::layout::{RUN_LOCK, TEAM_LOCK};
use teamster_fs::{Dir, Lock, LockWait};
use teamster_journal::payload::{GateAnswer, GateDecided};
use teamster_journal::{EventKind, NewEvent};
use teamster_run::host::ProjectLock;
use teamster_store::Store as _;
use teamster_types::flow::DecisionChannel;

use crate::kit::{Call, TestProject};
use crate::run::Shop;
use crate::studio::terminal::Terminal;
use crate::studio::wait_for;

const PROMPT: &str = "decision> ";
const PLAN_PROMPT: &str = "plan> ";
const DISCARDED: &str = "What you typed before this was shown was discarded.";

/// A worker that waits for `ROOT/go`, also when it revises, and then changes a file.
const WAITING: &str = r#"
[[step]]
task = "mend it"
do = "run"
command = "touch ROOT/at-work; until test -e ROOT/go; do sleep 0.02; done; echo mended > news.txt"
[[step]]
task = "Revise"
do = "run"
command = "touch ROOT/at-revision; until test -e ROOT/go-again; do sleep 0.02; done; echo revised > news.txt"
"#;

const MENDS: &str =
    "[[step]]\ntask = \"mend it\"\ndo = \"edit\"\npath = \"news.txt\"\ncontent = \"mended\\n\"\n";

/// Returns a check that waits for `ROOT/checked` on the base and at the end.
fn check(shop: &Shop) -> String {
    let aside = shop.aside();
    let aside = aside.display();
    format!("touch {aside}/at-check; until test -e {aside}/checked; do sleep 0.02; done")
}

/// Returns everything that could be taken for an answer, with every line ending.
fn type_ahead() -> Vec<String> {
    let words = [
        "yes",
        "approve",
        "reject rollback",
        "revise x",
        "APPROVE",
        "reject",
        "y",
        "no",
    ];
    let ends = ["\r", "\n", "\r\n", "\u{4}", "\u{4}\u{4}", "\n\n\n", ""];
    let mut typed = Vec::new();
    for end in ends {
        typed.extend(words.iter().map(|word| format!("{word}{end}")));
    }
    // The last line is not finished yet.
    typed.push("\ryes".to_owned());
    typed
}

fn decisions(shop: &Shop) -> usize {
    let kinds = ["approval.given", "approval.refused", "approval.revised"];
    kinds.iter().map(|kind| shop.events_of(kind).len()).sum()
}

fn waits_at(shop: &Shop, name: &str) {
    shop.until(name, || shop.aside().join(name).exists());
    std::fs::remove_file(shop.aside().join(name)).unwrap();
}

fn lets(shop: &Shop, name: &str) {
    std::fs::write(shop.aside().join(name), "").unwrap();
}

/// Asserts that a word is not understood. A terminal keeps the order, so everything typed before has then been read.
fn asks_back(terminal: &mut Terminal, word: &str) {
    terminal.press(&format!("{word}\r"));
    terminal.wait_for(&format!("Not understood: {word}"));
    wait_for("a prompt", || {
        (terminal.line().trim_end() == PROMPT.trim_end()).then_some(())
    });
}

#[test]
fn lines_typed_before_a_question_is_shown_do_nothing() {
    let shop = Shop::new();
    let before = shop.git(&["rev-parse", "main"]);
    let typed = type_ahead();
    assert!(typed.len() > 50);
    let check = check(&shop);
    let call = shop.scripted_run(WAITING, &["--verify", &check, "--approve-plan"]);
    let mut terminal = Terminal::after_typing(&typed.concat(), call.command());
    waits_at(&shop, "at-check");
    terminal.press(&typed.concat());
    lets(&shop, "checked");
    terminal.wait_for(PLAN_PROMPT);
    assert!(terminal.text().contains(DISCARDED), "{}", terminal.text());
    terminal.press("\rmaybe\r");
    terminal.wait_for("Not understood: maybe");
    assert_eq!(shop.events_of("task.created").len(), 0);
    terminal.press("yes\r");
    waits_at(&shop, "at-work");
    for line in &typed {
        terminal.press(line);
    }
    std::fs::remove_file(shop.aside().join("checked")).unwrap();
    std::fs::remove_file(shop.aside().join("at-check")).unwrap_or_default();
    lets(&shop, "go");
    waits_at(&shop, "at-check");
    // More than a terminal buffers: the rest arrives when the gate is open.
    let mut keys = terminal.keys();
    let paste = std::thread::spawn(move || keys.write_all("yes\n".repeat(25_000).as_bytes()));
    lets(&shop, "checked");
    terminal.wait_for(PROMPT);
    paste.join().unwrap().unwrap();
    assert!(terminal.text().contains(DISCARDED), "{}", terminal.text());
    asks_back(&mut terminal, "first");
    terminal.press("\r");
    asks_back(&mut terminal, "second");
    assert_eq!(decisions(&shop), 0);
    assert_eq!(shop.git(&["rev-parse", "main"]), before);

    terminal.press("revise say it again\r");
    waits_at(&shop, "at-revision");
    for line in &typed {
        terminal.press(line);
    }
    lets(&shop, "go-again");
    shop.until("the second gate", || {
        shop.events_of("approval.requested").len() == 2
    });
    terminal.wait_for(PROMPT);
    asks_back(&mut terminal, "third");
    assert_eq!(decisions(&shop), 1);
    terminal.press("yes\r");
    terminal.ends();
    assert_eq!(decisions(&shop), 2);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "revised");
    shop.is_quiet();
}

#[test]
fn plan_that_was_shown_is_the_plan_that_is_carried_out() {
    let shop = Shop::new();
    let plan = shop.parts(1);
    let script = MENDS.replace("mend it", "Part");
    let more = ["--plan", &plan, "--approve-plan", "--approve", "never"];
    let mut terminal = Terminal::of_call(shop.scripted_run(&script, &more));
    terminal.wait_for(PLAN_PROMPT);
    assert!(
        terminal.text().contains("1   t1  Part 1"),
        "{}",
        terminal.text()
    );
    shop.plan("[[tasks]]\nid = \"x\"\nsubject = \"Part of something else\"\n");
    terminal.press("maybe\r");
    terminal.wait_for("Not understood: maybe");
    terminal.press("yes\r");
    terminal.ends();
    assert_eq!(shop.tasks()[0]["subject"], "Part 1");
}

#[test]
fn typing_at_the_gate_is_seen_and_leaves_no_copies_of_the_live_line() {
    let shop = Shop::new();
    let call = shop.scripted_run(WAITING, &["--verify", "true"]);
    let mut terminal = Terminal::of_call(call);
    let keys = terminal.keys();
    let mut silent = tcgetattr(&keys).unwrap();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&keys, OptionalActions::Now, &silent).unwrap();
    lets(&shop, "go");
    terminal.wait_for(PROMPT);
    assert!(!terminal.text().contains(DISCARDED), "{}", terminal.text());
    let before = terminal.text();
    let mut seen = PROMPT.to_owned();
    for key in "aprove".chars() {
        seen.push(key);
        terminal.press(&key.to_string());
        wait_for("the key on the screen", || {
            (terminal.line() == seen).then_some(())
        });
    }
    assert_eq!(terminal.text(), format!("{} aprove", before.trim_end()));
    terminal.press("\r");
    terminal.wait_for("Not understood: aprove");
    terminal.press("approve\r");
    terminal.wait_for("complete");
    terminal.ends();
    assert_eq!(shop.git(&["show", "main:news.txt"]), "mended");
    let after = tcgetattr(&keys).unwrap();
    assert!(!after.local_modes.contains(LocalModes::ECHO), "as it was");
}

#[test]
fn end_of_input_at_the_gate_leaves_it_open_for_an_answer_from_elsewhere() {
    let shop = Shop::new();
    let mut terminal = Terminal::of_call(shop.scripted_run(MENDS, &["--verify", "true"]));
    terminal.wait_for(PROMPT);
    terminal.press("\u{4}");
    terminal.wait_for("The gate stays open");
    let commit = shop.gate();
    assert!(
        terminal.text().contains("teamster approve"),
        "{}",
        terminal.text()
    );
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .succeeds();
    terminal.wait_for("complete");
    terminal.ends();
    assert_eq!(shop.git(&["rev-parse", "main"]), commit);
}

#[test]
fn decision_from_elsewhere_is_told_on_a_line_of_its_own() {
    let shop = Shop::new();
    let mut terminal = Terminal::of_call(shop.scripted_run(MENDS, &["--verify", "true"]));
    terminal.wait_for(PROMPT);
    let commit = shop.gate();
    terminal.press("app");
    terminal.wait_for("decision> app");
    shop.run(&["reject", "no", "--team", "shop", "--commit", &commit])
        .exits(0);
    terminal.wait_for("decision> app\nThis was decided elsewhere");
    terminal.exits(10);
}

/// Returns the same call in place of `TEAMSTER` in a shell command.
fn in_shell(shop: &Shop, line: &str, call: Call) -> Command {
    let call = call.command();
    let mut words = String::new();
    for word in std::iter::once(call.get_program()).chain(call.get_args()) {
        let _ = write!(words, "'{}' ", word.to_str().unwrap());
    }
    let mut command = shop
        .project
        .shell(&line.replace("TEAMSTER", &words))
        .command();
    let variables = call.get_envs();
    command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    command
}

#[test]
fn command_that_brings_its_answer_asks_nothing() {
    let shop = Shop::new();
    let more = ["--verify", "true", "--approve", "never"];
    let terminal = Terminal::of_call(shop.scripted_run(MENDS, &more));
    terminal.wait_for("awaiting approval: waiting for your decision");
    assert!(!terminal.text().contains("Type: "), "{}", terminal.text());
    terminal.ends();
    let call = shop.call(&["approve", "--team", "shop"]);
    let terminal = Terminal::after_typing("reject\n", call.command());
    terminal.wait_for("approved and landed on main");
    for words in [PROMPT, "elsewhere", DISCARDED, "Type: "] {
        assert!(!terminal.text().contains(words), "{}", terminal.text());
    }
    terminal.ends();
}

#[test]
fn interrupt_at_the_prompt_leaves_the_gate_open() {
    let shop = Shop::new();
    // Only a controlling terminal turns a key into a signal.
    let call = shop.scripted_run(MENDS, &["--verify", "true"]);
    let mut terminal =
        Terminal::after_typing("", in_shell(&shop, "exec setsid --ctty TEAMSTER", call));
    terminal.wait_for(PROMPT);
    terminal.press("appro\u{3}");
    terminal.wait_for("the gate stays open");
    terminal.exits(13);
    assert_eq!(decisions(&shop), 0);
    assert_eq!(shop.stage(), "approval");
}

/// The test's own tmux server.
struct TmuxTerminal {
    socket: PathBuf,
}

impl TmuxTerminal {
    fn start(shop: &Shop, call: Call) -> Self {
        let socket = shop.aside().join("tmux");
        let line = format!(
            "exec tmux -f /dev/null -S {} new-session -d -x 90 -y 50 -- TEAMSTER",
            socket.display()
        );
        let started = in_shell(shop, &line, call).status();
        assert!(started.unwrap().success());
        Self { socket }
    }

    fn tell(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn press(&self, keys: &[&str]) {
        self.tell(&[&["send-keys"], keys].concat());
    }

    fn wait_for(&self, words: &str) -> String {
        wait_for(words, || {
            let text = self.tell(&["capture-pane", "-p"]);
            text.contains(words).then_some(text)
        })
    }
}

impl Drop for TmuxTerminal {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
    }
}

#[test]
fn lines_typed_ahead_in_tmux_do_nothing_and_typing_is_seen() {
    let shop = Shop::new();
    let tmux = TmuxTerminal::start(&shop, shop.scripted_run(WAITING, &["--verify", "true"]));
    waits_at(&shop, "at-work");
    for word in ["yes", "approve", "reject rollback", "revise x"] {
        tmux.press(&[word, "Enter", "C-d", word, "C-m", "C-j"]);
    }
    tmux.press(&["approve"]);
    lets(&shop, "go");
    tmux.wait_for(PROMPT.trim_end());
    tmux.press(&["Enter", "what", "Enter"]);
    tmux.wait_for("Not understood: what");
    assert_eq!(decisions(&shop), 0);
    tmux.press(&["appro"]);
    let text = tmux.wait_for("decision> appro");
    assert_eq!(text.trim_end().lines().last(), Some("decision> appro"));
    assert_eq!(text.matches(DISCARDED).count(), 1, "{text}");
    tmux.press(&["ve", "Enter"]);
    shop.until("the end", || shop.stage() == "complete");
    assert_eq!(shop.git(&["show", "main:news.txt"]), "mended");
    shop.until("nobody", || shop.alive().is_empty());
}

#[test]
fn interrupt_while_a_team_works_leaves_each_worker_in_one_row() {
    let shop = Shop::new();
    let tmux = TmuxTerminal::start(&shop, shop.scripted_run(WAITING, &["--verify", "true"]));
    waits_at(&shop, "at-work");
    let row = "task 1 mend it";
    tmux.wait_for(row);
    tmux.press(&["C-c"]);
    tmux.wait_for("finishing worker-1");
    tmux.wait_for("stopping · execute");
    wait_for("one row for the worker", || {
        let text = tmux.tell(&["capture-pane", "-p"]);
        (text.matches(row).count() == 1).then_some(())
    });
    lets(&shop, "go");
    shop.until("nobody", || shop.alive().is_empty());
}

#[test]
fn lines_typed_ahead_in_tmux_accept_no_plan() {
    let shop = Shop::new();
    let check = check(&shop);
    let more = ["--verify", &check, "--approve-plan", "--approve", "never"];
    let tmux = TmuxTerminal::start(&shop, shop.scripted_run(MENDS, &more));
    waits_at(&shop, "at-check");
    for word in ["yes", "accept", "edit", "reject"] {
        tmux.press(&[word, "Enter", "C-d", word, "C-m", "C-j"]);
    }
    tmux.press(&["accept"]);
    lets(&shop, "checked");
    tmux.wait_for(PLAN_PROMPT.trim_end());
    tmux.press(&["Enter", "what", "Enter"]);
    let text = tmux.wait_for("Not understood: what");
    assert_eq!(text.matches(DISCARDED).count(), 1, "{text}");
    assert!(text.contains("revision 1: 1 task"), "{text}");
    tmux.press(&["revise", "Space", "it", "Enter"]);
    tmux.wait_for("No agent leads this run");
    assert_eq!(shop.events_of("plan.answered").len(), 0);
    tmux.press(&["acc"]);
    let text = tmux.wait_for("plan> acc");
    assert_eq!(text.trim_end().lines().last(), Some("plan> acc"), "{text}");
    tmux.press(&["ept", "Enter"]);
    shop.gate();
    shop.until("nobody", || shop.alive().is_empty());
    assert_eq!(shop.tasks().len(), 1);
}

#[test]
fn lines_typed_ahead_below_script_do_nothing() {
    let shop = Shop::new();
    let call = shop.scripted_run(WAITING, &["--verify", "true"]);
    let printed = shop.aside().join("printed");
    let mut script = in_shell(&shop, "exec script -qefc \"TEAMSTER\" /dev/null", call);
    script.stdin(Stdio::piped());
    script.stdout(std::fs::File::create(&printed).unwrap());
    let mut script = script.spawn().unwrap();
    let mut keys = script.stdin.take().unwrap();
    let shows = |words: &str| {
        let printed = String::from_utf8_lossy(&std::fs::read(&printed).unwrap()).into_owned();
        printed.contains(words).then_some(())
    };
    keys.write_all(type_ahead().concat().as_bytes()).unwrap();
    waits_at(&shop, "at-work");
    keys.write_all(type_ahead().concat().as_bytes()).unwrap();
    lets(&shop, "go");
    wait_for("the prompt", || shows(PROMPT));
    keys.write_all(b"\nwhat\n").unwrap();
    wait_for("the question", || shows("Not understood: what"));
    assert_eq!(decisions(&shop), 0);
    keys.write_all(b"approve\n").unwrap();
    assert!(script.wait().unwrap().success());
    assert_eq!(shop.git(&["show", "main:news.txt"]), "mended");
}

#[test]
fn lines_in_a_pipe_answer_nothing() {
    let shop = Shop::new();
    let answers = "yes\napprove\nreject rollback\n".repeat(50);
    let call = shop.scripted_run(MENDS, &["--verify", "true"]);
    let mut run = call.input(answers).spawn();
    let commit = shop.gate();
    shop.run(&["approve", "--team", "shop"]).exits(2);
    assert_eq!(decisions(&shop), 0);
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .succeeds();
    assert!(run.wait().unwrap().success());
    assert_eq!(shop.git(&["rev-parse", "main"]), commit);
}

#[test]
fn line_typed_ahead_trusts_no_project() {
    let project = TestProject::new();
    let config = "[worktree]\nsetup = [\"touch ran\"]\n";
    project.write(".teamster/config.toml", config);
    let question = "Run them? [y/N]";
    for typed in ["y\r", "yes\n", "\ny\ny\ny\n", "y"] {
        let mut terminal = Terminal::after_typing(typed, project.call(["trust"]).command());
        terminal.wait_for(question);
        assert!(terminal.text().contains(DISCARDED), "{}", terminal.text());
        terminal.press("\r");
        terminal.wait_for("nothing was accepted");
    }
    let mut terminal = Terminal::start(&project, &["trust"]);
    terminal.wait_for(question);
    assert!(!terminal.text().contains(DISCARDED), "{}", terminal.text());
    terminal.press("y\r");
    terminal.ends();
    let state = project.run(["trust", "--show", "--json"]).succeeds().json();
    assert_eq!(state["state"], "accepted");
}

/// Starts a run that waits at the gate; returns the gate and its commit.
fn at_gate(shop: &Shop) -> (String, String) {
    let more = ["--verify", "true", "--approve", "never"];
    shop.scripted_run(MENDS, &more).run().exits(0);
    let asked = shop.events_of("approval.requested");
    let text = |key: &str| asked[0]["data"][key].as_str().unwrap().to_owned();
    (text("gate"), text("commit"))
}

#[test]
fn rejection_that_lost_to_an_approval_while_it_waited_for_the_seat_is_a_conflict() {
    let shop = Shop::new();
    let (gate, commit) = at_gate(&shop);
    let folder = Dir::open_root(&shop.folder()).unwrap().unwrap();
    let seat = ProjectLock::take(&folder).unwrap().unwrap();
    let words = ["reject", "--team", "shop", "--commit", &commit];
    let mut reject = shop.call(&words).spawn();
    // It has read the journal, and waits for the run's lock.
    wait_for("the rejection at the seat", || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", reject.id())).ok()?;
        let mut paths = files
            .flatten()
            .filter_map(|file| file.path().read_link().ok());
        paths.find(|path| path.ends_with(RUN_LOCK))
    });
    let approved = GateDecided::new(
        &gate,
        &commit,
        DecisionChannel::Terminal,
        None,
        &GateAnswer::Approve,
    );
    let approved = NewEvent::new("user", EventKind::ApprovalGiven(approved));
    let store = shop.project.store(Duration::ZERO);
    store.record(&"shop".parse().unwrap(), approved).unwrap();
    drop(seat);
    assert_eq!(reject.wait().unwrap().code(), Some(4));
    assert_eq!(shop.stage(), "approval", "it carries out no other decision");
}

#[test]
fn rejection_without_rollback_that_lost_to_one_with_rollback_is_a_conflict() {
    let shop = Shop::new();
    let mut host = shop.scripted_run(MENDS, &["--verify", "true"]).spawn();
    let commit = shop.gate();
    let signal = |name: &str| {
        let kill = Command::new("kill")
            .args([name, &host.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
    };
    // The host must not be stopped in the middle of a change, or the answering process would wait for the team's
    // lock.
    let tasks = Dir::open_root(&shop.project.claude("tasks/shop"));
    let tasks = tasks.unwrap().unwrap();
    wait_for("a quiet host", || {
        signal("-STOP");
        match Lock::wait(&tasks, TEAM_LOCK, Duration::ZERO, false).unwrap() {
            LockWait::Held(_) => Some(()),
            LockWait::TimedOut => {
                signal("-CONT");
                None
            }
        }
    });
    let mut answers = Vec::new();
    for (count, more) in [(1, ["--rollback"].as_slice()), (2, &[]), (3, &["too slow"])] {
        let words = ["reject", "--team", "shop", "--commit", &commit];
        answers.push(shop.call(words.iter().chain(more)).spawn());
        shop.until("the answer", || {
            shop.events_of("approval.answered").len() == count
                || answers.last_mut().unwrap().try_wait().unwrap().is_some()
        });
    }
    signal("-CONT");
    let codes: Vec<_> = answers
        .iter_mut()
        .map(|answer| answer.wait().unwrap().code())
        .collect();
    assert_eq!(codes, [Some(0), Some(4), Some(4)]);
    assert_eq!(host.wait().unwrap().code(), Some(10));
    assert_eq!(shop.stage(), "rolled-back");
}

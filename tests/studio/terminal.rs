//! `top` and `replay` on a terminal of 80 columns and 24 lines.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use teamster_testkit::wait::{LONG, poll};

use super::facts::in_the_middle;
use super::wait_for;
use crate::kit::{Call, TestProject};

/// A program on a terminal, and what its screen shows.
pub struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    pub fn start(project: &TestProject, words: &[&str]) -> Self {
        Self::of_call(project.call(words))
    }

    pub fn of_call(call: Call) -> Self {
        Self::after_typing("", call.command())
    }

    /// Starts a program on a terminal with input that was typed before.
    pub fn after_typing(typed: &str, mut command: Command) -> Self {
        let main: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap();
        let path = std::path::PathBuf::from(name.to_str().unwrap());
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&main, size).unwrap();
        command.env("TERM", "xterm-256color");
        command.stdin(open()).stdout(open()).stderr(open());
        (&File::from(main.try_clone().unwrap()))
            .write_all(typed.as_bytes())
            .unwrap();
        let child = command.spawn().unwrap();
        // The command's own copies would keep the terminal open after the program has ended.
        drop(command);
        let keys = File::from(main);
        let mut output = keys.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let shown = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = output.read(&mut bytes) {
                if count == 0 {
                    return;
                }
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self {
            child,
            keys,
            screen,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Returns the line of the cursor.
    pub fn line(&self) -> String {
        let screen = self.screen.lock().unwrap();
        let row = screen.screen().cursor_position().0;
        screen.screen().rows(0, 80).nth(row.into()).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        let screen = self.screen.lock().unwrap();
        screen.screen().rows(0, 80).collect()
    }

    pub fn wait_for(&self, words: &str) {
        let found = poll(LONG, || self.text().contains(words).then_some(()));
        assert!(found.is_some(), "{words} is not on\n{}", self.text());
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Returns the terminal itself, for a caller that writes to it or changes its modes.
    pub fn keys(&self) -> File {
        self.keys.try_clone().unwrap()
    }

    pub fn ends(self) {
        self.exits(0);
    }

    pub fn exits(mut self, code: i32) {
        let status = wait_for("the program's end", || self.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(code), "{}", self.text());
        // Its last output may still be on its way to the screen.
        wait_for("the terminal as it was, with its cursor", || {
            let screen = self.screen.lock().unwrap();
            let screen = screen.screen();
            (!screen.alternate_screen() && !screen.hide_cursor()).then_some(())
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn top_shows_the_team_on_a_small_screen_and_follows_it() {
    let project = in_the_middle();
    let mut terminal = Terminal::start(&project, &["top"]);
    terminal.wait_for("fix-auth  live  execute");
    for words in [
        "workers (2)",
        "worker-1     healthy",
        "worker-2     dead",
        "tasks (4)",
        "in_progress Find the cause",
        "timeline",
        "messages (1)",
        "lead → worker-2: How is it?",
        "log of worker-1",
        "q quit",
    ] {
        terminal.wait_for(words);
    }
    let lines = terminal.lines();
    assert_eq!(lines.len(), 24);
    assert!(lines[23].starts_with("q quit  ↑↓ worker"), "{lines:?}");
    project.task("Something new", &[]);
    terminal.wait_for("Something new");
    terminal.wait_for("tasks (5)");
    terminal.press("\u{1b}[B");
    terminal.wait_for("log of worker-2");
    terminal.press("q");
    terminal.ends();
}

#[test]
fn top_goes_from_team_to_team() {
    let project = TestProject::with_team();
    project.run(["team", "create", "other"]).succeeds();
    let mut terminal = Terminal::start(&project, &["top", "--team", "fix-auth"]);
    terminal.wait_for("fix-auth  ");
    terminal.wait_for("team 1 of 2");
    terminal.press("\u{1b}[C");
    terminal.wait_for("team 2 of 2");
    terminal.wait_for("other  ");
    terminal.wait_for("none; `teamster task create` makes one");
    terminal.press("\u{3}");
    terminal.ends();
}

#[test]
fn hostile_texts_leave_the_screen_whole() {
    let project = TestProject::with_team();
    project.task("\u{1b}[2J\u{1b}[10;10Hgotcha\u{202e} <img onerror=x>", &[]);
    let mut terminal = Terminal::start(&project, &["top"]);
    terminal.wait_for("gotcha <img onerror=x>");
    // The last line is drawn last.
    terminal.wait_for("q quit");
    let lines = terminal.lines();
    assert!(lines[0].starts_with("fix-auth"), "{lines:?}");
    assert!(lines[23].starts_with("q quit"), "{lines:?}");
    terminal.press("q");
    terminal.ends();
}

#[test]
fn a_replay_steps_through_the_journal() {
    let project = in_the_middle();
    let mut terminal = Terminal::start(&project, &["replay", "fix-auth", "--step"]);
    terminal.wait_for("as it was at event 1");
    terminal.wait_for("team.created");
    terminal.press("\r");
    terminal.wait_for("as it was at event 2");
    terminal.wait_for("tasks (1)");
    terminal.press("\r\r");
    terminal.wait_for("as it was at event 4");
    terminal.wait_for("1 of 1 tasks");
    terminal.press("q");
    terminal.ends();
}

#[test]
fn a_replay_plays_to_its_end_and_waits_there() {
    let project = in_the_middle();
    let mut terminal = Terminal::start(&project, &["replay", "fix-auth", "--speed", "100000"]);
    terminal.wait_for("the end");
    terminal.wait_for("waits for your approval");
    terminal.press("q");
    terminal.ends();
}

#[test]
fn top_shows_a_session_that_is_known_by_its_state_file_only() {
    let project = TestProject::new();
    project
        .run(["state-file", "init", "--team", "crew", "--feature", "login"])
        .succeeds();
    project.run(["state-file", "add", "ann"]).succeeds();
    let frame = project.run(["top", "--once"]).succeeds().stdout;
    assert!(frame.starts_with("crew  live"), "{frame}");
    assert!(frame.contains(">ann          healthy"), "{frame}");
    let mut terminal = Terminal::start(&project, &["top"]);
    terminal.wait_for("workers (1)");
    project.run(["state-file", "add", "ben"]).succeeds();
    terminal.wait_for("workers (2)");
    terminal.press("q");
    terminal.ends();
}

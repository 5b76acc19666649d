//! Workers in panes of teamster's own tmux server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use teamster_fs::layout::tmux_socket;
use teamster_isolate::tmux::{Pane, PaneCommand, Tmux, TmuxError};
use teamster_testkit::wait::{LONG, poll, wait_until};
use teamster_types::WorkerName;

use super::{PATH, team, worker};
use crate::kit::TestProject;

/// The project's own tmux server, ended on drop.
struct Server {
    project: TestProject,
    tmux: Tmux,
}

impl Server {
    fn new() -> Self {
        let project = TestProject::new();
        let socket = tmux_socket(&project.folder(), Some(&project.home()));
        let tmux = Tmux::find(PATH.as_ref(), &socket).expect("tmux is needed for this test");
        Self { project, tmux }
    }

    fn start(&self, worker: &WorkerName, argv: &[&str]) -> Result<Pane, TmuxError> {
        let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
        let folder = self.project.folder();
        let command = PaneCommand {
            argv: &argv,
            env: &[],
            folder: &folder,
        };
        self.tmux.start(&team(), worker, &command)
    }

    fn wait(&self, worker: &WorkerName, is: impl Fn(&Pane) -> bool) -> Pane {
        let found = poll(LONG, || {
            let pane = self.tmux.pane_of(&team(), worker).unwrap();
            pane.filter(&is)
        });
        found.unwrap_or_else(|| panic!("{:?}", self.tmux.panes()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for pane in self.tmux.panes().unwrap_or_default() {
            let _ = self.tmux.close_pane(&pane);
        }
        let _ = self.tmux.end_if_empty();
    }
}

/// Returns whether the exit of the pane is known: tmux may see the end of the output before that of the process.
fn is_judged(pane: &Pane) -> bool {
    pane.dead && (pane.status.is_some() || pane.signal.is_some())
}

fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_worker_is_the_process_of_its_pane_and_its_end_is_seen() {
    let server = Server::new();
    assert_eq!(server.tmux.panes().unwrap(), []);
    assert_eq!(server.tmux.server_pid().unwrap(), None);
    let pane = server.start(&worker(), &["sleep", "600"]).unwrap();
    assert!(!pane.dead);
    // tmux reports the process before it has executed the program.
    wait_until("no shell in between", || {
        let words = std::fs::read(format!("/proc/{}/cmdline", pane.pid));
        words.is_ok_and(|words| words == b"sleep\x00600\x00")
    });
    let taken = server.start(&worker(), &["sleep", "600"]).unwrap_err();
    assert!(matches!(taken, TmuxError::Taken { .. }), "{taken}");
    assert!(server.tmux.server_pid().unwrap().is_some());
    assert!(!server.tmux.end_if_empty().unwrap());

    let second: WorkerName = "w2".parse().unwrap();
    server.start(&second, &["sh", "-c", "exit 7"]).unwrap();
    let dead = server.wait(&second, is_judged);
    assert_eq!((dead.status, dead.signal), (Some(7), None));
    let third: WorkerName = "w3".parse().unwrap();
    server.start(&third, &["sh", "-c", "kill -9 $$"]).unwrap();
    let killed = server.wait(&third, is_judged);
    assert_eq!((killed.status, killed.signal), (None, Some(9)));
    let again = server.start(&second, &["sleep", "600"]).unwrap();
    assert_ne!(again.id, dead.id, "a dead one makes room");

    let attach = server.tmux.attach_command(&pane);
    assert_eq!(
        attach[1..3],
        [OsString::from("-S"), server.tmux.socket().into()]
    );
    assert_eq!(attach.last().unwrap(), "=fix-auth:=worker-1");
    server.tmux.close_pane(&pane).unwrap();
    wait_until("the worker is hung up on", || !is_alive(pane.pid));
    assert_eq!(server.tmux.pane_of(&team(), &worker()).unwrap(), None);
    assert!(is_alive(again.pid));
}

#[test]
fn words_variables_and_folders_arrive_byte_for_byte() {
    let server = Server::new();
    let folder = server
        .project
        .folder()
        .join("a b;'\"#{pid}#(touch x)$HOME\n%H");
    std::fs::create_dir(&folder).unwrap();
    let odd = [
        "plain",
        "",
        " ",
        "two words",
        ";",
        "a;",
        "a\\;",
        "\\",
        "'",
        "\"",
        "$HOME",
        "`id`",
        "#{pane_id}",
        "#(touch planted)",
        "new\nline",
        "tab\t",
        "-n",
        "--",
        "{",
        "}",
        "~",
        "%%",
        "*",
        "ünï→",
        "=",
    ];
    let out = server.project.folder().join("out");
    let script = format!(
        "{{ pwd; printf '%s\\0' \"$ODD\" \"$@\"; }} > '{0}.tmp'; mv '{0}.tmp' '{0}'",
        out.display()
    );
    let mut argv: Vec<OsString> = ["/bin/sh", "-c", &script, "sh"].map(OsString::from).into();
    argv.extend(odd.iter().map(OsString::from));
    let value = odd.join("|") + ";";
    let env = [("ODD".into(), OsString::from(&value))];
    let command = PaneCommand {
        argv: &argv,
        env: &env,
        folder: &folder,
    };
    server.tmux.start(&team(), &worker(), &command).unwrap();
    wait_until("the words arrive", || out.exists());
    let mut wanted = format!("{}\n{value}\0", folder.display());
    for word in odd {
        wanted.push_str(word);
        wanted.push('\0');
    }
    assert_eq!(std::fs::read_to_string(&out).unwrap(), wanted);
    assert!(!folder.join("planted").exists() && !folder.join("x").exists());
}

#[test]
fn a_program_with_a_strange_path_and_no_arguments_is_no_shell_line() {
    let server = Server::new();
    let program = server.project.folder().join("my prog; echo #{x}=1");
    let mark = server.project.folder().join("mark");
    std::fs::write(
        &program,
        format!("#!/bin/sh\necho $# > '{}'\n", mark.display()),
    )
    .unwrap();
    let made = std::process::Command::new("chmod")
        .arg("755")
        .arg(&program)
        .status();
    assert!(made.unwrap().success());
    server
        .start(&worker(), &[program.to_str().unwrap()])
        .unwrap();
    let dead = server.wait(&worker(), is_judged);
    assert_eq!(dead.status, Some(0));
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "0\n");
}

#[test]
fn a_killed_server_is_no_error_and_the_next_start_makes_a_new_one() {
    let server = Server::new();
    let first = server.start(&worker(), &["sleep", "600"]).unwrap();
    let pid = server.tmux.server_pid().unwrap().unwrap();
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(killed.unwrap().success());
    wait_until("the server ends", || !is_alive(pid));
    assert_eq!(server.tmux.panes().unwrap(), []);
    assert_eq!(server.tmux.server_pid().unwrap(), None);
    assert!(server.tmux.end_if_empty().unwrap());
    server.tmux.close_pane(&first).unwrap();
    let second = server.start(&worker(), &["sleep", "600"]).unwrap();
    assert_ne!(second.pid, first.pid);
    wait_until("the old worker is hung up on", || !is_alive(first.pid));
}

#[test]
fn what_a_worker_gets_is_not_seen_by_the_next() {
    let server = Server::new();
    let folder = server.project.folder();
    let show = |worker: &str, file: &str, env: &[(OsString, OsString)]| {
        let out = folder.join(file);
        let script = format!("env > '{0}.tmp'; mv '{0}.tmp' '{0}'", out.display());
        let argv: Vec<OsString> = ["/bin/sh", "-c", &script].map(OsString::from).into();
        let command = PaneCommand {
            argv: &argv,
            env,
            folder: &folder,
        };
        server
            .tmux
            .start(&team(), &worker.parse().unwrap(), &command)
            .unwrap();
        wait_until("the environment is written", || out.exists());
        std::fs::read_to_string(out).unwrap()
    };
    let secret = [("API_KEY".into(), "s3cret".into())];
    assert!(show("one", "first", &secret).contains("API_KEY=s3cret"));
    assert!(!show("two", "second", &[]).contains("s3cret"));
}

#[test]
fn eight_workers_start_at_once() {
    let server = Server::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let worker = format!("w{number}").parse().unwrap();
                server.start(&worker, &["sleep", "600"]).unwrap();
            });
        }
    });
    let panes = server.tmux.panes().unwrap();
    assert_eq!(panes.len(), 8, "{panes:?}");
    assert!(panes.iter().all(|pane| !pane.dead));
}

#[test]
fn without_tmux_or_with_a_socket_folder_that_is_a_link_that_is_said() {
    let project = TestProject::new();
    let socket = tmux_socket(&project.folder(), None);
    let none = Tmux::find("/nowhere".as_ref(), &socket).unwrap_err();
    assert!(matches!(none, TmuxError::NoProgram) && none.hint().contains("install"));
    std::os::unix::fs::symlink(project.home(), project.folder().join(".omc")).unwrap();
    let tmux = Tmux::find(PATH.as_ref(), &socket).unwrap();
    let argv = [OsString::from("true")];
    let command = PaneCommand {
        argv: &argv,
        env: &[],
        folder: Path::new("/"),
    };
    let refused = tmux.start(&team(), &worker(), &command).unwrap_err();
    assert!(matches!(refused, TmuxError::Folder(_)), "{refused}");
    let long: Vec<OsString> = vec!["x".repeat(20_000).into(), "y".into()];
    let server = Server::new();
    let folder: PathBuf = server.project.folder();
    let command = PaneCommand {
        argv: &long,
        env: &[],
        folder: &folder,
    };
    let refused = server.tmux.start(&team(), &worker(), &command).unwrap_err();
    assert!(matches!(refused, TmuxError::TooLong(_)), "{refused}");
}

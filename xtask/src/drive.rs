//! One run of a real client by its driver: to see that the command lines work and what the driver makes of them.
//!
//! ```text
//! cargo xtask drive claude "fix the typo" --worktree .
//! ```
//!
//! It starts exactly what the driver says, in the surroundings it is called in, prints each event as it comes and the
//! outcome at the end. The exit code is 0 for a run that is done.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use teamster_agents::{
    Driver, Ending, Exit, Input, Interrupt, Job, Launch, Permissions, Polite, Providers, Resume,
    Rule, Stopped,
};

/// After this long without an end a client that was interrupted is killed.
const GRACE: Duration = Duration::from_secs(20);

#[derive(Args, Debug)]
pub(crate) struct Drive {
    /// The provider: claude, codex, gemini, command:…, scripted:…
    provider: String,
    /// What the agent is told; `-` reads it from the standard input
    prompt: String,
    /// The folder it works in
    #[arg(long, default_value = ".")]
    worktree: PathBuf,
    /// The repository's `.git`, for a linked worktree
    #[arg(long)]
    git_dir: Option<PathBuf>,
    /// A folder for its temp files
    #[arg(long)]
    temp: Option<PathBuf>,
    /// Which model
    #[arg(long)]
    model: Option<String>,
    /// A session to go on with
    #[arg(long)]
    resume: Option<String>,
    /// Deny commands
    #[arg(long)]
    no_shell: bool,
    /// Interrupt it so many seconds after its first event
    #[arg(long, value_name = "SECONDS")]
    interrupt_after: Option<f64>,
}

enum Heard {
    Line(Vec<u8>),
    End,
}

impl Drive {
    pub(crate) fn run(&self) -> Result<()> {
        let worktree = self.worktree.canonicalize().context("the worktree")?;
        let driver = Providers::new(&std::env::current_dir()?)
            .find(&self.provider)?
            .driver();
        let permissions = Permissions {
            shell: if self.no_shell {
                Rule::Deny
            } else {
                Rule::Allow
            },
            ..Permissions::default()
        };
        let teamster = std::env::current_exe()?.with_file_name("teamster");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut prompt = self.prompt.clone();
        if prompt == "-" {
            prompt.clear();
            std::io::stdin().read_to_string(&mut prompt)?;
        }
        let job = Job {
            prompt: &prompt,
            worktree: &worktree,
            git_dir: self.git_dir.as_deref(),
            model: self.model.as_deref(),
            resume: self.resume.as_deref().map(|session| Resume {
                session,
                spent: None,
            }),
            permissions: &permissions,
            team: "drive",
            worker: "worker-1",
            task: None,
            temp: self.temp.as_deref(),
            path: &path,
            teamster: &teamster,
        };
        let launch = driver.launch(&job)?;
        println!("$ {}", launch.command_line());
        let (ending, stderr, reader) = self.watch(&*driver, &job, &launch)?;
        let outcome = reader.end(ending, &stderr);
        println!("{ending:?}");
        println!("{outcome:#?}");
        if !outcome.verdict.is_done() {
            bail!("it is not done");
        }
        Ok(())
    }

    fn watch(
        &self,
        driver: &dyn Driver,
        job: &Job<'_>,
        launch: &Launch,
    ) -> Result<(Ending, String, Box<dyn teamster_agents::Reader>)> {
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.args)
            .envs(launch.set.iter().cloned())
            .current_dir(job.worktree)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let names: Vec<String> = std::env::vars_os()
            .filter_map(|(name, _)| name.into_string().ok())
            .collect();
        for name in launch.withheld(names.iter().map(String::as_str)) {
            command.env_remove(name);
        }
        let mut child = command.spawn().context("starting it")?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let mut input = child.stdin.take();
        match &launch.input {
            Input::Nothing => input = None,
            Input::Text(text) => {
                feed(&mut input, text);
                input = None;
            }
            Input::Dialogue(line) => feed(&mut input, line),
        }
        let mut errors = child.stderr.take().context("its error stream")?;
        let stderr = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let heard = listen(child.stdout.take().context("its output")?);
        let mut reader = driver.reader(job);
        let (mut first, mut interrupted): (Option<Instant>, Option<Instant>) = (None, None);
        let start = Instant::now();
        loop {
            match heard.recv_timeout(Duration::from_millis(100)) {
                Ok(Heard::End) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Ok(Heard::Line(line)) => {
                    let step = reader.line(&line);
                    for event in &step.events {
                        println!("{:5.1} s  {event:?}", start.elapsed().as_secs_f64());
                    }
                    for reply in &step.replies {
                        feed(&mut input, reply);
                    }
                    if first.is_none() && !step.events.is_empty() {
                        first = Some(Instant::now());
                    }
                    if step.close_input {
                        input = None;
                    }
                }
            }
            let due = self.interrupt_after.zip(first);
            if interrupted.is_none()
                && due.is_some_and(|(after, first)| first.elapsed().as_secs_f64() > after)
            {
                interrupted = Some(Instant::now());
                interrupt(driver, pid, &mut input);
            }
            if interrupted.is_some_and(|at| at.elapsed() > GRACE) {
                println!("it does not obey");
                child.kill()?;
                break;
            }
        }
        drop(input);
        let status = child.wait()?;
        if let Some(at) = interrupted {
            println!(
                "it ended {:.1} s after the interrupt",
                at.elapsed().as_secs_f64()
            );
        }
        let ending = Ending {
            exit: exit(status),
            stopped: interrupted.map(|_| Stopped::Interrupted),
        };
        let stderr = stderr.join().unwrap_or_default();
        Ok((ending, stderr, reader))
    }
}

fn listen(output: impl std::io::Read + Send + 'static) -> mpsc::Receiver<Heard> {
    let (say, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            match lines.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    if say.send(Heard::Line(line)).is_err() {
                        break;
                    }
                }
            }
        }
        let _ = say.send(Heard::End);
    });
    heard
}

/// A client that has ended already reads nothing more; its end is reported elsewhere.
fn feed(input: &mut Option<ChildStdin>, bytes: &[u8]) {
    if let Some(input) = input {
        let _ = input.write_all(bytes).and_then(|()| input.flush());
    }
}

fn interrupt(driver: &dyn Driver, pid: Option<Pid>, input: &mut Option<ChildStdin>) {
    match (driver.interrupt(), pid) {
        (Interrupt::Line(line), _) => feed(input, &line),
        (Interrupt::Signal(Polite::Interrupt), Some(pid)) => {
            let _ = kill_process(pid, Signal::INT);
        }
        (Interrupt::Signal(Polite::Terminate), Some(pid)) => {
            let _ = kill_process(pid, Signal::TERM);
        }
        (Interrupt::Signal(_), None) => {}
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

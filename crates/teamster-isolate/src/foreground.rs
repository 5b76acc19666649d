//! A program of the user's choice at their terminal, such as an editor.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use teamster_fs::OrTrace as _;
use teamster_fs::proc::Machine;

use crate::child::wait_for;
use crate::process_tree::ProcessTree;
use crate::spawn::spawn;

/// How long the program may take to restore the terminal.
const GRACE: Duration = Duration::from_secs(2);

/// A program that controls the terminal of this process. The user decides when it ends.
#[derive(Debug)]
pub struct TerminalProgram {
    child: Child,
}

impl TerminalProgram {
    /// Starts the user's command line with a file as its last argument.
    ///
    /// The command line is run by the shell, as git does: it may contain arguments.
    pub fn start(command_line: &OsStr, file: &Path) -> io::Result<Self> {
        let mut script = command_line.to_owned();
        script.push(" \"$@\"");
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script).arg(command_line).arg(file);
        let child = spawn(&mut command)?;
        wait_for(child.id(), true);
        Ok(Self { child })
    }

    /// Waits for its end, and returns whether it succeeded.
    pub fn wait(&mut self) -> io::Result<bool> {
        let status = self.child.wait()?;
        wait_for(self.child.id(), false);
        Ok(status.success())
    }

    /// Returns whether it succeeded, or `None` while it runs.
    pub fn poll(&mut self) -> io::Result<Option<bool>> {
        let status = self.child.try_wait()?;
        if status.is_some() {
            wait_for(self.child.id(), false);
        }
        Ok(status.map(|status| status.success()))
    }

    /// Ends it and its descendants, because the terminal is needed for something else.
    pub fn end(&mut self) {
        if !matches!(self.poll(), Ok(None)) {
            return;
        }
        let machine = Machine::read();
        if let Some(root) = machine.process(self.child.id()) {
            ProcessTree::of_launch(&machine, "", Some(&root))
                .end(GRACE)
                .or_trace("end a program at the terminal");
        }
        self.wait().or_trace("wait for a program at the terminal");
    }
}

#[cfg(test)]
mod tests {
    use teamster_fs::processes;

    use super::*;
    use crate::terminate::terminate;

    fn ends_well(line: &OsStr, file: &Path) -> bool {
        TerminalProgram::start(line, file).unwrap().wait().unwrap()
    }

    #[test]
    fn command_line_gets_the_file_after_its_own_arguments() {
        let file =
            std::env::temp_dir().join(format!("teamster editor {}", teamster_fs::random_hex()));
        std::fs::write(&file, "a").unwrap();
        let copy = file.with_extension("copy");
        let mut line = std::ffi::OsString::from("f() { cp \"$2\" \"$1\"; }; f '");
        line.push(&copy);
        line.push("'");
        assert!(ends_well(&line, &file));
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), "a");
        assert!(!ends_well(OsStr::new("false"), &file));
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_file(&copy).unwrap();
    }

    #[test]
    fn program_that_is_ended_takes_along_what_it_is_starting() {
        let machine = Machine::read();
        let mark = teamster_fs::random_hex();
        // Whatever the second shell starts has the mark from its first moment on.
        let line = format!("exec env STARTED_BY={mark} sh -c 'sleep 1000 & sleep 1000; true'");
        let started = || {
            let all = processes::all(&machine).into_iter();
            let mut ids = all.filter(|seen| !seen.over).map(|seen| seen.id);
            ids.find(|id| processes::carries(id.pid, "STARTED_BY", &mark))
        };
        // The end comes at another moment of the start each time.
        for round in 0..40 {
            let line = OsStr::new(&line);
            let mut program = TerminalProgram::start(line, Path::new("nothing")).unwrap();
            assert_eq!(program.poll().unwrap(), None);
            std::thread::sleep(Duration::from_micros(100 * round));
            program.end();
            let left = started();
            if let Some(left) = &left {
                terminate(&machine, left, Duration::ZERO).unwrap();
            }
            assert_eq!(left, None, "round {round}");
        }
    }
}

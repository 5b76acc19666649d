//! A program of the person's own at their terminal, such as an editor.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::spawn::spawn;

/// Runs a command line of the person's own with a file as its last argument, at the terminal of this process, and waits for
/// its end: a person decides how long that takes. Returns whether it ended well.
///
/// The command line goes through the shell, as with git: it may have arguments of its own.
pub fn run_at_terminal(command_line: &OsStr, file: &Path) -> io::Result<bool> {
    let mut script = command_line.to_owned();
    script.push(" \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg(command_line).arg(file);
    Ok(spawn(&mut command)?.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_gets_the_file_after_its_own_arguments() {
        let file =
            std::env::temp_dir().join(format!("teamster editor {}", teamster_fs::random_hex()));
        std::fs::write(&file, "a").unwrap();
        let copy = file.with_extension("copy");
        let mut line = std::ffi::OsString::from("f() { cp \"$2\" \"$1\"; }; f '");
        line.push(&copy);
        line.push("'");
        assert!(run_at_terminal(&line, &file).unwrap());
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), "a");
        assert!(!run_at_terminal(OsStr::new("false"), &file).unwrap());
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_file(&copy).unwrap();
    }
}

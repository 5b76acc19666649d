//! Quoting of paths and names for a shell, safe to print to a terminal.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use teamster_types::shell;
use teamster_types::text::clean;

/// Quotes a path for a shell; its bytes need not be UTF-8.
fn path_word(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) => word(text),
        Err(_) => quoted_bytes(bytes),
    }
}

/// Quotes a text for a shell as a single word, in which characters that a terminal would not show are escaped.
pub fn word(text: &str) -> String {
    let is_visible = !text.contains(char::is_control) && clean(text, usize::MAX) == text;
    if is_visible {
        return shell::word(text);
    }
    quoted_bytes(text.as_bytes())
}

fn quoted_bytes(bytes: &[u8]) -> String {
    let mut word = String::from("$'");
    for byte in bytes {
        match byte {
            b'\'' | b'\\' => word.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => word.push(char::from(*byte)),
            other => {
                let _ = write!(word, "\\x{other:02x}");
            }
        }
    }
    word.push('\'');
    word
}

/// Returns a name as text, with bytes that are not UTF-8 escaped as `\xff`.
pub fn readable(name: &OsStr) -> String {
    let mut text = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Returns the shell command that removes files and folders.
pub(crate) fn remove(paths: &[&Path]) -> String {
    paths.iter().fold("rm -r --".to_owned(), |mut line, path| {
        let _ = write!(line, " {}", path_word(path));
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "only a shell can tell")]
    fn a_shell_reads_every_word_as_it_was() {
        let odd = [
            "plain-1.x",
            "",
            "with space",
            "it's",
            "$(touch x)",
            "고치다",
            "esc\u{1b}[31m'\\ bidi\u{202e}\nend",
            "-rf",
        ];
        for text in odd {
            let word = word(text);
            assert!(!word.contains(['\u{1b}', '\u{202e}', '\n']), "{word}");
            let line = format!("printf %s {word}x");
            let said = std::process::Command::new("bash")
                .args(["-c", &line])
                .output();
            assert_eq!(
                String::from_utf8(said.unwrap().stdout).unwrap(),
                format!("{text}x")
            );
        }
        assert_eq!(
            remove(&[Path::new("/a b"), Path::new("/c")]),
            "rm -r -- '/a b' /c"
        );
    }
}

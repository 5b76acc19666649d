//! Keeps teamster's folders out of `git status` without starting a git process: hooks create such folders while the
//! client waits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::dir::Dir;
use crate::error::FsError;
use crate::layout::{GITIGNORE, git_exclude};
use crate::user_file::UserFile;

/// The comment line above the added patterns.
const HEADING: &str = "# teamster: the state of its sessions and runs";
/// How long to wait for another teamster process that is writing the file.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often the update is retried when another program changes the file meanwhile.
const TRIES: usize = 5;
/// The mode of a new exclude file, restricted by the umask.
const SHARED: u32 = 0o666;

/// Adds `patterns` to `.git/info/exclude` of the work tree that contains `project`, except those that this file or the
/// project's `.gitignore` already mentions. Does nothing outside a work tree. Returns whether a pattern was added.
pub fn exclude_from_git(project: &Path, patterns: &[&str]) -> Result<bool, FsError> {
    let Some(path) = exclude_of(project) else {
        return Ok(false);
    };
    if let Some(info) = path.parent()
        && let Some(repository) = info.parent().map(Dir::open_root).transpose()?.flatten()
        && repository.stamp("info")?.is_none()
    {
        repository.shared_child_or_create("info")?;
    }
    let Some(file) = UserFile::find(&path)? else {
        return Ok(false);
    };
    // The target of a symbolic link may be shared with other repositories.
    if file.is_link() {
        return Ok(false);
    }
    let ignored = Dir::open_root(project)?.map(|dir| dir.read(GITIGNORE));
    let ignored = ignored.transpose().ok().flatten().flatten();
    let ignored = ignored.map(|(bytes, _)| bytes).unwrap_or_default();
    let Some(_held) = file.lock(PATIENCE)? else {
        return Ok(false);
    };
    for _ in 0..TRIES {
        let was = file.read()?;
        let old = was.as_ref().map(|was| was.bytes.as_slice());
        let old = old.unwrap_or_default();
        let is_missing = |pattern: &&str| !(mentions(old, pattern) || mentions(&ignored, pattern));
        let missing: Vec<&str> = patterns.iter().copied().filter(is_missing).collect();
        if missing.is_empty() || was.as_ref().is_some_and(|was| !was.can_keep_owner()) {
            return Ok(false);
        }
        if file.replace(was.as_ref(), &with_lines(old, HEADING, &missing), SHARED)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the exclude file of the work tree around a folder; `None` where `.git` is not a repository.
fn exclude_of(project: &Path) -> Option<PathBuf> {
    let tree = project
        .ancestors()
        .find(|folder| folder.join(".git").exists())?;
    let path = git_exclude(tree)?;
    let repository = path.parent()?.parent()?;
    repository.join("HEAD").exists().then_some(path)
}

/// Returns whether a list of patterns mentions a folder, with or without a slash, as a pattern or its negation.
fn mentions(list: &[u8], folder: &str) -> bool {
    let bare = folder.trim_matches('/');
    let list = String::from_utf8_lossy(list);
    list.lines().any(|line| {
        let line = line.trim();
        let line = line.strip_prefix('!').unwrap_or(line);
        let line = line.strip_prefix("**/").unwrap_or(line);
        let line = line.strip_suffix("/**").unwrap_or(line);
        line.strip_suffix("/*").unwrap_or(line).trim_matches('/') == bare
    })
}

/// Returns a text with a heading and `lines` appended, in the text's own line-ending style.
pub fn with_lines(old: &[u8], heading: &str, lines: &[&str]) -> Vec<u8> {
    let crlf = old.windows(2).any(|two| two == b"\r\n");
    let newline: &[u8] = if crlf { b"\r\n" } else { b"\n" };
    let mut new = old.to_vec();
    if !old.is_empty() && !old.ends_with(b"\n") {
        new.extend(newline);
    }
    for line in [heading].iter().chain(lines) {
        new.extend(line.as_bytes());
        new.extend(newline);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_of_the_user_counts_in_any_form() {
        for list in [
            ".bkit",
            "/.bkit/",
            "**/.bkit/**",
            "!.bkit/",
            "x\r\n .bkit/* \r\n",
        ] {
            assert!(mentions(list.as_bytes(), ".bkit/"), "{list}");
        }
        for list in ["", "bkit/", ".bkit-old/", "# .bkit/ is ours"] {
            assert!(!mentions(list.as_bytes(), ".bkit/"), "{list}");
        }
    }

    #[test]
    fn lines_are_added_in_the_line_ends_of_the_file() {
        let text =
            |old: &str| String::from_utf8(with_lines(old.as_bytes(), HEADING, &[".x/"])).unwrap();
        assert_eq!(text(""), format!("{HEADING}\n.x/\n"));
        assert_eq!(text("a"), format!("a\n{HEADING}\n.x/\n"));
        assert_eq!(text("a\r\n"), format!("a\r\n{HEADING}\r\n.x/\r\n"));
    }
}

//! The lines of teamster in a file such as `.gitignore`: added once below a heading, and exactly these removed again.

/// The heading by which the added lines are recognized.
pub const HEADING: &str = "# teamster (added by `teamster install claude`)";

/// Folders that contain the state of a session and not the work.
pub const FOLDERS: [&str; 3] = teamster_fs::layout::OUR_FOLDERS;

/// What to do with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileEdit {
    /// It stays unchanged.
    Nothing,
    /// It is replaced by this text.
    Write(String),
    /// It was created by teamster and contains nothing else, so it is removed.
    Remove,
}

/// Returns the text with the missing ones of `lines` appended, in its own line-ending style; a last line without a
/// newline stays without one. `None` means a missing file.
pub(super) fn add_lines(text: Option<&str>, lines: &[&str]) -> FileEdit {
    let old = text.unwrap_or_default();
    if old.lines().any(|line| line.trim_end() == HEADING) {
        return FileEdit::Nothing;
    }
    let missing: Vec<&str> = lines
        .iter()
        .filter(|line| !has(old, line))
        .copied()
        .collect();
    if missing.is_empty() {
        return FileEdit::Nothing;
    }
    let newline = if old.contains("\r\n") { "\r\n" } else { "\n" };
    let mut new = old.to_owned();
    if !old.is_empty() && !old.ends_with('\n') {
        new.push_str(newline);
    }
    new.push_str(HEADING);
    for line in missing {
        new.push_str(newline);
        new.push_str(line);
    }
    if text.is_none() || old.ends_with('\n') {
        new.push_str(newline);
    }
    FileEdit::Write(new)
}

/// Returns the text without the heading and those of `lines` directly below it.
pub(super) fn remove_lines(text: Option<&str>, lines: &[&str]) -> FileEdit {
    let text = text.unwrap_or_default();
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(start) = all.iter().position(|line| line.trim_end() == HEADING) else {
        return FileEdit::Nothing;
    };
    let ours = all[start + 1..]
        .iter()
        .take_while(|line| lines.contains(&line.trim_end()))
        .count();
    let end = start + 1 + ours;
    let mut left: String = all[..start].concat();
    left.push_str(&all[end..].concat());
    let had_end = all[end - 1].ends_with('\n');
    if !had_end {
        // The newline before the heading was added, too: the text ended without one.
        let trimmed = left.strip_suffix('\n').unwrap_or(&left);
        let trimmed = trimmed.strip_suffix('\r').unwrap_or(trimmed);
        left.truncate(trimmed.len());
    }
    if left.is_empty() && had_end {
        FileEdit::Remove
    } else {
        FileEdit::Write(left)
    }
}

/// Returns whether the text already mentions a pattern, with or without a slash, as a pattern or its negation.
fn has(text: &str, pattern: &str) -> bool {
    let bare = pattern.trim_matches('/');
    text.lines().any(|line| {
        let line = line.trim();
        let line = line.strip_prefix('!').unwrap_or(line);
        let line = line.strip_prefix("**/").unwrap_or(line);
        let line = line.strip_suffix("/**").unwrap_or(line);
        line.strip_suffix("/*").unwrap_or(line).trim_matches('/') == bare
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(change: FileEdit) -> String {
        match change {
            FileEdit::Write(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_put_in_can_be_taken_out_to_the_byte() {
        for text in [
            None,
            Some(""),
            Some("\n"),
            Some("target"),
            Some("target\n"),
            Some("target\r\nnode_modules\r\n"),
            Some("target\r\nnode_modules"),
            Some(".omc\n!/.party/\n"),
            Some("\n\n# x\n\n"),
        ] {
            let new = written(add_lines(text, &FOLDERS));
            let again = add_lines(Some(&new), &FOLDERS);
            assert_eq!(again, FileEdit::Nothing, "{text:?}: once");
            let back = match remove_lines(Some(&new), &FOLDERS) {
                FileEdit::Remove => None,
                change => Some(written(change)),
            };
            assert_eq!(back.as_deref(), text, "{new:?}");
        }
    }

    #[test]
    fn the_users_own_lines_stay() {
        for has_all in [
            ".bkit/\n.omc/\n.party/\n",
            ".bkit\n/.omc/\n**/.party/**",
            ".bkit/*\n!.omc/\n.party",
        ] {
            assert_eq!(add_lines(Some(has_all), &FOLDERS), FileEdit::Nothing);
            assert_eq!(remove_lines(Some(has_all), &FOLDERS), FileEdit::Nothing);
        }
        let edited = format!("a\n{HEADING}\n.bkit/\n.omc/\nmine\n.party/\n");
        let left = written(remove_lines(Some(&edited), &FOLDERS));
        assert_eq!(left, "a\nmine\n.party/\n");
        let new = written(add_lines(Some("a\r\n.omc"), &FOLDERS));
        assert_eq!(new, format!("a\r\n.omc\r\n{HEADING}\r\n.bkit/\r\n.party/"));
    }
}

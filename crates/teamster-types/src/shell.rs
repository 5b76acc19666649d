//! Quoting of words for a POSIX shell.

/// Returns a text as a single shell word. A word without special characters is not quoted.
///
/// An option may contain an equals sign. Any other word with one is quoted, because a shell could read it as an
/// assignment.
pub fn word(text: &str) -> String {
    let is_option = text.starts_with('-');
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || "-_./:,@+%".contains(c) || (c == '=' && is_option);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_with_special_characters_is_quoted() {
        for plain in [
            "/opt/a-b_c/teamster",
            "--format=%H",
            "main..work",
            "a:b,c@d+e",
        ] {
            assert_eq!(word(plain), plain);
        }
        let quoted = [
            "",
            "A=b",
            "a b",
            "~",
            "*.rs",
            "$HOME",
            "a|b",
            "고치다",
            "a\nb",
        ];
        for text in quoted {
            assert_eq!(word(text), format!("'{text}'"));
        }
        assert_eq!(word("/o'b $x"), r"'/o'\''b $x'");
    }
}

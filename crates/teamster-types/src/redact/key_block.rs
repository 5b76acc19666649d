//! Private keys between `-----BEGIN … PRIVATE KEY-----` and `-----END …-----`.

use super::scan::ScanSegment;

/// The maximum length of a private key, in bytes: an end marker further away belongs to something else.
const LONGEST: usize = 32 * 1024;
const RULE: &str = "-----";

/// Returns the end of the private key whose block begins at `at`, if one does.
pub(super) fn find(segment: &ScanSegment<'_>, at: usize) -> Option<usize> {
    if !segment.has(at, "-----BEGIN ") {
        return None;
    }
    let label = at + RULE.len();
    let body = marker_end(segment, label)?;
    if !segment.text(label..body).contains("PRIVATE KEY") {
        return None;
    }
    Some(closed_end(segment, body).unwrap_or_else(|| torn_end(segment, body)))
}

/// Returns the end of the dashes that close a marker, whose label begins at `label`.
fn marker_end(segment: &ScanSegment<'_>, label: usize) -> Option<usize> {
    let rule = segment.while_at(label, 64, |byte| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
    });
    segment.has(rule, RULE).then_some(rule + RULE.len())
}

/// Returns the end of a complete block. The search stops at the next begin marker, where it would start again.
fn closed_end(segment: &ScanSegment<'_>, body: usize) -> Option<usize> {
    let mut at = body;
    while at - body < LONGEST {
        if segment.at(at)? == b'-' {
            if segment.has(at, "-----END ") {
                return marker_end(segment, at + RULE.len());
            }
            if segment.has(at, "-----BEGIN ") {
                return None;
            }
        }
        at += 1;
    }
    None
}

/// Returns the end of a truncated block: after the last line that can be part of a key.
///
/// Lines may end with a line feed or with the two characters `\n`, and may be numbered, quoted or marked as in a diff.
fn torn_end(segment: &ScanSegment<'_>, body: usize) -> usize {
    let mut end = body;
    let mut at = body;
    while let Some(line) = next_line(segment, at) {
        let start = skip_listing(segment, line);
        at = base64_end(segment, start);
        let length = at - start;
        if let Some(attribute) = attribute_end(segment, start) {
            at = attribute;
        } else if length > 0 {
            // A short line is the last one, unless it is a made-up key in a test.
            let is_likely = length >= 16 || end == body || segment.at(at).is_none();
            if !is_likely || !is_line_end(segment, at) {
                break;
            }
            end = at;
        }
    }
    end
}

/// Returns whether the text at `at` can follow a line of a key, complete or truncated.
fn is_line_end(segment: &ScanSegment<'_>, at: usize) -> bool {
    if next_line(segment, at).is_some() || segment.has(at, "...") || segment.has(at, "…") {
        return true;
    }
    match segment.at(at) {
        None | Some(b'\\') => true,
        // Only a closing quote counts: `NAME=` looks like a line of a key, too.
        Some(b'"' | b'\'' | b'`') => matches!(
            segment.at(at + 1),
            None | Some(..=b' ' | b',' | b';' | b':' | b')' | b']' | b'}' | b'\\')
        ),
        Some(_) => false,
    }
}

/// Returns the beginning of the next line, if nothing but closing characters is left on this one.
fn next_line(segment: &ScanSegment<'_>, from: usize) -> Option<usize> {
    let at = segment.while_at(from, 8, |byte| {
        matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b',' | b'+')
    });
    ["\n", "\r\n", "\\n", "\\r\\n"]
        .iter()
        .find(|ending| segment.has(at, ending))
        .map(|ending| at + ending.len())
}

/// Returns the end of a line such as `Proc-Type: 4,ENCRYPTED`.
fn attribute_end(segment: &ScanSegment<'_>, start: usize) -> Option<usize> {
    let known = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:"];
    let is_known = known.iter().any(|name| segment.has(start, name));
    is_known.then(|| {
        segment.while_at(start, 128, |byte| {
            !matches!(byte, b'\n' | b'\r' | b'\\' | b'"')
        })
    })
}

/// Skips the prefix of a line in a listing, a diff or source code: `  12→`, `+`, `> `, `"`.
fn skip_listing(segment: &ScanSegment<'_>, line: usize) -> usize {
    let is_mark = |byte| {
        matches!(
            byte,
            b' ' | b'\t' | b'+' | b'-' | b'>' | b'|' | b'"' | b'\'' | b'#' | b'*'
        )
    };
    let number = segment.while_at(line, 32, is_mark);
    let behind = segment.while_at(number, 6, |byte| byte.is_ascii_digit());
    let divider = ["→", "\t", "|", ":", " "]
        .iter()
        .find(|divider| behind > number && segment.has(behind, divider));
    match divider {
        Some(divider) => segment.while_at(behind + divider.len(), 32, is_mark),
        None => number,
    }
}

fn base64_end(segment: &ScanSegment<'_>, start: usize) -> usize {
    let padding = segment.while_at(start, usize::MAX, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
    });
    segment.while_at(padding, 2, |byte| byte == b'=')
}

#[cfg(test)]
mod tests {
    use crate::redact::MASK;
    use crate::redact::tests::{assert_shown, assert_stays};

    const KEY_LINES: &str = "MIIEowIBAAKCAQEAaB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJaB3dE5gH7j\nK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ+/==";

    fn key(label: &str, body: &str) -> String {
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----")
    }

    #[test]
    fn private_keys_go_as_a_block() {
        for label in [
            "PRIVATE KEY",
            "RSA PRIVATE KEY",
            "EC PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
            "ENCRYPTED PRIVATE KEY",
            "PGP PRIVATE KEY BLOCK",
        ] {
            let block = key(label, KEY_LINES);
            assert_shown(&format!("a\n{block}\nb"), "a\n[redacted]\nb");
            assert_shown(&format!("-{block}"), "-[redacted]");
            let escaped = block.replace('\n', "\\n");
            assert_shown(
                &format!("{{\"key\":\"{escaped}\\n\",\"n\":1}}"),
                "{\"key\":\"[redacted]\\n\",\"n\":1}",
            );
        }
        let with_attributes = key(
            "RSA PRIVATE KEY",
            &format!("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n{KEY_LINES}"),
        );
        assert_shown(&with_attributes, MASK);
        assert_shown(&key("PRIVATE KEY", "any thing at all\n...\n한"), MASK);
        let beside = "-----BEGIN PRIVATE KEY-----\nPASSWORD=\"hunter22\"\nhttps://u:p@h";
        assert_shown(
            beside,
            "[redacted]\nPASSWORD=\"[redacted]\"\nhttps://[redacted]@h",
        );
        let two = format!(
            "{}\n{}",
            key("PRIVATE KEY", "abc"),
            key("PRIVATE KEY", "def")
        );
        assert_shown(&two, "[redacted]\n[redacted]");
    }

    #[test]
    fn a_private_key_that_was_cut_off_goes_as_far_as_it_reaches() {
        let torn = format!("-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}");
        assert_shown(&torn, MASK);
        assert_shown(
            &format!("{torn}\nand so on, with words"),
            "[redacted]\nand so on, with words",
        );
        assert_shown(&torn.replace('\n', "\r\n"), MASK);
        let escaped = torn.replace('\n', "\\n");
        assert_shown(
            &format!("{{\"key\":\"{escaped}\",\"next\":\"value\"}}"),
            "{\"key\":\"[redacted]\",\"next\":\"value\"}",
        );
        assert_shown("-----BEGIN PRIVATE KEY-----\nMIIEcanary", MASK);
        assert_shown("-----BEGIN PRIVATE KEY-----", MASK);
        let listed = torn.replace('\n', "\n    12→");
        assert_shown(
            &format!("    11→{listed}\n    13→\n"),
            "    11→[redacted]\n    13→\n",
        );
        assert_shown(&torn.replace('\n', "\n+"), MASK);
        assert_shown(&torn.replace('\n', "\n> "), MASK);
        assert_shown(&torn.replace('\n', "\\n\" +\n  \""), MASK);
        let attributes = torn.replacen('\n', "\nProc-Type: 4,ENCRYPTED\n\n", 1);
        assert_shown(&attributes, MASK);
        let again = format!("{torn}\nprose here\n{torn}");
        assert_shown(&again, "[redacted]\nprose here\n[redacted]");
    }

    #[test]
    fn other_blocks_stay() {
        assert_stays(&key("CERTIFICATE", KEY_LINES));
        assert_stays(&key("PUBLIC KEY", KEY_LINES));
        assert_stays("-----BEGIN PRIVATE KEY");
        assert_stays("-----BEGIN ");
        assert_stays("----------------");
    }
}

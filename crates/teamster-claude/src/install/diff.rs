//! The changes in a text, in the format of `diff -u`.

use std::fmt::Write as _;

use similar::algorithms::{Capture, Replace, lcs, myers};
use similar::udiff::UnifiedHunkHeader;

/// Lines shown around a change.
const AROUND: usize = 3;
/// The limit for the number of line comparisons, beyond which too much memory would be needed; settings are far
/// smaller.
const MOST: usize = 4_000_000;

/// Returns the difference between two texts of the file `name`, where `None` means no file; empty when they are equal.
pub fn diff(name: &str, old: Option<&str>, new: Option<&str>) -> String {
    if old == new {
        return String::new();
    }
    let mut shown = String::new();
    let title = |text: Option<&str>| if text.is_some() { name } else { "/dev/null" };
    let _ = writeln!(shown, "--- {}\n+++ {}", title(old), title(new));
    let old: Vec<&str> = old.unwrap_or_default().split_inclusive('\n').collect();
    let new: Vec<&str> = new.unwrap_or_default().split_inclusive('\n').collect();
    let (all_old, all_new) = (0..old.len(), 0..new.len());
    // Without the crate's own clean-up, which moves a change among equal lines: a change is shown where it was made.
    let mut steps = Replace::new(Capture::new());
    let found = if old.len().saturating_mul(new.len()) > MOST {
        myers::diff(&mut steps, &old[..], all_old, &new[..], all_new)
    } else {
        lcs::diff_deadline_raw(&mut steps, &old[..], all_old, &new[..], all_new, None)
    };
    match found {
        Ok(()) => {}
    }
    for hunk in steps.into_inner().into_grouped_ops(AROUND) {
        let _ = writeln!(shown, "{}", UnifiedHunkHeader::new(&hunk));
        for change in hunk
            .iter()
            .flat_map(|op| op.iter_changes(&old[..], &new[..]))
        {
            let line = change.value();
            let _ = write!(shown, "{}{line}", change.tag());
            if !line.ends_with('\n') {
                shown.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_like_diff_u() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n13\n";
        insta::assert_snapshot!(diff("f", Some(old), Some(new)), @r"
        --- f
        +++ f
        @@ -2,11 +2,12 @@
         2
         3
         4
        -5
        +five
         6
         7
         8
         9
         10
         11
        -12
        \ No newline at end of file
        +12
        +13
        ");
        insta::assert_snapshot!(diff("f", None, Some("{}\n")), @r"
        --- /dev/null
        +++ f
        @@ -0,0 +1 @@
        +{}
        ");
        assert_eq!(diff("f", Some(old), Some(old)), "");
    }

    /// Compares with the output of the earlier table-based implementation, for typical settings.
    #[test]
    fn changes_among_equal_lines_stay_where_they_were_made() {
        let lines = "{\n}\n{\n}\n{\n}\n";
        insta::assert_snapshot!(diff("f", Some(lines), Some("{\n}\n{\n}\n{\n}\n{\n}\n")), @r"
        --- f
        +++ f
        @@ -4,3 +4,5 @@
         }
         {
         }
        +{
        +}
        ");
        insta::assert_snapshot!(diff("f", Some(lines), Some("}\n{\n{\n}\n}\n")), @r"
        --- f
        +++ f
        @@ -1,6 +1,5 @@
        -{
         }
         {
        -}
         {
        +}
         }
        ");
        insta::assert_snapshot!(diff("f", Some("a\nb\nc\n"), Some("c\na\nb")), @r"
        --- f
        +++ f
        @@ -1,3 +1,3 @@
        -a
        -b
         c
        +a
        +b
        \ No newline at end of file
        ");
        insta::assert_snapshot!(diff("f", Some("{\r\n}\r\n"), Some("{\n}\n")), @r"
        --- f
        +++ f
        @@ -1,2 +1,2 @@
        -{
        -}
        +{
        +}
        ");
        assert_eq!(
            diff("f", Some("a\rb\n"), Some("a\rc\n")),
            "--- f\n+++ f\n@@ -1 +1 @@\n-a\rb\n+a\rc\n"
        );
        insta::assert_snapshot!(diff("f", Some("{}\n"), None), @r"
        --- f
        +++ /dev/null
        @@ -1 +0,0 @@
        -{}
        ");
        insta::assert_snapshot!(diff("f", Some(""), Some("\n")), @r"
        --- f
        +++ f
        @@ -0,0 +1 @@
        +
        ");
    }

    #[test]
    fn changes_that_are_near_share_a_hunk() {
        let lines: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let far = lines.join("\n") + "\n";
        let two = far.replacen("2\n", "two\n", 1).replace("\n9\n", "\nnine\n");
        insta::assert_snapshot!(diff("f", Some(&far), Some(&two)), @r"
        --- f
        +++ f
        @@ -1,13 +1,13 @@
         0
         1
        -2
        +two
         3
         4
         5
         6
         7
         8
        -9
        +nine
         10
         11
         12
        ");
        let apart = far.replacen("2\n", "two\n", 1).replace("\n10\n", "\nten\n");
        insta::assert_snapshot!(diff("f", Some(&far), Some(&apart)), @r"
        --- f
        +++ f
        @@ -1,6 +1,6 @@
         0
         1
        -2
        +two
         3
         4
         5
        @@ -8,7 +8,7 @@
         7
         8
         9
        -10
        +ten
         11
         12
         13
        ");
    }
}

//! What changes in a text, as people know it from `diff -u`.

use std::fmt::Write as _;

/// Lines shown around a change.
const AROUND: usize = 3;
/// Beyond this many comparisons the middle is shown as replaced; settings are far smaller.
const MOST: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// The difference between two texts of the file `name`, where `None` is no file; empty when there is none.
pub fn diff(name: &str, old: Option<&str>, new: Option<&str>) -> String {
    if old == new {
        return String::new();
    }
    let mut shown = String::new();
    let title = |text: Option<&str>| if text.is_some() { name } else { "/dev/null" };
    let _ = writeln!(shown, "--- {}\n+++ {}", title(old), title(new));
    let old: Vec<&str> = old.unwrap_or_default().split_inclusive('\n').collect();
    let new: Vec<&str> = new.unwrap_or_default().split_inclusive('\n').collect();
    let steps = steps(&old, &new);
    for hunk in hunks(&steps) {
        write_hunk(&steps, hunk, &mut shown);
    }
    shown
}

fn steps<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Step<'a>> {
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let after = old[before..]
        .iter()
        .rev()
        .zip(new[before..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (head, old, tail) = split(old, before, after);
    let (_, new, _) = split(new, before, after);
    let mut steps: Vec<Step<'a>> = head.iter().map(|line| Step::Same(line)).collect();
    middle(old, new, &mut steps);
    steps.extend(tail.iter().map(|line| Step::Same(line)));
    steps
}

fn split<'a, 'b>(
    lines: &'b [&'a str],
    before: usize,
    after: usize,
) -> (&'b [&'a str], &'b [&'a str], &'b [&'a str]) {
    let (head, rest) = lines.split_at(before);
    let (middle, tail) = rest.split_at(rest.len() - after);
    (head, middle, tail)
}

/// The longest run of common lines, by the table that every textbook has.
fn middle<'a>(old: &[&'a str], new: &[&'a str], steps: &mut Vec<Step<'a>>) {
    if old.len().saturating_mul(new.len()) > MOST {
        steps.extend(old.iter().map(|line| Step::Gone(line)));
        steps.extend(new.iter().map(|line| Step::New(line)));
        return;
    }
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            steps.push(Step::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            steps.push(Step::Gone(old[i]));
            i += 1;
        } else {
            steps.push(Step::New(new[j]));
            j += 1;
        }
    }
}

/// The ranges of steps that are shown.
fn hunks(steps: &[Step<'_>]) -> Vec<std::ops::Range<usize>> {
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if matches!(step, Step::Same(_)) {
            continue;
        }
        let shown = at.saturating_sub(AROUND)..(at + AROUND + 1).min(steps.len());
        match hunks.last_mut() {
            Some(last) if shown.start <= last.end => last.end = shown.end,
            _ => hunks.push(shown),
        }
    }
    hunks
}

fn write_hunk(steps: &[Step<'_>], hunk: std::ops::Range<usize>, shown: &mut String) {
    let count = |steps: &[Step<'_>], side: fn(&Step<'_>) -> bool| {
        steps.iter().filter(|step| side(step)).count()
    };
    let is_old: fn(&Step<'_>) -> bool = |step| !matches!(step, Step::New(_));
    let is_new: fn(&Step<'_>) -> bool = |step| !matches!(step, Step::Gone(_));
    let place = |side: fn(&Step<'_>) -> bool| {
        let length = count(&steps[hunk.clone()], side);
        let before = count(&steps[..hunk.start], side);
        // An empty side is said to stand behind the line before it.
        let start = if length == 0 { before } else { before + 1 };
        if length == 1 {
            start.to_string()
        } else {
            format!("{start},{length}")
        }
    };
    let _ = writeln!(shown, "@@ -{} +{} @@", place(is_old), place(is_new));
    for step in &steps[hunk.clone()] {
        let (mark, line) = match step {
            Step::Same(line) => (' ', line),
            Step::Gone(line) => ('-', line),
            Step::New(line) => ('+', line),
        };
        let _ = write!(shown, "{mark}{line}");
        if !line.ends_with('\n') {
            shown.push_str("\n\\ No newline at end of file\n");
        }
    }
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

    /// The answers of the table of common lines that stood here before, for what settings are made of.
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
        let far: String = (0..20).map(|n| format!("{n}\n")).collect();
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

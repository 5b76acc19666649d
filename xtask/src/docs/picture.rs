//! A picture of a real run of `teamster demo`, as a terminal shows it.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::product::{Answer, Place, Product, workspace};

const FILE: &str = "docs/demo.svg";
/// As wide as many a terminal.
const COLUMNS: usize = 104;
const LINE: usize = 19;
const MARGIN: usize = 18;
/// Of a letter, in tenths.
const WIDTH: usize = 84;

/// Runs the demo and draws what it printed.
pub(crate) fn draw(product: &Product) -> Result<PathBuf> {
    let place = Place::temporary()?;
    let bin = place.root().join("bin");
    std::fs::create_dir_all(&bin)?;
    std::os::unix::fs::symlink(&product.binary, bin.join("teamster"))?;
    let mut path = vec![bin];
    path.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let mut command = product.command(&place, ["demo"]);
    // The picture shows where it was made, so that is where anybody's would be.
    command
        .env("PATH", std::env::join_paths(path)?)
        .env("TMPDIR", "/tmp");
    let answer = Answer::of(&mut command)?;
    if !answer.status.success() {
        bail!("the demo failed: {}", answer.said());
    }
    let made = answer
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("A till whose tests fail is in "))
        .and_then(|project| project.strip_suffix("/project"))
        .context("the demo does not say where it is")?;
    let folder = PathBuf::from(made);
    let svg = svg(&shown(&answer.stdout));
    std::fs::remove_dir_all(folder)?;
    let file = workspace().join(FILE);
    std::fs::write(&file, svg).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// What fits into a picture: not all that a person is shown at the gate, and not what the checks print.
fn shown(printed: &str) -> Vec<String> {
    let mut lines = vec!["$ teamster demo".to_owned()];
    let mut is_gate = false;
    for line in printed.lines() {
        if line.starts_with("Team demo asks for approval") {
            lines.push(line.to_owned());
            lines.push("…".to_owned());
            is_gate = true;
        }
        is_gate = is_gate && !is_moment(line);
        if is_gate || line.starts_with("        |") {
            continue;
        }
        lines.extend(wrapped(line));
    }
    lines
}

fn wrapped(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = lines.last().map_or(0, |last| last.chars().count());
        if last > 0 && last + word.trim_end().chars().count() > COLUMNS {
            lines.push("    ".to_owned());
        }
        if let Some(last) = lines.last_mut() {
            last.push_str(word);
        }
    }
    lines
}

/// Whether a line begins with the time of day.
fn is_moment(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.len() > 9 && bytes[2] == b':' && bytes[5] == b':' && bytes[0].is_ascii_digit()
}

fn svg(lines: &[String]) -> String {
    let width = COLUMNS * WIDTH / 10 + 2 * MARGIN;
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>teamster demo, a real run</title>\n\
         <desc>drawn by `cargo xtask docs --picture`</desc>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"#161b22\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\" fill=\"#d0d7de\">\n"
    );
    for (number, line) in lines.iter().enumerate() {
        let y = MARGIN + (number + 1) * LINE - 5;
        let (time, rest) = if is_moment(line) {
            line.split_at(8)
        } else {
            ("", line.as_str())
        };
        let _ = write!(
            text,
            "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">"
        );
        if !time.is_empty() {
            let _ = write!(text, "<tspan fill=\"#7d8590\">{time}</tspan>");
        }
        let _ = writeln!(
            text,
            "<tspan fill=\"{}\">{}</tspan></text>",
            colour(rest),
            escaped(rest)
        );
    }
    text + "</g>\n</svg>\n"
}

fn colour(line: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
    if has(&["FAILED"]) {
        "#ff7b72"
    } else if has(&["conflicts with"]) {
        "#e3b341"
    } else if has(&["passed", "complete", "approved"]) {
        "#7ee787"
    } else if has(&["stage:", "$ teamster", "asks for approval"]) {
        "#79c0ff"
    } else {
        "#d0d7de"
    }
}

fn escaped(line: &str) -> String {
    line.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_the_story_and_no_markup_of_its_own() {
        let printed = "A <till>\n12:00:00  FAILED x\n        | output\nTeam demo asks for approval of commit 1.\n\nPlan\n\
                       12:00:01  approved: 1\n";
        let lines = shown(printed);
        assert_eq!(
            lines,
            [
                "$ teamster demo",
                "A <till>",
                "12:00:00  FAILED x",
                "Team demo asks for approval of commit 1.",
                "…",
                "12:00:01  approved: 1"
            ]
        );
        let svg = svg(&lines);
        assert!(
            svg.contains("A &lt;till&gt;") && svg.contains("#ff7b72"),
            "{svg}"
        );
    }

    #[test]
    fn long_lines_are_wrapped_between_words() {
        let line = "word ".repeat(40);
        let lines = wrapped(&line);
        assert!(
            lines.len() == 2 && lines.iter().all(|line| line.trim_end().len() <= COLUMNS),
            "{lines:?}"
        );
    }
}

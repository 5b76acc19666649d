//! Runs the commands in the documents, and compares their output with the shown one.
//!
//! A block of `sh` below [`RUN`] is run. The blocks of one section are one shell session, as if typed one after the
//! other. A block of `text` below [`PRINTED`] shows lines that the block before it prints, in order; `…` stands for
//! anything, in a line or instead of lines.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::inject::in_parallel;
use crate::product::{Finished, TempProject, cargo, must, path_with, target, workspace};

/// The line above a block that is run.
const RUN: &str = "<!-- run by `cargo xtask ci` -->\n```sh\n";
/// The line above the expected output of the block before it.
const PRINTED: &str = "<!-- printed -->\n```text\n";
/// Separates the outputs of two blocks.
const BORDER: &str = "@@@ the next block\n";
/// Each document, and whether its commands are run in the source folder or in a new one.
const DOCUMENTS: [(&str, bool); 2] = [("README.md", true), ("docs/guide.md", false)];

/// The commands of a block, and the lines that they must print.
type Block<'a> = (&'a str, Vec<&'a str>);

/// Runs every marked block of every document, each section with a separate home.
pub(crate) fn run() -> Result<()> {
    must(&mut cargo("build --quiet --release --package teamster"))?;
    for (name, in_source) in DOCUMENTS {
        let text = std::fs::read_to_string(workspace().join(name))?;
        // Their commands mostly wait for agents, so each core runs one.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let counts = in_parallel(cores, &sections(&text), |section| -> Result<usize> {
            let blocks = blocks(section);
            let title = section.lines().next().unwrap_or_default();
            let title = title.trim_start_matches('#').trim();
            if !blocks.is_empty() {
                println!("{name}, {title:?}: {} blocks", blocks.len());
                run_section(&blocks, in_source)
                    .with_context(|| format!("{name}, {title:?} does not work as written"))?;
            }
            let shown = blocks.iter().filter(|(_, shown)| !shown.is_empty());
            Ok(blocks.len() + shown.count())
        });
        let count: usize = counts.into_iter().sum::<Result<usize>>()?;
        // A mark without a block would be a command that is never run.
        let marks = text.matches("<!-- run by").count() + text.matches("<!-- printed").count();
        let is_all = count == marks && count > 0;
        ensure!(
            is_all,
            "{name} has {marks} marks, and {count} blocks below them"
        );
    }
    Ok(())
}

/// Splits a document at its second-level headings. Lines inside a fence are not headings.
fn sections(text: &str) -> Vec<&str> {
    let (mut found, mut begin, mut at, mut in_fence) = (Vec::new(), 0, 0, false);
    for line in text.split_inclusive('\n') {
        if line.starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence && line.starts_with("## ") {
            found.push(&text[begin..at]);
            begin = at;
        }
        at += line.len();
    }
    found.push(&text[begin..]);
    found
}

/// Returns the blocks of a section.
fn blocks(section: &str) -> Vec<Block<'_>> {
    let content = |rest: &'_ str| rest.find("\n```").unwrap_or(rest.len());
    let parts = section.split(RUN).skip(1);
    let block = parts.map(|rest| {
        let (commands, rest) = rest.split_at(content(rest));
        let shown = rest.split_once(PRINTED).map_or("", |(_, rest)| rest);
        (commands, shown[..content(shown)].lines().collect())
    });
    block.collect()
}

fn run_section(blocks: &[Block<'_>], in_source: bool) -> Result<()> {
    let project = TempProject::new()?;
    let script: Vec<&str> = blocks.iter().map(|(commands, _)| *commands).collect();
    let script = script.join(&format!("\nprintf '{BORDER}'\n"));
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &format!("exec 2>&1\n{script}")]);
    set_up(&mut shell, &project, in_source)?;
    let finished = Finished::of(&mut shell)?;
    let (status, stdout) = (finished.status, &finished.stdout);
    ensure!(status.success(), "it ended with {status}:\n{stdout}");
    for ((_, shown), printed) in blocks.iter().zip(finished.stdout.split(BORDER)) {
        let mut lines = printed.lines().map(str::trim_end);
        for wanted in shown.iter().filter(|line| !matches!(**line, "…" | "")) {
            let is_there = lines.any(|line| fits(wanted.trim_end(), line));
            ensure!(
                is_there,
                "it does not print {wanted:?} in its place:\n{printed}"
            );
        }
    }
    Ok(())
}

/// Gives the shell a home, a folder and a PATH, and no variable for another team or project.
fn set_up(shell: &mut Command, project: &TempProject, in_source: bool) -> Result<()> {
    // The toolchain stays in its place although HOME changes.
    let home = std::env::var_os("HOME").unwrap_or_default();
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let usual = || Path::new(&home).join(folder).into_os_string();
        shell.env(name, std::env::var_os(name).unwrap_or_else(usual));
    }
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("TEAMSTER_") || text.starts_with("CLAUDE_") {
            shell.env_remove(&name);
        }
    }
    let new = project.root().join("new");
    std::fs::create_dir_all(&new)?;
    shell
        .env("HOME", project.home())
        .env("TMPDIR", project.root())
        .env("PATH", path_with(&target().join("release"))?)
        .env_remove("XDG_CONFIG_HOME")
        .env("CARGO_TARGET_DIR", target());
    if in_source {
        shell.env("TEAMSTER_PROJECT", project.folder());
        shell.current_dir(workspace());
    } else {
        shell.current_dir(new);
    }
    Ok(())
}

/// Returns whether a line matches the shown one, in which `…` stands for anything.
fn fits(shown: &str, line: &str) -> bool {
    let Some((before, after)) = shown.split_once('…') else {
        return shown == line;
    };
    let Some(rest) = line.strip_prefix(before) else {
        return false;
    };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| fits(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_anything() {
        assert!(fits("a b", "a b"));
        assert!(!fits("a b", "a b c"));
        assert!(fits("a … c", "a b b c"));
        assert!(fits("…: done", "17:22:41: done"));
        assert!(!fits("…: done", "17:22:41: done?"));
        assert!(fits("commit …", "commit 1234"));
        assert!(!fits("commit …", "no commit"));
    }

    #[test]
    fn headings_inside_of_a_fence_begin_no_section() {
        let text = "# One\n\n```text\n## printed\n```\n\n## Two\n\nend\n";
        let (one, two) = text.split_at(text.find("## Two").unwrap());
        assert_eq!(sections(text), [one, two]);
    }

    #[test]
    fn blocks_of_a_section_are_paired_with_what_they_print() {
        let text =
            format!("One\n{RUN}echo a\n```\nIt says\n{PRINTED}a\n```\n{RUN}echo b\n```\nand ends");
        assert_eq!(blocks(&text), [("echo a", vec!["a"]), ("echo b", vec![])]);
    }

    #[test]
    fn section_that_does_not_print_what_is_shown_fails() {
        let run = |shown: Vec<&str>| run_section(&[("printf 'a\\nb\\nc\\n'", shown)], false);
        assert!(run(vec!["a", "…", "c"]).is_ok());
        assert!(run(vec!["c", "a"]).is_err());
        assert!(run(vec!["a", "a"]).is_err());
    }
}

//! The commands of the documents, run as they stand there, and what they print compared with what is shown.
//!
//! A block of `sh` below [`RUN`] is run. What a section has of them is one session of a shell, as for somebody who types
//! one after the other. A block of `text` below [`PRINTED`] shows lines that the block before it prints, in their order;
//! `…` stands for anything, in a line or instead of lines.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::product::{Answer, Place, cargo, must, target, workspace};

/// The line above a block that is run.
const RUN: &str = "<!-- run by `cargo xtask ci` -->";
/// The line above what the block before it prints.
const PRINTED: &str = "<!-- printed -->";
/// Stands between what two blocks print.
const BORDER: &str = "@@@ the next block";

/// Each document, and whether its commands are typed in the folder of the source or in a new one.
const DOCUMENTS: [(&str, Folder); 2] = [
    ("README.md", Folder::Source),
    ("docs/guide.md", Folder::New),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    Source,
    New,
}

/// A block that is run, and the lines that it must print.
#[derive(Debug, Default, PartialEq, Eq)]
struct Block {
    commands: String,
    printed: Vec<String>,
}

/// Runs every marked block of every document, each section with a home of its own.
pub(super) fn run_as_written() -> Result<()> {
    must(&mut cargo([
        "build",
        "--quiet",
        "--release",
        "--package",
        "teamster",
    ]))?;
    for (name, folder) in DOCUMENTS {
        let text = std::fs::read_to_string(workspace().join(name))?;
        let mut any = false;
        for section in sections(&text) {
            let blocks = blocks(section).with_context(|| name.to_owned())?;
            if blocks.is_empty() {
                continue;
            }
            any = true;
            let title = section.lines().next().unwrap_or_default();
            println!("{name}, {title:?}: {} blocks", blocks.len());
            run(&blocks, folder)
                .with_context(|| format!("{name}, {title:?} does not work as written"))?;
        }
        if !any {
            bail!("{name} has no block below `{RUN}`");
        }
    }
    Ok(())
}

fn run(blocks: &[Block], folder: Folder) -> Result<()> {
    let place = Place::temporary()?;
    let script: Vec<&str> = blocks.iter().map(|block| block.commands.as_str()).collect();
    let script = script.join(&format!("\necho '{BORDER}'\n"));
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &format!("exec 2>&1\n{script}")]);
    dress(&mut shell, &place, folder)?;
    let answer = Answer::of(&mut shell)?;
    if !answer.status.success() {
        bail!("it ended with {}:\n{}", answer.status, answer.stdout);
    }
    let printed: Vec<&str> = answer.stdout.split(&format!("{BORDER}\n")).collect();
    for (block, printed) in blocks.iter().zip(printed) {
        compare(&block.printed, printed)?;
    }
    Ok(())
}

/// A home, a folder and a path, and nothing that is set for another team or project.
fn dress(shell: &mut Command, place: &Place, folder: Folder) -> Result<()> {
    // The toolchain stays where it is although HOME does not.
    let home = std::env::var_os("HOME").unwrap_or_default();
    for (name, inner) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if std::env::var_os(name).is_none() {
            shell.env(name, Path::new(&home).join(inner));
        }
    }
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("TEAMSTER_") || name.starts_with("CLAUDE_") {
            shell.env_remove(name);
        }
    }
    let new = place.root().join("new");
    std::fs::create_dir_all(&new)?;
    let mut path: Vec<PathBuf> = vec![target().join("release")];
    path.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    shell
        .env("HOME", place.home())
        .env("TMPDIR", place.root())
        .env("PATH", std::env::join_paths(path)?)
        .env_remove("XDG_CONFIG_HOME")
        .env("CARGO_TARGET_DIR", target());
    match folder {
        Folder::Source => shell
            .env("TEAMSTER_PROJECT", place.project())
            .current_dir(workspace()),
        Folder::New => shell.current_dir(new),
    };
    Ok(())
}

/// The parts of a document below its headings of the second rank.
fn sections(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = vec![0];
    starts.extend(text.match_indices("\n## ").map(|(at, _)| at + 1));
    starts.push(text.len());
    starts.windows(2).map(|two| &text[two[0]..two[1]]).collect()
}

fn blocks(section: &str) -> Result<Vec<Block>> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut rest = section;
    while let Some((mark, at)) = [RUN, PRINTED]
        .iter()
        .filter_map(|mark| rest.find(mark).map(|at| (*mark, at)))
        .min_by_key(|(_, at)| *at)
    {
        rest = rest[at + mark.len()..].trim_start();
        let fence = if mark == RUN { "```sh\n" } else { "```text\n" };
        let (content, after) = rest
            .strip_prefix(fence)
            .and_then(|rest| rest.split_once("\n```"))
            .with_context(|| format!("below {mark} there is no block of {}", &fence[3..]))?;
        rest = after;
        if mark == RUN {
            blocks.push(Block {
                commands: content.to_owned(),
                ..Block::default()
            });
        } else {
            let block = blocks
                .last_mut()
                .context("nothing is run before what is printed")?;
            block
                .printed
                .extend(content.lines().map(|line| line.trim_end().to_owned()));
        }
    }
    Ok(blocks)
}

/// Whether all lines that are shown are printed, in their order.
fn compare(shown: &[String], printed: &str) -> Result<()> {
    let mut lines = printed.lines().map(str::trim_end);
    for wanted in shown
        .iter()
        .filter(|line| !matches!(line.as_str(), "…" | ""))
    {
        if !lines.any(|line| fits(wanted, line)) {
            bail!("it does not print {wanted:?} in its place:\n{printed}");
        }
    }
    Ok(())
}

/// Whether a line is what is shown, `…` aside.
fn fits(shown: &str, line: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
        last = Some(part);
    }
    match last {
        None => rest.is_empty(),
        Some(last) => last.is_empty() || line.ends_with(last),
    }
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
    fn lines_are_found_in_their_order_and_others_are_passed_over() {
        let shown = |lines: &[&str]| {
            lines
                .iter()
                .map(|line| (*line).to_owned())
                .collect::<Vec<_>>()
        };
        assert!(compare(&shown(&["a", "…", "c"]), "a\nb\nc\n").is_ok());
        assert!(compare(&shown(&["c", "a"]), "a\nb\nc\n").is_err());
        assert!(compare(&shown(&["a", "a"]), "a\n").is_err());
    }

    #[test]
    fn a_section_is_one_session_of_blocks_with_what_they_print() {
        let text = format!(
            "# T\n## One\n{RUN}\n```sh\necho a\n```\nIt says\n{PRINTED}\n```text\na\n```\n{RUN}\n```sh\necho b\n```\n## Two\n"
        );
        let all = sections(&text);
        assert_eq!(all.len(), 3);
        let blocks = blocks(all[1]).unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!(
            (blocks[0].commands.as_str(), &blocks[0].printed[..]),
            ("echo a", &["a".to_owned()][..])
        );
        assert!(super::blocks(all[2]).unwrap().is_empty());
    }
}

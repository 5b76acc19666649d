//! Generated documents, and the check that they are up to date.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use teamster_run::plan;
use teamster_studio::api;

use crate::product::{Finished, Product, TempProject, path_with, words, workspace};

const CONTRACTS: &str = "docs/contracts.md";
/// Prefixes of headings in a help text that have no commands below them.
const NO_COMMANDS: [&str; 6] = [
    " ",
    "Arguments",
    "Environment",
    "Examples",
    "Exit codes",
    "Options",
];
const HEAD: &str = "\
# The command line

Written by `cargo xtask docs` from what `--help` prints. Do not edit it by hand: `cargo xtask ci` compares.
";
/// The picture of a demo, and its text sizes in pixels; the width of a letter is in tenths.
const PICTURE: &str = "docs/demo.svg";
const COLUMNS: usize = 104;
const LINE: usize = 19;
const MARGIN: usize = 18;
const LETTER: usize = 84;
/// Words that select the colour of a line in the picture.
const COLOURS: [(&str, &str); 8] = [
    ("FAILED", "#ff7b72"),
    ("conflicts with", "#e3b341"),
    ("passed", "#7ee787"),
    ("complete", "#7ee787"),
    ("approved", "#7ee787"),
    ("stage:", "#79c0ff"),
    ("$ teamster", "#79c0ff"),
    ("asks for approval", "#79c0ff"),
];

/// Writes the command line's reference, the schema of plans, the API's document and its types for the page; with
/// `check`, fails if one of them is out of date.
pub(crate) fn run(product: &Product, check: bool) -> Result<()> {
    for (name, text) in [
        ("docs/cli.md", command_line(product)?),
        (plan::SCHEMA_FILE, plan::schema_text()),
        (
            api::OPENAPI_FILE,
            serde_json::to_string_pretty(&api::openapi())? + "\n",
        ),
        (api::TYPESCRIPT_FILE, api::typescript()),
        (CONTRACTS, contracts()?),
        (teamster_prompts::DOCUMENT, teamster_prompts::document()),
    ] {
        let file = workspace().join(name);
        if !check {
            write(&file, &text)?;
        } else if std::fs::read_to_string(&file).unwrap_or_default() != text {
            bail!("{name} is not fresh; `cargo xtask docs` writes it");
        }
    }
    Ok(())
}

/// Returns the document of the formats, with every kind of event described from the types.
fn contracts() -> Result<String> {
    let written = std::fs::read_to_string(workspace().join(CONTRACTS))?;
    teamster_journal::contract::documented(&written)
        .with_context(|| format!("{CONTRACTS} has lost the marks around its kinds of events"))
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Returns the help of every command, one heading for each.
fn command_line(product: &Product) -> Result<String> {
    let mut text = HEAD.to_owned();
    describe(product, &TempProject::new()?, "", &mut text)?;
    Ok(text)
}

fn describe(product: &Product, project: &TempProject, path: &str, text: &mut String) -> Result<()> {
    let mut command = product.command(project, words(path).into_iter().chain(["--help"]));
    // The width to which help is wrapped when the terminal's is unknown.
    command.env("COLUMNS", "100").env_remove("TEAMSTER_TEAM");
    let finished = Finished::checked(&mut command)?;
    // The executed copy has a different name, which help shows.
    let own_name = product.binary.file_name().unwrap_or_default();
    let own_name = own_name.to_string_lossy();
    let help = finished.stdout.replace(&*own_name, "teamster");
    let name = format!("teamster {path}");
    let marks = "#".repeat((words(path).len() + 2).min(4));
    let (name, shown) = (name.trim_end(), help.trim_end());
    let _ = write!(text, "\n{marks} `{name}`\n\n```text\n{shown}\n```\n");
    for word in subcommands(&help) {
        describe(product, project, format!("{path} {word}").trim(), text)?;
    }
    Ok(())
}

/// Returns the command names below the headings of commands.
fn subcommands(help: &str) -> Vec<&str> {
    help.split("\n\n")
        .filter_map(|section| section.split_once('\n'))
        .filter(|(heading, _)| heading.ends_with(':'))
        .filter(|(heading, _)| !NO_COMMANDS.iter().any(|begin| heading.starts_with(begin)))
        .flat_map(|(_, commands)| commands.lines())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| *word != "help")
        .collect()
}

/// Replaces the text between two marks in a document.
pub(crate) fn put_between(file: &str, mark: &str, content: &str) -> Result<PathBuf> {
    let path = workspace().join(file);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let [begin, end] = ["begin", "end"].map(|word| format!("<!-- {word} {mark} -->"));
    let (before, rest) = text.split_once(&begin).unwrap_or_default();
    let (_, after) = rest
        .split_once(&end)
        .with_context(|| format!("{file} has no {begin}"))?;
    let content = content.trim();
    write(&path, &format!("{before}{begin}\n{content}\n{end}{after}"))?;
    Ok(path)
}

/// Returns the date and the commit, for documents with measurements.
pub(crate) fn stamp() -> String {
    let printed = |line: &str| {
        let line = words(line);
        let mut command = Command::new(line[0]);
        let finished = Finished::checked(command.args(&line[1..]).current_dir(workspace()));
        let printed = finished.map(|finished| finished.stdout.trim().to_owned());
        printed.unwrap_or_else(|_| "unknown".to_owned())
    };
    let (date, commit) = (
        printed("date -u +%Y-%m-%d"),
        printed("git rev-parse --short=12 HEAD"),
    );
    let changes = match printed("git status --porcelain -- crates Cargo.lock xtask").as_str() {
        "" => "",
        _ => " with changes",
    };
    format!("{date}, commit {commit}{changes}")
}

/// Runs the demo and draws its output, as a terminal shows it.
pub(crate) fn draw(product: &Product) -> Result<()> {
    let project = TempProject::new()?;
    let bin = project.root().join("bin");
    std::fs::create_dir_all(&bin)?;
    std::os::unix::fs::symlink(&product.binary, bin.join("teamster"))?;
    let mut command = product.command(&project, ["demo"]);
    // The picture shows the demo's folder, so it is made in the usual place.
    command.env("PATH", path_with(&bin)?).env("TMPDIR", "/tmp");
    let finished = Finished::checked(&mut command)?;
    let folder = finished
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("A small project with failing tests is in "))
        .and_then(|project| project.strip_suffix("/project"))
        .context("the demo does not say where it is")?;
    std::fs::remove_dir_all(folder)?;
    write(&workspace().join(PICTURE), &svg(&shown(&finished.stdout)))?;
    println!("drew {PICTURE}");
    Ok(())
}

/// Returns the lines that fit into a picture: without the output of checks and most of what the gate shows.
fn shown(printed: &str) -> Vec<String> {
    let mut lines = vec!["$ teamster demo".to_owned()];
    let mut is_gate = false;
    for line in printed.lines() {
        if line.starts_with("Team demo asks for approval") {
            lines.extend([line.to_owned(), "…".to_owned()]);
            is_gate = true;
        }
        is_gate = is_gate && !begins_with_time(line);
        if !is_gate && !line.starts_with("        |") {
            lines.extend(wrapped(line));
        }
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

fn begins_with_time(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.len() > 9 && bytes[2] == b':' && bytes[5] == b':' && bytes[0].is_ascii_digit()
}

fn svg(lines: &[String]) -> String {
    let width = COLUMNS * LETTER / 10 + 2 * MARGIN;
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
        let (time, rest) = line.split_at(if begins_with_time(line) { 8 } else { 0 });
        let colour = COLOURS.iter().find(|(word, _)| rest.contains(word));
        let colour = colour.map_or("#d0d7de", |(_, colour)| colour);
        let escaped = rest.replace('&', "&amp;").replace('<', "&lt;");
        let rest = escaped.replace('>', "&gt;");
        let time = match time {
            "" => String::new(),
            time => format!("<tspan fill=\"#7d8590\">{time}</tspan>"),
        };
        let rest = format!("{time}<tspan fill=\"{colour}\">{rest}</tspan>");
        let place = format!("x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\"");
        let _ = writeln!(text, "<text {place}>{rest}</text>");
    }
    text + "</g>\n</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_shows_the_run_and_escapes_its_text() {
        let printed = "A <till>\n12:00:00  FAILED x\n        | output\nTeam demo asks for approval of commit 1.\n\nPlan\n\
                       12:00:01  approved: 1\n";
        let lines = shown(printed);
        let expected = "$ teamster demo\nA <till>\n12:00:00  FAILED x\nTeam demo asks for approval of commit 1.\n…\n\
                        12:00:01  approved: 1";
        assert_eq!(lines.join("\n"), expected);
        let svg = svg(&lines);
        assert!(
            svg.contains("A &lt;till&gt;") && svg.contains("#ff7b72"),
            "{svg}"
        );
    }

    #[test]
    fn long_lines_are_wrapped_between_words() {
        let lines = wrapped(&"word ".repeat(40));
        assert!(
            lines.len() == 2 && lines.iter().all(|line| line.trim_end().len() <= COLUMNS),
            "{lines:?}"
        );
    }
}

//! Documents that a command writes, and the check that they are fresh.

mod picture;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use teamster_run::plan;
use teamster_studio::api;

use crate::product::{Answer, Place, Product, workspace};
pub(crate) use picture::draw;

const CONTRACTS: &str = "docs/contracts.md";
const HEAD: &str = "\
# The command line

Written by `cargo xtask docs` from what `--help` prints. Do not edit it by hand: `cargo xtask ci` compares.
";

/// Writes `docs/cli.md`, the schema of plans, the API's document and its types for the page, or only says whether they are fresh.
pub(crate) fn run(product: &Product, check: bool) -> Result<()> {
    for (name, text) in [
        ("docs/cli.md", command_line(product)?),
        (plan::SCHEMA_FILE, plan::schema_text()),
        (api::OPENAPI_FILE, openapi()?),
        (api::TYPESCRIPT_FILE, api::typescript()),
        (CONTRACTS, contracts()?),
    ] {
        let file = workspace().join(name);
        if !check {
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&file, text)
                .with_context(|| format!("cannot write {}", file.display()))?;
        } else if std::fs::read_to_string(&file).unwrap_or_default() != text {
            bail!("{name} is not what the command says; `cargo xtask docs` writes it anew");
        }
    }
    Ok(())
}

/// The formats, with every kind of event described from the types.
fn contracts() -> Result<String> {
    let written = std::fs::read_to_string(workspace().join(CONTRACTS))?;
    teamster_journal::contract::documented(&written)
        .with_context(|| format!("{CONTRACTS} has lost the marks around its kinds of events"))
}

fn openapi() -> Result<String> {
    Ok(serde_json::to_string_pretty(&api::openapi())? + "\n")
}

/// The help of every command, one heading for each.
fn command_line(product: &Product) -> Result<String> {
    let place = Place::temporary()?;
    let mut text = HEAD.to_owned();
    describe(product, &place, &[], &mut text)?;
    Ok(text)
}

fn describe(product: &Product, place: &Place, path: &[String], text: &mut String) -> Result<()> {
    let mut command = product.command(place, path.iter().map(String::as_str).chain(["--help"]));
    // The width that help is wrapped to when nobody knows the terminal's.
    let answer = Answer::of(command.env("COLUMNS", "100").env_remove("TEAMSTER_TEAM"))?;
    if !answer.status.success() {
        bail!(
            "`teamster {} --help` failed: {}",
            path.join(" "),
            answer.said()
        );
    }
    // The copy that is measured has a name of its own, which help shows.
    let program = command.get_program().to_owned();
    let own_name = Path::new(&program).file_name().unwrap_or_default();
    let help = answer
        .stdout
        .replace(&*own_name.to_string_lossy(), "teamster");
    let name = [&["teamster".to_owned()], path].concat().join(" ");
    let marks = "#".repeat((path.len() + 2).min(4));
    let _ = write!(
        text,
        "\n{marks} `{name}`\n\n```text\n{}\n```\n",
        help.trim_end()
    );
    for word in subcommands(&help) {
        describe(product, place, &[path, &[word]].concat(), text)?;
    }
    Ok(())
}

/// The words below `Commands:`.
fn subcommands(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| *word != "help")
        .map(str::to_owned)
        .collect()
}

/// Replaces what stands between two marks in a document.
pub(crate) fn put_between(file: &str, mark: &str, content: &str) -> Result<PathBuf> {
    let path = workspace().join(file);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let (begin, end) = (
        format!("<!-- begin {mark} -->"),
        format!("<!-- end {mark} -->"),
    );
    let parts = text
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let Some((before, after)) = parts else {
        bail!("{file} has no marks `{begin}` and `{end}`");
    };
    let text = format!("{before}{begin}\n{}\n{end}{after}", content.trim());
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Today and the commit, for documents that a command writes.
pub(crate) fn stamp() -> String {
    let said = |command: &mut std::process::Command| {
        let answer = Answer::of(command.current_dir(workspace())).ok();
        answer
            .filter(|answer| answer.status.success())
            .map(|answer| answer.stdout.trim().to_owned())
    };
    let date = said(std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]));
    let commit = said(std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]));
    let is_changed = said(std::process::Command::new("git").args([
        "status",
        "--porcelain",
        "--",
        "crates",
        "Cargo.lock",
        "xtask",
    ]))
    .is_some_and(|changes| !changes.is_empty());
    format!(
        "{}, commit {}{}",
        date.unwrap_or_else(|| "no date".to_owned()),
        commit.unwrap_or_else(|| "unknown".to_owned()),
        if is_changed { " with changes" } else { "" }
    )
}

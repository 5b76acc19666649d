//! The page of Studio: its committed build, the check that it is the build of these sources, and its tests in a
//! browser.
//!
//! `web/dist.sha256` has two checksums, of the sources and of the build. Both can be checked on a machine without
//! Node, so that neither can change without the other. Where Node is installed, the page is built again and compared
//! byte for byte.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::ci::skip;
use crate::product::{Finished, cargo, files, must, on_path, target, text, words, workspace};

/// The file with the checksums, beside the build: a file inside it would be embedded in the binary.
const SUMS: &str = "dist.sha256";
/// All sources of the build.
const SOURCES: &str = "index.html package.json package-lock.json .npmrc svelte.config.js tsconfig.json vite.config.ts \
    public src";
/// The size limit of the whole page as it is sent, compressed.
const LARGEST: usize = 150_000;
/// The names of the browser on different systems.
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The options of `cargo xtask web`, which builds the page without any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
#[group(multiple = false)]
pub(crate) struct WebOptions {
    /// Check that the committed build is the one of these sources
    #[arg(long)]
    check: bool,
    /// Test the page in Chromium against a real Studio with real workers
    #[arg(long)]
    browser: bool,
    /// Make docs/screenshots from a real team, and check that none is blank
    #[arg(long)]
    screenshots: bool,
}

/// Builds the page, or does what the options select.
pub(crate) fn run(options: WebOptions) -> Result<()> {
    if options.check {
        return check();
    }
    if options.browser || options.screenshots {
        let script = if options.browser {
            "e2e"
        } else {
            "screenshots"
        };
        check_sums()?;
        let chromium = browser()?;
        must(&mut cargo("build --quiet --package teamster"))?;
        // Logs show the program's path, so pictures are made with a copy in a neutral place.
        let folder = std::env::temp_dir().join("teamster-pictures");
        std::fs::create_dir_all(&folder)?;
        let copy = folder.join("teamster");
        std::fs::copy(target().join("debug/teamster"), &copy)?;
        let result = run_in_browser(script, &chromium, &copy);
        std::fs::remove_dir_all(&folder)?;
        return result;
    }
    check_node()?;
    install()?;
    check_sources()?;
    npm("build")?;
    let file = web().join(SUMS);
    std::fs::write(&file, sums()?).with_context(|| format!("cannot write {}", file.display()))?;
    check_size()
}

fn web() -> PathBuf {
    workspace().join("web")
}

fn dist() -> PathBuf {
    web().join("dist")
}

/// Checks the committed build: its checksums always, its bytes where Node is installed.
pub(crate) fn check() -> Result<()> {
    check_sums()?;
    check_size()?;
    if let Err(why) = check_node().and_then(|()| install()) {
        return skip("web", &format!("the page was not built again: {why:#}"));
    }
    check_sources()?;
    let again = target().join("web-again");
    let out = again.to_string_lossy();
    npm(&format!("build -- --emptyOutDir --outDir {out}"))?;
    if sum(&again, &files(&again, &[""])?)? == sum(&dist(), &files(&dist(), &[""])?)? {
        println!("  built again, byte for byte the same");
        return Ok(());
    }
    let pinned = std::fs::read_to_string(web().join(".node-version"))?;
    ensure!(
        node_version().as_deref() != Some(pinned.trim()),
        "the same sources build another page; `cargo xtask web` builds it again"
    );
    let why = "another page, but only this version of Node must build the same";
    skip("web", &format!("{why}: {}", pinned.trim()))
}

/// Runs the tests of the page in a browser, with the binary that the tests have built.
pub(crate) fn test_in_browser() -> Result<()> {
    check_sums()?;
    let chromium = match browser() {
        Ok(chromium) => chromium,
        Err(why) => return skip("browser", &format!("{why:#}")),
    };
    // This reuses what the tests have built; if the step runs alone, it builds the same way.
    must(&mut cargo("test --quiet --workspace --locked --no-run"))?;
    run_in_browser("e2e", &chromium, &target().join("debug/teamster"))
}

fn run_in_browser(script: &str, chromium: &Path, binary: &Path) -> Result<()> {
    let mut command = npm_command(&format!("run --silent {script}"));
    command
        .env("CHROMIUM", chromium)
        .env("TEAMSTER_BIN", binary);
    must(&mut command)
}

/// Returns the browser, with everything that is needed to drive it; the error says what is missing.
pub(crate) fn browser() -> Result<PathBuf> {
    check_node()?;
    install()?;
    chromium().context("there is no Chromium; install the package chromium")
}

/// Returns the browser of this machine.
pub(crate) fn chromium() -> Option<PathBuf> {
    CHROMIUM.iter().find_map(|name| on_path(name))
}

/// Returns a script of the page that is not a test.
pub(crate) fn script(name: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(web().join("e2e").join(name)).current_dir(web());
    command
}

/// Fails unless Node is new enough for the page's tools.
pub(crate) fn check_node() -> Result<()> {
    let package = std::fs::read(web().join("package.json"))?;
    let package: serde_json::Value = serde_json::from_slice(&package)?;
    let wanted = text(&package["engines"]["node"]).trim_start_matches(">=");
    match node_version() {
        Some(found) if numbers(&found) >= numbers(wanted) => Ok(()),
        Some(found) => bail!("Node {found} is here; {wanted} or newer is needed"),
        None => bail!("there is no Node; {wanted} or newer is needed"),
    }
}

fn node_version() -> Option<String> {
    let finished = Finished::checked(Command::new("node").arg("--version")).ok()?;
    Some(finished.stdout.trim().trim_start_matches('v').to_owned())
}

fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split('.');
    parts.map(|part| part.parse().unwrap_or(0)).collect()
}

fn npm_command(line: &str) -> Command {
    let mut command = Command::new("npm");
    command.args(words(line)).current_dir(web());
    command.stdin(Stdio::null());
    command
}

fn npm(script: &str) -> Result<()> {
    must(&mut npm_command(&format!("run --silent {script}")))
}

/// Checks the types of the sources and runs their unit tests.
fn check_sources() -> Result<()> {
    npm("check")?;
    npm("test")
}

/// Downloads the packages, unless those of this lock file are already there.
fn install() -> Result<()> {
    let lock = sum(&web(), &["package-lock.json".to_owned()])?;
    // The mark is in the folder itself, which `npm ci` removes before it downloads anything.
    let mark = web().join("node_modules/.fetched");
    if std::fs::read_to_string(&mark).is_ok_and(|fetched| fetched == lock) {
        return Ok(());
    }
    let mut install = npm_command("ci --silent --no-audit --no-fund");
    must(install.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1"))
        .context("the page's packages cannot be fetched")?;
    std::fs::write(&mark, lock).with_context(|| format!("cannot write {}", mark.display()))
}

/// Checks that the page, compressed as a browser gets it, is within its size limit.
fn check_size() -> Result<()> {
    let mut total = 0;
    for file in files(&dist(), &[""])? {
        let mut gzip = Command::new("gzip");
        let packed = gzip.arg("-9c").arg(dist().join(&file)).output()?;
        ensure!(
            packed.status.success(),
            "{gzip:?} ended with {}",
            packed.status
        );
        total += packed.stdout.len();
    }
    println!("  the page has {total} bytes, compressed");
    ensure!(total <= LARGEST, "{LARGEST} bytes are allowed");
    Ok(())
}

fn check_sums() -> Result<()> {
    let written = std::fs::read_to_string(web().join(SUMS)).unwrap_or_default();
    ensure!(
        written == sums()?,
        "web/dist is not the build of the sources beside it; `cargo xtask web` builds it"
    );
    Ok(())
}

/// Returns both checksums, as they are written to the file.
fn sums() -> Result<String> {
    let sources = sum(&web(), &files(&web(), &words(SOURCES))?)?;
    let built = sum(&dist(), &files(&dist(), &[""])?)?;
    Ok(format!("{sources}  sources\n{built}  dist\n"))
}

/// Returns one checksum over the names and contents of many files.
fn sum(root: &Path, files: &[String]) -> Result<String> {
    let mut all = Sha256::new();
    for name in files {
        let path = root.join(name);
        let bytes =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        all.update(format!("{name}\0{}\0", bytes.len()));
        all.update(&bytes);
    }
    Ok(all.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("20.19.0") >= numbers("20.19"));
        assert!(numbers("22.1.0") >= numbers("20.19"));
        assert!(numbers("20.9.1") < numbers("20.19"));
    }
}

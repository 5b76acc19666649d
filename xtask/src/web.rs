//! The page of Studio: its build, which is committed, and the checks that it is the build of these sources.
//!
//! `web/dist.sha256` has two sums, of the sources and of what was built from them. Both can be checked on a machine
//! without Node, so nobody can change one without the other. Where the pinned Node is there the page is built again and
//! compared byte for byte.

pub(crate) mod browser;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::product::{must, target, workspace};

/// The sums, beside the build: a file inside of it would be embedded in the binary.
const SUMS: &str = "dist.sha256";
/// The version of Node whose build is compared byte for byte.
const PINNED: &str = ".node-version";
/// Everything that the build is made from.
const SOURCES: [&str; 9] = [
    "index.html",
    "package.json",
    "package-lock.json",
    ".npmrc",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.ts",
    "public",
    "src",
];
/// The whole page as it is sent, compressed, at most.
const LARGEST: u64 = 150_000;

/// What to do with the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
#[group(multiple = false)]
pub(crate) struct Wish {
    /// Only say whether the build is the one of these sources
    #[arg(long)]
    check: bool,
    /// Try the page in Chromium against a real Studio with real workers
    #[arg(long)]
    browser: bool,
    /// Make docs/screenshots from a real team, and look that none is blank
    #[arg(long)]
    screenshots: bool,
}

/// Builds the page, or does what is wished.
pub(crate) fn run(wish: Wish) -> Result<()> {
    if wish.check {
        check()
    } else if wish.browser {
        browser::run("e2e", "the page in a browser")
    } else if wish.screenshots {
        browser::run("screenshots", "screenshots")
    } else {
        build()
    }
}

fn web() -> PathBuf {
    workspace().join("web")
}

fn build() -> Result<()> {
    install()?;
    must(npm().args(["run", "--silent", "check"]))?;
    must(npm().args(["run", "--silent", "test"]))?;
    must(npm().args(["run", "--silent", "build"]))?;
    let file = web().join(SUMS);
    std::fs::write(&file, sums(&web().join("dist"))?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    size()
}

/// The sums always, the bytes where the pinned Node is.
pub(crate) fn check() -> Result<()> {
    let recorded = std::fs::read_to_string(web().join(SUMS)).unwrap_or_default();
    if recorded != sums(&web().join("dist"))? {
        bail!(
            "web/dist is not the build of the sources beside it; `cargo xtask web` builds it anew"
        );
    }
    size()?;
    let pinned = std::fs::read_to_string(web().join(PINNED))?;
    let found = node_version();
    if found.as_deref() != Some(pinned.trim()) {
        println!(
            "  the sums fit; not built again, because Node {} is not here",
            pinned.trim()
        );
        return Ok(());
    }
    if let Err(error) = install() {
        println!(
            "  the sums fit; not built again, because the packages cannot be fetched: {error:#}"
        );
        return Ok(());
    }
    must(npm().args(["run", "--silent", "check"]))?;
    must(npm().args(["run", "--silent", "test"]))?;
    let again = target().join("web-again");
    must(
        npm()
            .args([
                "run",
                "--silent",
                "build",
                "--",
                "--emptyOutDir",
                "--outDir",
            ])
            .arg(&again),
    )?;
    if sum(&again, &files(&again, &[""])?)?
        != sum(&web().join("dist"), &files(&web().join("dist"), &[""])?)?
    {
        bail!("the same sources build another page; `cargo xtask web` builds it anew");
    }
    println!("  built again, byte for byte the same");
    Ok(())
}

/// A binary with an older page would be tried otherwise.
fn check_built_in() -> Result<()> {
    let recorded = std::fs::read_to_string(web().join(SUMS)).unwrap_or_default();
    if recorded != sums(&web().join("dist"))? {
        bail!("web/dist is not the build of these sources; run `cargo xtask web` first");
    }
    Ok(())
}

fn npm() -> Command {
    let mut command = Command::new("npm");
    command.current_dir(web()).stdin(Stdio::null());
    command
}

/// Fetches the packages, unless those of this very lock file were fetched before.
fn install() -> Result<()> {
    let lock = sum(&web(), &["package-lock.json".to_owned()])?;
    // In the folder itself, which `npm ci` removes before it fetches anything.
    let mark = web().join("node_modules").join(".fetched");
    if std::fs::read_to_string(&mark).is_ok_and(|fetched| fetched == lock) {
        return Ok(());
    }
    must(
        npm()
            .args(["ci", "--silent", "--no-audit", "--no-fund"])
            .env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1"),
    )?;
    std::fs::write(&mark, lock).with_context(|| format!("cannot write {}", mark.display()))
}

fn node_version() -> Option<String> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    Some(version.trim().trim_start_matches('v').to_owned())
}

/// The page must stay small; compressed as a browser gets it.
fn size() -> Result<()> {
    let dist = web().join("dist");
    let mut total = 0;
    for file in files(&dist, &[""])? {
        let path = dist.join(&file);
        let packed = Command::new("gzip").arg("-9c").arg(&path).output()?;
        total += packed.stdout.len() as u64;
    }
    println!("  the page has {total} bytes, compressed");
    if total > LARGEST {
        bail!("the page has {total} bytes, compressed; {LARGEST} are allowed");
    }
    Ok(())
}

/// Both sums, as they are written down.
fn sums(dist: &Path) -> Result<String> {
    let sources = sum(&web(), &files(&web(), &SOURCES)?)?;
    let built = sum(dist, &files(dist, &[""])?)?;
    Ok(format!("{sources}  sources\n{built}  dist\n"))
}

/// One sum of many files: of their names and of what is in them.
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

/// The files that these names stand for, folders looked through, in one order everywhere.
fn files(root: &Path, names: &[&str]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        } else {
            let name = path.strip_prefix(root)?;
            found.push(name.to_string_lossy().into_owned());
        }
    }
    found.sort();
    Ok(found)
}

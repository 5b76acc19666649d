//! Programs that the checks need and a bare machine may lack.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::product::{cargo, must, target};
use crate::web::browser;

const CARGO_DENY: &str = "0.20.2";
const SYSTEM: [&str; 4] = ["git", "git-lfs", "strace", "tmux"];
/// What the package fonts-noto-cjk brings.
const CJK_FONT: &str = "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc";

/// Installs what is missing, and nothing else.
pub(super) fn install() -> Result<()> {
    let missing: Vec<&str> = SYSTEM
        .into_iter()
        .filter(|program| !is_there(program))
        .collect();
    if missing.is_empty() {
        println!("  {} are there", SYSTEM.join(", "));
    } else {
        install_with_apt(&missing)?;
    }
    install_browser();
    let deny = cargo_deny();
    if deny.exists() {
        println!("  cargo-deny is there");
        return Ok(());
    }
    println!("  installing cargo-deny {CARGO_DENY}, once");
    must(
        // It works for a second; a build for speed would take minutes.
        cargo(["install", "--quiet", "--locked", "--debug", "cargo-deny"])
            .args(["--version", CARGO_DENY])
            .arg("--root")
            .arg(tools())
            // The tool's own build must not mix with ours.
            .env("CARGO_TARGET_DIR", tools().join("build")),
    )
}

/// Chromium and a font for Korean, where the page can be tried at all. What cannot be installed is missed by the step
/// `browser`, which says so.
fn install_browser() {
    if let Err(lack) = browser::has_node() {
        println!("  no browser is needed: {lack}");
        return;
    }
    let mut missing = Vec::new();
    if browser::installed().is_none() {
        missing.push("chromium");
    }
    if !Path::new(CJK_FONT).exists() {
        missing.push("fonts-noto-cjk");
    }
    if missing.is_empty() {
        println!("  chromium and a font for Korean are there");
    } else if let Err(error) = install_with_apt(&missing) {
        println!("  {} could not be installed: {error:#}", missing.join(", "));
    }
}

fn is_there(program: &str) -> bool {
    // tmux knows no other option.
    let version = if program == "tmux" { "-V" } else { "--version" };
    let status = Command::new(program)
        .arg(version)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn install_with_apt(missing: &[&str]) -> Result<()> {
    println!("  installing {}", missing.join(", "));
    if !is_there("apt-get") {
        bail!(
            "{} must be installed by hand: there is no apt-get",
            missing.join(", ")
        );
    }
    let is_root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|id| id.stdout.trim_ascii() == b"0");
    let apt = || {
        let mut command = if is_root {
            Command::new("apt-get")
        } else {
            let mut sudo = Command::new("sudo");
            sudo.arg("apt-get");
            sudo
        };
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    must(apt().args(["-qq", "update"]))?;
    must(
        apt()
            .args(["-qq", "install", "--yes", "--no-install-recommends"])
            .args(missing),
    )
}

fn tools() -> PathBuf {
    target().join("tools")
}

fn cargo_deny() -> PathBuf {
    tools().join("bin").join("cargo-deny")
}

/// Licences, sources and banned crates; advisories when their database can be had.
pub(super) fn deny() -> Result<()> {
    let deny = |what: &[&str]| {
        let mut command = Command::new(cargo_deny());
        command
            .current_dir(crate::product::workspace())
            .args(["--all-features", "check", "--hide-inclusion-graph"])
            .args(what);
        command
    };
    must(&mut deny(&["bans", "licenses", "sources"]))?;
    let fetched = Command::new(cargo_deny())
        .current_dir(crate::product::workspace())
        .args(["fetch", "db"])
        .output();
    if fetched.is_ok_and(|fetched| fetched.status.success()) {
        must(&mut deny(&["--disable-fetch", "advisories"]))
    } else {
        println!("  advisories skipped: their database cannot be fetched from here");
        Ok(())
    }
}

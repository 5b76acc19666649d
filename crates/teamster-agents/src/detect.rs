//! Finds the clients that are installed on this machine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::client::Client;
use crate::codex::CodexProtocol;
use crate::driver::CannotLaunch;

/// Known clients without a driver.
const OTHER_CLIENTS: [&str; 2] = ["opencode", "qwen"];

/// The oldest Codex that is run with its app-server. Since 0.99 it accepts messages in the middle of a turn; 0.144.1 and
/// 0.166.0 were tested.
const OLDEST_APP_SERVER: (u32, u32) = (0, 144);
/// How long Codex may take to report its version before a launch.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// The oldest Node that runs Gemini.
const OLDEST_NODE: u32 = 20;

/// The variable that names the folder that Gemini uses as the user's home.
pub(crate) const GEMINI_HOME: &str = "GEMINI_CLI_HOME";
/// The folder in that home with all of Gemini's files.
pub(crate) const GEMINI_FOLDER: &str = ".gemini";

/// A client that is installed on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct InstalledClient {
    /// The client's name, which is also its provider's name.
    pub name: &'static str,
    /// The path of its command.
    pub path: PathBuf,
    /// The program that is really started, which may be another file.
    pub program: PathBuf,
    /// The version that the client reports.
    pub version: Option<String>,
    /// Whether teamster can run it.
    pub driver: bool,
    /// What keeps the client from working, each with a remedy.
    pub missing: Vec<String>,
}

/// Returns the program of a client that has a driver.
pub(crate) fn program(name: &'static str, path: &OsStr) -> Result<PathBuf, CannotLaunch> {
    teamster_isolate::find_program(name, path).ok_or_else(|| CannotLaunch::NotInstalled {
        program: name,
        hint: how_to_install(name).unwrap_or("install it"),
    })
}

/// Returns the folder with Gemini's settings and sign-in.
pub(crate) fn gemini_folder() -> Option<PathBuf> {
    let home = std::env::var_os(GEMINI_HOME).or_else(|| std::env::var_os("HOME"))?;
    Some(PathBuf::from(home).join(GEMINI_FOLDER))
}

/// Returns how to install a client.
pub fn how_to_install(name: &str) -> Option<&'static str> {
    Client::find(name).map(|client| client.install)
}

/// Returns every client in the folders of `path`. All are asked for their versions at the same time, each for at most
/// `patience`.
pub fn clients(path: &OsStr, patience: Duration) -> Vec<InstalledClient> {
    let with_driver = Client::names().map(|name| (name, true));
    let names = with_driver.chain(OTHER_CLIENTS.iter().map(|name| (*name, false)));
    thread::scope(|scope| {
        let asked: Vec<_> = names
            .map(|(name, driver)| scope.spawn(move || look(path, name, driver, patience)))
            .collect();
        asked
            .into_iter()
            .filter_map(|answer| answer.join().ok().flatten())
            .collect()
    })
}

/// Returns the clients that have a driver and are in the folders of `path`, the preferred one first. None of them is started.
pub fn found(path: &OsStr) -> Vec<String> {
    Client::names()
        .filter(|name| teamster_isolate::find_program(name, path).is_some())
        .map(str::to_owned)
        .collect()
}

/// Returns every name that [`clients`] looks for.
pub fn names() -> impl Iterator<Item = &'static str> {
    Client::names().chain(OTHER_CLIENTS)
}

fn look(
    path: &OsStr,
    name: &'static str,
    driver: bool,
    patience: Duration,
) -> Option<InstalledClient> {
    let file = teamster_isolate::find_program(name, path)?;
    let program = match name {
        "codex" => native_codex(&file),
        _ => file.clone(),
    };
    let mut missing = Vec::new();
    let version = match version_of(&program, name, patience) {
        Ok(version) => Some(version),
        Err(why) => {
            missing.push(why);
            None
        }
    };
    match name {
        "codex" if is_script(&program) => missing.push(
            "its native program was not found beside it, and killing the Node one leaves the other behind; \
             reinstall it with its optional dependencies"
                .to_owned(),
        ),
        "gemini" => missing.extend(node_is_missing(path, patience)),
        _ => {}
    }
    Some(InstalledClient {
        name,
        path: file,
        program,
        version,
        driver,
        missing,
    })
}

fn version_of(program: &Path, name: &str, patience: Duration) -> Result<String, String> {
    match teamster_isolate::probe(program, ["--version"], patience) {
        Ok(answer) if answer.ok => answer
            .first_line()
            .map(str::to_owned)
            .ok_or_else(|| format!("`{name} --version` says nothing")),
        Ok(_) => Err(format!("`{name} --version` fails")),
        Err(silence) => Err(silence.to_string()),
    }
}

fn node_is_missing(path: &OsStr, patience: Duration) -> Option<String> {
    let Some(node) = teamster_isolate::find_program("node", path) else {
        return Some(format!(
            "it needs Node {OLDEST_NODE} or newer, and there is no `node` on PATH"
        ));
    };
    let version = version_of(&node, "node", patience).ok()?;
    let major: u32 = version
        .trim_start_matches('v')
        .split('.')
        .next()?
        .parse()
        .ok()?;
    (major < OLDEST_NODE).then(|| {
        format!(
            "it needs Node {OLDEST_NODE} or newer, and `node` is {version}; install a newer one"
        )
    })
}

/// Returns the protocol for a Codex by its version. A Codex that does not report its version uses the protocol that every
/// version has.
pub(crate) fn codex_protocol(program: &Path) -> CodexProtocol {
    let version = version_of(program, "codex", VERSION_TIMEOUT).ok();
    match version.as_deref().and_then(codex_version) {
        Some(version) if version >= OLDEST_APP_SERVER => CodexProtocol::AppServer,
        _ => CodexProtocol::Exec,
    }
}

/// Parses a version: `codex-cli 0.166.0` → (0, 166).
fn codex_version(text: &str) -> Option<(u32, u32)> {
    let number = text.strip_prefix("codex-cli ")?;
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns the native Codex behind the Node program of the npm package, or the same path when there is none.
pub(crate) fn native_codex(command: &Path) -> PathBuf {
    native_beside(command).unwrap_or_else(|| command.to_owned())
}

/// Finds the native program: `…/@openai/codex/bin/codex.js` →
/// `…/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex`, and the places where other package managers and
/// older versions put it.
fn native_beside(command: &Path) -> Option<PathBuf> {
    let script = command.canonicalize().ok()?;
    if script.extension() != Some(OsStr::new("js")) {
        return None;
    }
    let package = script.parent()?.parent()?;
    let (platform, triple) = platform()?;
    let name = format!("codex-{platform}");
    let inner = package.join("node_modules/@openai").join(&name);
    let beside = package.parent()?.join(&name);
    [inner, beside, package.to_owned()]
        .iter()
        .flat_map(|root| {
            let vendor = root.join("vendor").join(triple);
            [vendor.join("bin/codex"), vendor.join("codex/codex")]
        })
        .find(|file| teamster_isolate::is_program(file))
}

/// Returns the names of this platform in npm and in Rust.
fn platform() -> Option<(&'static str, &'static str)> {
    Some(match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => ("linux-x64", "x86_64-unknown-linux-musl"),
        ("linux", "aarch64") => ("linux-arm64", "aarch64-unknown-linux-musl"),
        ("macos", "x86_64") => ("darwin-x64", "x86_64-apple-darwin"),
        ("macos", "aarch64") => ("darwin-arm64", "aarch64-apple-darwin"),
        _ => return None,
    })
}

fn is_script(program: &Path) -> bool {
    program
        .canonicalize()
        .is_ok_and(|real| real.extension() == Some(OsStr::new("js")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codex_version_is_read_from_its_own_words_only() {
        for (text, expected) in [
            ("codex-cli 0.166.0", Some((0, 166))),
            ("codex-cli 1.2.3-alpha.4", Some((1, 2))),
            ("codex-cli 0.0.0", Some((0, 0))),
            ("codex-cli", None),
            ("{\"type\":\"thread.started\"}", None),
            ("0.166.0", None),
            ("codex-cli x.y", None),
        ] {
            assert_eq!(codex_version(text), expected, "{text}");
        }
        assert!((0, 99) < OLDEST_APP_SERVER && OLDEST_APP_SERVER < (1, 0));
    }
}

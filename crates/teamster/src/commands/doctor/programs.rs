//! Which programs are there, and which versions.

use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::Check;
use crate::env_vars;

/// A program that does not tell its version in this time has a problem of its own.
const PATIENCE: Duration = Duration::from_secs(5);
const CLIENTS: [&str; 5] = ["claude", "codex", "gemini", "opencode", "qwen"];
/// The first git that can merge without a work tree (`merge-tree --write-tree`).
const OLDEST_GIT: (u32, u32) = (2, 38);

/// A client on this machine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Client {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    pub(super) version: Option<String>,
}

struct Found {
    path: PathBuf,
    version: Result<String, String>,
}

/// Asks all programs at once: a slow one costs its own time only.
pub(super) fn checks() -> (Vec<Check>, Vec<Client>) {
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    thread::scope(|scope| {
        let path = &path;
        let git = scope.spawn(|| look(path, "git", "--version"));
        let tmux = scope.spawn(|| look(path, "tmux", "-V"));
        let asked: Vec<_> = CLIENTS
            .into_iter()
            .map(|name| (name, scope.spawn(move || look(path, name, "--version"))))
            .collect();
        let mut clients = Vec::new();
        let mut silent = Vec::new();
        for (name, answer) in asked {
            if let Some(found) = answer.join().ok().flatten() {
                if let Err(error) = &found.version {
                    silent.push(format!("{name}: {error}"));
                }
                clients.push(Client {
                    name,
                    path: found.path,
                    version: found.version.ok(),
                });
            }
        }
        let checks = vec![
            git_check(git.join().ok().flatten()),
            tmux_check(tmux.join().ok().flatten()),
            clients_check(&clients, &silent),
        ];
        (checks, clients)
    })
}

fn look(path: &OsString, name: &str, flag: &str) -> Option<Found> {
    let file = teamster_isolate::find_program(name, path)?;
    let version = match teamster_isolate::ask(&file, [flag], PATIENCE) {
        Ok(answer) if answer.ok => answer
            .first_line()
            .map(str::to_owned)
            .ok_or_else(|| format!("`{name} {flag}` says nothing")),
        Ok(_) => Err(format!("`{name} {flag}` fails")),
        Err(silence) => Err(silence.to_string()),
    };
    Some(Found {
        path: file,
        version,
    })
}

fn git_check(found: Option<Found>) -> Check {
    const HINT: &str = "install git 2.38 or newer: worktrees need it";
    let Some(found) = found else {
        return Check::wrong("git", "not found on PATH", HINT);
    };
    match found.version {
        Err(error) => Check::wrong("git", error, HINT),
        Ok(version) if numbers(&version).is_some_and(|found| found < OLDEST_GIT) => {
            Check::wrong("git", format!("{version} is too old"), HINT)
        }
        Ok(version) => Check::fine("git", version),
    }
}

/// `git version 2.47.3` → (2, 47)
fn numbers(version: &str) -> Option<(u32, u32)> {
    let start = version.find(|character: char| character.is_ascii_digit())?;
    let mut parts = version[start..].split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn tmux_check(found: Option<Found>) -> Check {
    const HINT: &str =
        "install tmux to watch workers and attach to them; everything else works without";
    let check = match found.map(|found| found.version) {
        None => Check::wrong("tmux", "not found on PATH", HINT),
        Some(Err(error)) => Check::wrong("tmux", error, HINT),
        Some(Ok(version)) => Check::fine("tmux", version),
    };
    check.optional()
}

fn clients_check(clients: &[Client], silent: &[String]) -> Check {
    let names: Vec<&str> = clients.iter().map(|client| client.name).collect();
    let check = if !silent.is_empty() {
        Check::wrong(
            "clients",
            silent.join("; "),
            "run it by hand to see what it says",
        )
    } else if names.is_empty() {
        Check::wrong(
            "clients",
            format!("none of {} is on PATH", CLIENTS.join(", ")),
            "install one to run agents; coordination works without",
        )
    } else {
        Check::fine("clients", names.join(", "))
    };
    check.optional()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_its_numbers() {
        assert_eq!(numbers("git version 2.47.3"), Some((2, 47)));
        assert_eq!(numbers("git version 2.9.5 (Apple Git-1)"), Some((2, 9)));
        assert!(numbers("git version 2.9.5") < Some(OLDEST_GIT));
        assert_eq!(numbers("git"), None);
    }
}

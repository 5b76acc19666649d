//! Checks which programs are installed, and their versions.

use std::ffi::OsString;
use std::thread;
use std::time::Duration;

use teamster_agents::detect::{self, InstalledClient};
use teamster_app::env_vars;

use super::DoctorCheck;

/// How long a program may take to print its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first git version that can merge without a work tree (`merge-tree --write-tree`).
const OLDEST_GIT: (u32, u32) = (2, 38);

/// The version that a program reports, or an error.
type Version = Result<String, String>;

/// Runs all programs at the same time, so that a slow one delays no other.
pub(super) fn checks() -> (Vec<DoctorCheck>, Vec<InstalledClient>) {
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    thread::scope(|scope| {
        let path = &path;
        let git = scope.spawn(|| look(path, "git", "--version"));
        let tmux = scope.spawn(|| look(path, "tmux", "-V"));
        let clients = scope.spawn(|| detect::clients(path, PATIENCE));
        let clients = clients.join().unwrap_or_default();
        let checks = vec![
            git_check(git.join().ok().flatten()),
            tmux_check(tmux.join().ok().flatten()),
            clients_check(&clients),
        ];
        (checks, clients)
    })
}

fn look(path: &OsString, name: &str, flag: &str) -> Option<Version> {
    let file = teamster_isolate::find_program(name, path)?;
    Some(match teamster_isolate::probe(&file, [flag], PATIENCE) {
        Ok(answer) if answer.ok => answer
            .first_line()
            .map(str::to_owned)
            .ok_or_else(|| format!("`{name} {flag}` says nothing")),
        Ok(_) => Err(format!("`{name} {flag}` fails")),
        Err(silence) => Err(silence.to_string()),
    })
}

fn git_check(version: Option<Version>) -> DoctorCheck {
    const HINT: &str = "install git 2.38 or newer: worktrees need it";
    let Some(version) = version else {
        return DoctorCheck::wrong("git", "not found on PATH", HINT);
    };
    match version {
        Err(error) => DoctorCheck::wrong("git", error, HINT),
        Ok(version) if numbers(&version).is_some_and(|found| found < OLDEST_GIT) => {
            DoctorCheck::wrong("git", format!("{version} is too old"), HINT)
        }
        Ok(version) => DoctorCheck::fine("git", version),
    }
}

/// Returns the first two parts of a version: (2, 47) for `git version 2.47.3`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let start = version.find(|character: char| character.is_ascii_digit())?;
    let mut parts = version[start..].split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn tmux_check(version: Option<Version>) -> DoctorCheck {
    const HINT: &str =
        "install tmux to watch workers and attach to them; everything else works without it";
    let check = match version {
        None => DoctorCheck::wrong("tmux", "not found on PATH", HINT),
        Some(Err(error)) => DoctorCheck::wrong("tmux", error, HINT),
        Some(Ok(version)) => DoctorCheck::fine("tmux", version),
    };
    check.optional()
}

fn clients_check(clients: &[InstalledClient]) -> DoctorCheck {
    let names: Vec<&str> = clients.iter().map(|client| client.name).collect();
    let missing: Vec<String> = clients
        .iter()
        .flat_map(|client| {
            let all = client.missing.iter();
            all.map(|missing| format!("{}: {missing}", client.name))
        })
        .collect();
    let check = if names.is_empty() {
        DoctorCheck::wrong(
            "clients",
            format!("none of {} is on PATH", all_names()),
            "install one to run agents; coordination works without them",
        )
    } else if missing.is_empty() {
        DoctorCheck::fine("clients", names.join(", "))
    } else {
        DoctorCheck::wrong(
            "clients",
            missing.join("; "),
            "until then `command:` and `scripted:` workers and the other clients work",
        )
    };
    check.optional()
}

fn all_names() -> String {
    detect::names().collect::<Vec<_>>().join(", ")
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

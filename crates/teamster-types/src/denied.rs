//! The paths that no agent may touch, whatever its task reserves.

use std::path::{Component, Path};

/// Returns the pattern that denies a path relative to the project: `.git/**`, `.env*`, `**/.env*`, `**/secrets/**`,
/// `**/.ssh/**`. The folders themselves are denied with what is in them, and so is the `.git` file of a worktree.
///
/// Case is ignored, because on some file systems `.GIT` is `.git`.
pub fn pattern(path: &Path) -> Option<&'static str> {
    let mut parts = path
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| part.as_os_str().to_string_lossy().to_lowercase())
        .peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part.as_str() {
            // At every level: a repository inside the project has its own hooks and settings.
            ".git" => return Some(".git/**"),
            "secrets" if !is_last => return Some("**/secrets/**"),
            ".ssh" => return Some("**/.ssh/**"),
            name if name.starts_with(".env") => return Some("**/.env*"),
            _ => {}
        }
    }
    None
}

/// Returns the pattern that denies a folder together with its contents: this includes the folder `secrets`, although it
/// is not a secret itself.
pub fn folder_pattern(path: &Path) -> Option<&'static str> {
    pattern(&path.join("any"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_of_secrets_is_denied_with_what_is_in_it() {
        for path in ["secrets", "a/Secrets", ".ssh", ".env", ".git"] {
            assert!(folder_pattern(Path::new(path)).is_some(), "{path}");
        }
        for path in ["node_modules", "secrets-of-trade", ".venv", ""] {
            assert_eq!(folder_pattern(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn secrets_and_the_repository_itself_are_denied() {
        for path in [
            ".git",
            ".git/hooks/pre-commit",
            "sub/.git/config",
            ".GIT/config",
            ".env",
            ".env.local",
            "a/b/.envrc",
            ".env/bin/python",
            "secrets/key",
            "a/Secrets/b/c",
            ".ssh/id",
            "a/.ssh",
        ] {
            assert!(pattern(Path::new(path)).is_some(), "{path}");
        }
        for path in [
            ".gitignore",
            ".github/workflows/ci.yml",
            "src/env.rs",
            "secrets",
            "secrets.rs",
            "my-secrets/a",
            "a.env",
            "",
        ] {
            assert_eq!(pattern(Path::new(path)), None, "{path}");
        }
    }
}

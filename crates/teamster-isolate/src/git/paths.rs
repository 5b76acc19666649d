//! What a worker has changed against what it may change.

use teamster_types::paths::{Glob, any_matches};

use super::changes::Change;

/// The changes in paths that are nobody's to change.
pub fn denied(changes: &[Change]) -> Vec<&Change> {
    let globs = teamster_types::paths::denied();
    matching(changes, |path| any_matches(&globs, path))
}

/// The changes outside what a task has reserved. A task without paths has reserved nothing, and nothing is outside.
pub fn outside<'a>(changes: &'a [Change], reserved: &[Glob]) -> Vec<&'a Change> {
    if reserved.is_empty() {
        return Vec::new();
    }
    matching(changes, |path| !any_matches(reserved, path))
}

fn matching(changes: &[Change], is: impl Fn(&str) -> bool) -> Vec<&Change> {
    let all = changes.iter();
    all.filter(|change| is(&change.path.to_string_lossy()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::ChangeKind;

    fn changes(paths: &[&str]) -> Vec<Change> {
        let change = |path: &&str| Change {
            path: path.into(),
            kind: ChangeKind::Modified,
        };
        paths.iter().map(change).collect()
    }

    fn names(found: &[&Change]) -> Vec<String> {
        let names = found.iter().map(|change| change.path.display().to_string());
        names.collect()
    }

    #[test]
    fn a_denied_path_and_one_outside_are_found() {
        let changes = changes(&[
            "src/auth/a.rs",
            "src/ui/b.rs",
            "deploy/.env.prod",
            "docs/x.md",
        ]);
        assert_eq!(names(&denied(&changes)), ["deploy/.env.prod"]);
        let reserved = [
            Glob::new("src/auth").unwrap(),
            Glob::new("**/*.md").unwrap(),
        ];
        assert_eq!(
            names(&outside(&changes, &reserved)),
            ["src/ui/b.rs", "deploy/.env.prod"]
        );
        assert!(outside(&changes, &[]).is_empty());
    }
}

//! The demo's project, and the folder that holds it.

use std::path::{Path, PathBuf};

use teamster_app::env_vars;
use teamster_fs::Dir;
use teamster_isolate::git::{Author, Git, GitError};

use crate::error::{AppError, Result};

/// The project's folder, inside the demo's folder.
pub const PROJECT: &str = "project";
const READABLE: u32 = 0o644;

macro_rules! till {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("till/", $path)))),*]
    };
}

/// Every file of the project.
const FILES: [(&str, &str); 10] = till![
    "README.md",
    "CHANGES.md",
    "lib/sum.sh",
    "lib/discount.sh",
    "tests/sum.sh",
    "tests/discount.sh",
    "tests/receipt.sh",
    "test.sh",
    "check.sh",
    "demo/script.toml",
];

/// Creates the demo's folder and the project in it, at the given path or as a new temporary folder.
pub fn make(named: Option<PathBuf>) -> Result<PathBuf> {
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let refused = |error: GitError| AppError::refused(error.message).hint(error.hint);
    let git = Git::find(&path).map_err(refused)?;
    let folder = named.unwrap_or_else(new_name);
    let dir = Dir::open_or_create_root(&folder)?;
    if !dir.entries()?.is_empty() {
        return Err(
            AppError::refused(format!("{} is not empty", folder.display()))
                .hint("name a new or empty folder, or leave --keep-dir out"),
        );
    }
    let project = dir.shared_child_or_create(PROJECT)?;
    for (path, content) in FILES {
        let (inner, name) = match path.split_once('/') {
            Some((inner, name)) => (Some(project.shared_child_or_create(inner)?), name),
            None => (None, path),
        };
        let inner = inner.as_ref().unwrap_or(&project);
        inner.replace_shared(name, content.as_bytes(), READABLE)?;
    }
    git.begin(
        project.path(),
        "main",
        "Begin a till, with failing tests",
        &Author::default(),
    )
    .map_err(refused)?;
    // With symlinks in the path the project would have two names.
    Ok(teamster_fs::real_path(&folder).unwrap_or(folder))
}

fn new_name() -> PathBuf {
    let mut number = teamster_fs::random_hex();
    number.truncate(8);
    temporary().join(format!("teamster-demo-{number}"))
}

/// Returns `$TMPDIR`, else the system's temporary folder.
fn temporary() -> PathBuf {
    let folder = std::env::temp_dir();
    let current = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    current.join(folder)
}

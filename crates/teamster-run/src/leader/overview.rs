//! What a repository looks like, in few words.

/// No more files than this are named.
const MOST_PATHS: usize = 200;
/// A path that is longer says nothing about the repository,
const LONGEST_PATH: usize = 200;
/// and all of them together take no more than this, in bytes.
const ALL_PATHS: usize = 10_000;
/// So much of the README is shown.
const README_LINES: usize = 40;
const README_CHARS: usize = 4_000;

/// Names by which a README is known, the preferred one first.
const READMES: [&str; 4] = ["README.md", "README", "README.txt", "README.rst"];

/// What a repository looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Some of its files.
    pub paths: Vec<String>,
    /// How many files it has.
    pub files: usize,
    /// How its README begins.
    pub readme: String,
}

impl Overview {
    /// From all tracked files and the text of the README. Of many files the ones near the top are named, because they
    /// tell the most.
    pub fn new<S: AsRef<str>>(tracked: &[S], readme: &str) -> Self {
        let mut paths: Vec<&str> = tracked
            .iter()
            .map(AsRef::as_ref)
            .filter(|path| path.len() <= LONGEST_PATH && !path.contains(char::is_control))
            .collect();
        paths.sort_by_key(|path| (path.matches('/').count(), *path));
        paths.truncate(MOST_PATHS);
        let mut room = ALL_PATHS;
        paths.retain(|path| {
            let fits = path.len() <= room;
            room = if fits { room - path.len() } else { 0 };
            fits
        });
        paths.sort_unstable();
        let lines: Vec<&str> = readme.trim().lines().take(README_LINES).collect();
        Self {
            paths: paths.into_iter().map(str::to_owned).collect(),
            files: tracked.len(),
            readme: lines.join("\n").chars().take(README_CHARS).collect(),
        }
    }

    /// The README among tracked files, if there is one.
    pub fn readme_of<S: AsRef<str>>(tracked: &[S]) -> Option<&'static str> {
        READMES
            .into_iter()
            .find(|name| tracked.iter().any(|path| path.as_ref() == *name))
    }
}

//! What lies in a store's folders, seen as any other program sees it.

use std::path::Path;

/// Files and folders that must not stay once somebody has made the teams whole.
pub fn leftovers(claude: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![claude.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let end = path
                .extension()
                .and_then(|end| end.to_str())
                .unwrap_or_default();
            let is_lock = path.is_dir() && end == "lock";
            if is_lock || ["next", "gone", "tmp"].contains(&end) {
                found.push(path.display().to_string());
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

//! Embeds the page built in `web/` into the binary. Without it, the server shows a page that describes the API.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script is no part of the product"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let built = root.join("../../web/dist");
    let built = built.canonicalize().unwrap_or(built);
    println!("cargo:rerun-if-changed={}", built.display());
    let mut files = Vec::new();
    find(&built, &mut files)?;
    files.sort();
    let mut text = String::from("pub(super) static FILES: &[(&str, &[u8])] = &[\n");
    for file in files {
        let path = file.display().to_string();
        let name = file.strip_prefix(&built).unwrap_or(&file).display();
        let _ = writeln!(
            text,
            "    ({:?}, include_bytes!({path:?})),",
            format!("/{name}")
        );
    }
    text.push_str("];\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(out.join("files.rs"), text)
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else {
            files.push(path.canonicalize()?);
        }
    }
    Ok(())
}

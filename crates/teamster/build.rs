//! Makes the binary one file that needs nothing from the machine it runs on, and starts faster. Tests run a debug build
//! thousands of times, and it is linked like the release.
//!
//! The usual way, `-C target-feature=+crt-static`, only works with an explicit `--target`: without one it also
//! reaches the procedural macros, which must be shared libraries. So the C library is linked in here, by arguments
//! that go to our binaries only. `cargo build --release` is then all it takes.
//!
//! rustc puts `-Bdynamic -lgcc_s -lc …` on the linker's command line. A linker looks for `libc.so` and `libc.a`
//! folder by folder, so a folder of ours that comes first and holds only `.a` files decides the matter. These are
//! linker scripts that name the static libraries of the C compiler. `libgcc_s` has no static form: its parts are
//! called `gcc_eh` and `gcc`.
//!
//! Where anything needed is missing, the binary is linked as usual.

#![allow(
    clippy::disallowed_methods,
    reason = "the bans are for the product; this runs on the machine that builds it"
)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What rustc asks for on Linux with the GNU C library.
const LIBRARIES: [&str; 6] = ["c", "m", "rt", "pthread", "util", "dl"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CC");
    if !wanted() {
        return;
    }
    let Some(folder) = env::var_os("OUT_DIR").map(|out| PathBuf::from(out).join("static")) else {
        return;
    };
    if prepare(&folder).is_some() {
        println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
        // At fixed addresses: one that is moved when it starts has 14,000 of them to write first, in a fifth of the time of a hook.
        println!("cargo:rustc-link-arg-bins=-no-pie");
        println!("cargo:rustc-link-arg-bins=-static");
    }
}

fn wanted() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_static = env::var("CARGO_CFG_TARGET_FEATURE")
        .is_ok_and(|features| features.split(',').any(|feature| feature == "crt-static"));
    is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        // The libraries of another architecture are not where this compiler looks.
        && env::var("HOST").ok() == env::var("TARGET").ok()
        && !is_static
}

/// Fills the folder; `None` when something needed is not installed.
fn prepare(folder: &Path) -> Option<()> {
    let found: Vec<PathBuf> = LIBRARIES
        .iter()
        .map(|name| static_library(name))
        .collect::<Option<_>>()?;
    static_library("gcc_eh")?;
    object("crtbeginT.o")?;
    fs::create_dir_all(folder).ok()?;
    for (name, path) in LIBRARIES.iter().zip(found) {
        let script = format!("INPUT ( \"{}\" )\n", path.display());
        fs::write(folder.join(format!("lib{name}.a")), script).ok()?;
    }
    fs::write(folder.join("libgcc_s.a"), "GROUP ( -lgcc_eh -lgcc -lc )\n").ok()
}

fn static_library(name: &str) -> Option<PathBuf> {
    object(&format!("lib{name}.a"))
}

/// Where the C compiler finds a file; it answers with the bare name when it does not.
fn object(file: &str) -> Option<PathBuf> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let answer = Command::new(compiler)
        .arg(format!("-print-file-name={file}"))
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    (path.is_absolute() && path.exists()).then_some(path)
}

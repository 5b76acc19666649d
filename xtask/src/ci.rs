//! Everything that a change must pass, on a machine that has a Rust toolchain and little else.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::inject::{self, Coverage, Tally};
use crate::product::{
    Finished, Product, cargo, check_names, is_wanted, must, on_path, target, words, workspace,
};
use crate::{bench, docs, documents, race, web};

/// Sizes of the races; `cargo xtask evidence` has larger ones.
const RACES: usize = 5;
const RACE_TASKS: usize = 200;
const CARGO_DENY: &str = "0.20.2";
/// Programs that the checks need, and the Debian packages that bring them.
const PROGRAMS: [(&str, &str); 6] = [
    ("git", "git"),
    ("git-lfs", "git-lfs"),
    ("strace", "strace"),
    ("tmux", "tmux"),
    ("script", "bsdutils"),
    ("unshare", "util-linux"),
];
/// The folder of the in-memory file system on Linux, and how much space the tests need at most.
const MEMORY: &str = "/dev/shm";
const ENOUGH_MEMORY: u64 = 4 << 30;
/// The release builds that the steps after the tests need, in order.
const BACKGROUND_BUILD: &str = r#"for package in teamster workload; do
    "$CARGO" build --quiet --release --package "$package" || exit
done"#;
/// A file of the package pgbouncer, to see whether it is installed.
const POOLER: &str = "/usr/sbin/pgbouncer";
/// A file of the package fonts-noto-cjk, to see whether it is installed.
const CJK_FONT: &str = "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc";
const LARGEST_BINARY: u64 = 25 * 1000 * 1000;

type Step = (&'static str, fn() -> Result<()>);

/// The steps, ordered so that mistakes are found early.
const STEPS: [Step; 15] = [
    ("tools", install_tools),
    ("format", || must(&mut cargo("fmt --all --check"))),
    ("lints", || {
        must(&mut cargo(
            "clippy --quiet --workspace --all-targets --locked -- --deny warnings",
        ))
    }),
    ("dependencies", check_dependencies),
    ("web", web::check),
    ("build", build),
    ("tests", run_tests),
    ("browser", web::test_in_browser),
    ("release", || check_static(&Product::build()?.binary)),
    ("documents", documents::run),
    ("docs", || docs::run(&Product::build()?, true)),
    ("kills", || {
        judge(&inject::kills(&Product::build()?, Coverage::Every)?)
    }),
    ("errors", || {
        judge(&inject::errors(&Product::build()?, Coverage::Sample)?)
    }),
    ("races", races),
    // Only checks that it runs: the numbers mean nothing on a shared machine.
    ("bench", || bench::run(true, false, &[], &[])),
];

/// Checks that were skipped, and why.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs all steps, or only some; the error lists those that failed.
pub(crate) fn run(only: &[String]) -> Result<()> {
    check_names("step", only, &STEPS.map(|(name, _)| name))?;
    let start = Instant::now();
    let mut summary = String::new();
    let mut failed = Vec::new();
    let mut note = |name: &str, end: &str, took: Duration| {
        let _ = writeln!(
            summary,
            "  {name:<14} {end:<7} {:>7.1} s",
            took.as_secs_f64()
        );
    };
    for (name, step) in STEPS {
        if !is_wanted(name, only) {
            continue;
        }
        println!("\n== {name}");
        let begin = Instant::now();
        let end = match step() {
            Ok(()) => "ok",
            Err(error) => {
                println!("FAILED: {error:#}");
                failed.push(format!("{name}: {error:#}"));
                "FAILED"
            }
        };
        println!("-- {name}: {:.1} s", begin.elapsed().as_secs_f64());
        note(name, end, begin.elapsed());
    }
    note("total", "", start.elapsed());
    println!("\n== summary\n{summary}");
    let skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    for check in skipped.iter() {
        println!("SKIPPED: {check}");
    }
    let count = failed.len();
    ensure!(count == 0, "{count} steps failed\n{}", failed.join("\n"));
    Ok(())
}

/// Skips a check that this machine cannot run: an error when `CI` is set, otherwise a note now and in the summary.
pub(crate) fn skip(check: &str, why: &str) -> Result<()> {
    let note = format!("{check}: {why}");
    teamster_testkit::skip(&note).map_err(anyhow::Error::msg)?;
    remember_skipped(note);
    Ok(())
}

fn remember_skipped(note: String) {
    let mut skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    skipped.push(note);
}

/// Installs only the programs that are missing.
fn install_tools() -> Result<()> {
    let missing = || PROGRAMS.iter().filter(|(name, _)| on_path(name).is_none());
    let mut packages: Vec<&str> = missing().map(|(_, package)| *package).collect();
    if teamster_testkit::postgres::programs().is_none() {
        packages.push("postgresql");
    }
    if !Path::new(POOLER).exists() {
        packages.push("pgbouncer");
    }
    let node = web::check_node();
    if node.is_ok() {
        if web::chromium().is_none() {
            packages.push("chromium");
        }
        if !Path::new(CJK_FONT).exists() {
            packages.push("fonts-noto-cjk");
        }
    }
    if packages.is_empty() {
        println!("  all programs are there");
    } else if let Err(error) = apt_install(&packages) {
        skip("tools", &format!("{}: {error:#}", packages.join(", ")))?;
    }
    for (name, _) in missing() {
        skip("tools", &format!("{name} is missing"))?;
    }
    if let Err(why) = node {
        skip("tools", &format!("no browser is installed: {why:#}"))?;
    }
    if cargo_deny().exists() {
        return Ok(());
    }
    println!("  installing cargo-deny {CARGO_DENY}, once");
    // It runs for a second; an optimized build would take minutes.
    let mut install = cargo("install --quiet --locked --debug cargo-deny --version");
    let tools = target().join("tools");
    install.arg(CARGO_DENY).arg("--root").arg(&tools);
    // The tool's build must not mix with the project's.
    must(install.env("CARGO_TARGET_DIR", tools.join("build")))
}

fn apt_install(packages: &[&str]) -> Result<()> {
    println!("  installing {}", packages.join(", "));
    ensure!(
        on_path("apt-get").is_some(),
        "they must be installed by hand, because there is no apt-get"
    );
    let is_root = rustix::process::geteuid().is_root();
    let apt = |words: &[&str]| {
        let mut command = Command::new(if is_root { "apt-get" } else { "sudo" });
        if !is_root {
            command.arg("apt-get");
        }
        must(command.args(words).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["-qq", "update"])?;
    let install = ["-qq", "install", "--yes", "--no-install-recommends"];
    apt(&[&install, packages].concat())
}

fn cargo_deny() -> PathBuf {
    target().join("tools/bin/cargo-deny")
}

/// Builds the tests, and starts the release build, which runs in the background while the tests wait for other
/// processes.
///
/// Its last part uses one core only. At a low priority it has done most of that when the tests end, and it slows them
/// down little. The steps that need it wait for it and report its errors.
fn build() -> Result<()> {
    must(&mut cargo("test --quiet --workspace --locked --no-run"))?;
    let mut background = Command::new("nice");
    background.args(["-n", "5", "sh", "-c", BACKGROUND_BUILD]);
    background.env("CARGO", cargo("").get_program());
    let mut background = background.current_dir(workspace()).spawn()?;
    std::thread::spawn(move || background.wait());
    Ok(())
}

/// Runs all tests once. They wait for other processes about half of their time, so each core runs two at a time.
fn run_tests() -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let threads = std::env::var("RUST_TEST_THREADS").unwrap_or_else(|_| (2 * cores).to_string());
    let mut tests = cargo("test --workspace --locked --no-fail-fast");
    if is_good_for_tests(Path::new(MEMORY)) {
        tests.env("TMPDIR", MEMORY);
    }
    must(tests.env("RUST_TEST_THREADS", threads))
}

/// Returns whether there is an in-memory file system that is large enough for the tests and allows executing
/// programs.
///
/// No test can tell it from a disk, on which the tests would mostly wait for the disk.
fn is_good_for_tests(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|found| {
        let is_large = found.f_bavail.saturating_mul(found.f_frsize) >= ENOUGH_MEMORY;
        is_large && !found.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC)
    })
}

/// Checks licences, sources and banned crates, and advisories when their database can be fetched.
fn check_dependencies() -> Result<()> {
    let deny = |line: &str| {
        let mut command = Command::new(cargo_deny());
        command.args(words(line)).current_dir(workspace());
        command
    };
    let check = "--all-features check --hide-inclusion-graph";
    must(&mut deny(&format!("{check} bans licenses sources")))?;
    match Finished::checked(&mut deny("fetch db")) {
        Ok(_) => must(&mut deny(&format!("{check} --disable-fetch advisories"))),
        // A failed download is not a missing tool, so it is only a note, even under CI.
        Err(error) => {
            remember_skipped(format!("advisories: {error:#}"));
            Ok(())
        }
    }
}

/// Prints the results and fails on any violation.
fn judge(tallies: &[Tally]) -> Result<()> {
    for tally in tallies {
        println!("  {}", tally.line());
    }
    let violations = tallies.iter().flat_map(|tally| tally.violations.clone());
    let violations: Vec<String> = violations.collect();
    let count = violations.len();
    ensure!(count == 0, "{count} violations\n{}", violations.join("\n"));
    let tried: usize = tallies.iter().map(|tally| tally.tried).sum();
    let hit: usize = tallies.iter().map(|tally| tally.hit).sum();
    // A fault that is never reached proves nothing. A run may make one call less than the counted one.
    let is_enough = tallies
        .iter()
        .all(|tally| tally.hit * 10 >= tally.tried * 9 && tally.hit > 0);
    ensure!(is_enough, "only {hit} of {tried} faults were met");
    println!("  {tried} faults, no violation");
    Ok(())
}

fn races() -> Result<()> {
    let product = Product::build()?;
    for races in [
        race::for_tasks(&product, RACES, RACE_TASKS)?,
        race::for_stale_locks(&product, RACES, RACE_TASKS)?,
    ] {
        println!("  {}", races.line());
        let failure = races.failure();
        ensure!(failure.is_none(), "{}", failure.unwrap_or_default());
    }
    Ok(())
}

/// Fails unless the binary needs no other file at run time and is small enough.
fn check_static(binary: &Path) -> Result<()> {
    let bytes = std::fs::metadata(binary)?.len();
    println!("  {bytes} bytes");
    let is_small = bytes <= LARGEST_BINARY;
    ensure!(is_small, "the limit is {LARGEST_BINARY} bytes");
    if cfg!(target_os = "linux") {
        let mut readelf = Command::new("readelf");
        readelf.args(["--program-headers", "--wide"]).arg(binary);
        let headers = Finished::checked(&mut readelf)?.stdout;
        ensure!(headers.contains(" LOAD "), "the binary is no ELF file");
        ensure!(
            !headers.contains(" INTERP "),
            "the binary is not static: it needs a loader"
        );
        println!("  static: no interpreter, no shared library");
    }
    Ok(())
}

//! The tests. What fails is run once more by itself and named: a test that passes then is reported as flaky, which is a
//! defect to be mended, not a success that is kept quiet; several of them are a failure.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::product::cargo;

/// More than this many are no chance.
const MOST_FLAKY: usize = 2;

pub(super) fn run() -> Result<()> {
    let (passed, failed) = tests(&[])?;
    if passed {
        return Ok(());
    }
    if failed.is_empty() || failed.len() > MOST_FLAKY {
        bail!("{} tests failed: {}", failed.len(), failed.join(", "));
    }
    for name in &failed {
        println!("  once more, by itself: {name}");
        let (passed, again) = tests(&["--", "--exact", name])?;
        if !passed || !again.is_empty() {
            bail!("the test {name} fails");
        }
    }
    for name in &failed {
        println!("FLAKY, to be mended: {name}");
    }
    Ok(())
}

/// Whether all passed, and those that did not. Everything they print is printed.
fn tests(more: &[&str]) -> Result<(bool, Vec<String>)> {
    let mut child = cargo(["test", "--workspace", "--locked", "--no-fail-fast"])
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the tests")?;
    let output = child.stdout.take().context("the tests have no output")?;
    let mut failed = Vec::new();
    let mut out = std::io::stdout().lock();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        out.write_all(&line)?;
        out.write_all(b"\n")?;
        failed.extend(failed_test(&String::from_utf8_lossy(&line)));
    }
    Ok((child.wait()?.success(), failed))
}

/// The test that a line says has failed.
fn failed_test(line: &str) -> Option<String> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    (!name.contains(' ')).then(|| name.to_owned())
}

#[cfg(test)]
mod reading {
    use super::failed_test;

    #[test]
    fn only_the_line_of_a_failed_test_names_one() {
        assert_eq!(
            failed_test("test isolate::panes::x ... FAILED").as_deref(),
            Some("isolate::panes::x")
        );
        for line in ["test a ... ok", "test result: FAILED. 1 passed", "FAILED"] {
            assert_eq!(failed_test(line), None, "{line}");
        }
    }
}

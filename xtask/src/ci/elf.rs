//! Whether the release is one static file.

use std::path::Path;

use anyhow::{Context, Result, bail};

const LARGEST: u64 = 20 * 1024 * 1024;
/// Program headers that only a file has that needs others at run time.
const INTERPRETER: u32 = 3;
const DYNAMIC: u32 = 2;
/// The entry of the dynamic section that names a library.
const NEEDED: u64 = 1;

/// Fails unless the file needs no other one and is small enough.
pub(super) fn check(binary: &Path) -> Result<()> {
    let bytes = std::fs::read(binary)?;
    let size = bytes.len() as u64;
    println!(
        "  {:.1} MB",
        f64::from(u32::try_from(size).unwrap_or(u32::MAX)) / 1e6
    );
    if size > LARGEST {
        bail!("the binary has {size} bytes; the limit is {LARGEST}");
    }
    if cfg!(target_os = "linux") {
        let needs = needs(&bytes).context("the binary is no 64-bit ELF file")?;
        if !needs.is_empty() {
            bail!("the binary is not static: it needs {}", needs.join(", "));
        }
        println!("  static: no interpreter, no shared library");
    }
    Ok(())
}

/// What the file asks the system's loader for. A static file that can be moved has a dynamic section of its own, with
/// nothing but its relocations, so it is the entries that count.
fn needs(bytes: &[u8]) -> Option<Vec<String>> {
    if bytes.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let mut needs = Vec::new();
    let (start, size, count) = (
        number(bytes, 32, 8)?,
        number(bytes, 54, 2)?,
        number(bytes, 56, 2)?,
    );
    for header in 0..count {
        let at = usize::try_from(start + header * size).ok()?;
        let kind = u32::try_from(number(bytes, at, 4)?).ok()?;
        let offset = usize::try_from(number(bytes, at + 8, 8)?).ok()?;
        let length = usize::try_from(number(bytes, at + 32, 8)?).ok()?;
        let content = bytes.get(offset..offset + length)?;
        if kind == INTERPRETER {
            needs.push(
                String::from_utf8_lossy(content)
                    .trim_end_matches('\0')
                    .to_owned(),
            );
        }
        if kind == DYNAMIC {
            let libraries = content
                .chunks_exact(16)
                .filter(|entry| number(entry, 0, 8) == Some(NEEDED))
                .count();
            if libraries > 0 {
                needs.push(format!("{libraries} shared libraries"));
            }
        }
    }
    Some(needs)
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let mut buffer = [0; 8];
    buffer[..length].copy_from_slice(bytes.get(at..at + length)?);
    Some(u64::from_le_bytes(buffer))
}

//! Findings: the results of a phase, as Markdown. A phase can be left only when it has one.

use std::collections::BTreeSet;

use teamster_fs::{Durability, layout};
use teamster_types::Time;
use teamster_types::redact::redact;

use crate::{Party, PartyError, Result, front_matter};

/// The phases that require a finding before they are left.
pub const PHASES: [&str; 4] = ["analyzing", "planning", "executing", "reviewing"];
/// The maximum size of a finding in bytes, because people read it.
const LONGEST: usize = 1024 * 1024;
const MOST: u32 = 10_000;

/// A phase that has findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase(&'static str);

impl Phase {
    /// Returns the phase of this name, in any letter case.
    pub fn of(name: &str) -> Result<Self> {
        let name = name.to_lowercase();
        match PHASES.iter().find(|phase| **phase == name) {
            Some(phase) => Ok(Self(phase)),
            None => Err(PartyError::refused(
                format!("`{name}` is not a phase with findings"),
                format!("phases are {}", PHASES.join(", ")),
            )),
        }
    }

    /// Returns its name in lower case.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl Party {
    /// Adds a finding, and returns the name of its file. Earlier findings of the phase are kept.
    pub fn add_finding(&self, phase: Phase, text: &str, author: &str, now: Time) -> Result<String> {
        if front_matter::body(text).trim().is_empty() {
            return Err(PartyError::refused(
                "the finding is empty",
                "write down what was found, even if that is nothing",
            ));
        }
        if text.len() > LONGEST {
            return Err(PartyError::refused(
                format!("a finding has at most {LONGEST} bytes"),
                "keep the details in a file of their own",
            ));
        }
        let _held = self.lock()?;
        let folder = self.folder(layout::FINDINGS)?;
        let taken = folder.entries()?;
        let highest = taken.iter().filter_map(|entry| number(&entry.name, phase));
        let text = front_matter::with(
            &redact(text),
            &[
                ("phase", phase.as_str()),
                ("author", author),
                ("created_at", &now.to_string()),
            ],
        );
        for number in highest.max().unwrap_or(0) + 1..=MOST {
            let name = format!("{}-{number:03}.md", phase.as_str());
            if folder.create_new(&name, text.as_bytes(), Durability::Durable)? {
                return Ok(name);
            }
        }
        Err(PartyError::refused(
            format!("{} has {MOST} findings already", phase.as_str()),
            "remove some",
        ))
    }

    /// Returns the phases that have a non-empty finding.
    pub fn findings(&self) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let Some(folder) = self.dir.child(layout::FINDINGS)? else {
            return Ok(found);
        };
        for entry in folder.entries()? {
            let Some(phase) = PHASES.iter().find(|phase| entry.name.starts_with(**phase)) else {
                continue;
            };
            if entry.name.strip_suffix(".md").is_some()
                && let Ok(Some((bytes, _))) = folder.read(&entry.name)
                && !front_matter::body(&String::from_utf8_lossy(&bytes))
                    .trim()
                    .is_empty()
            {
                found.insert((*phase).to_owned());
            }
        }
        Ok(found)
    }

    /// Returns every finding by the name of its file, without the front matter.
    pub fn finding_texts(&self) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        let Some(folder) = self.dir.child(layout::FINDINGS)? else {
            return Ok(found);
        };
        for entry in folder.entries()? {
            let name = std::path::Path::new(&entry.name);
            if name.extension().is_some_and(|kind| kind == "md")
                && let Ok(Some((bytes, _))) = folder.read(&entry.name)
            {
                let text = String::from_utf8_lossy(&bytes);
                found.push((entry.name, front_matter::body(&text).trim().to_owned()));
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Returns the number in the name of a phase's finding.
fn number(name: &str, phase: Phase) -> Option<u32> {
    let rest = name.strip_prefix(phase.as_str())?.strip_prefix('-')?;
    let digits = rest.strip_suffix(".md")?;
    digits.parse().ok()
}

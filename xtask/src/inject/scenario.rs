//! The operations: how to prepare a team for one, and how to tell whether it happened.

mod import;
mod mail;
mod task;

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::disk::Disk;
use crate::product::{Answer, Place, Product};

/// One operation that is struck at.
pub(super) trait Scenario: Sync {
    /// The operation, as a person types it.
    fn name(&self) -> &'static str;

    /// Whether even a sample strikes at every call of it.
    fn is_central(&self) -> bool {
        false
    }

    /// A team on which the operation can be done once.
    fn prepare(&self) -> Result<Case>;

    /// Whether the files say that it happened; an error when they say neither.
    fn state(&self, case: &Case, disk: &Disk) -> Result<bool>;

    /// How often the journal tells of it.
    fn told(&self, disk: &Disk) -> usize;

    /// Whether a reader is told that it happened, before anybody else writes.
    fn seen(&self, product: &Product, case: &Case) -> Result<bool>;

    /// What somebody else does next. It must succeed.
    fn next(&self) -> Vec<String>;

    /// Whether the answer is what it is about: nothing may be taken for handed out that the caller never got.
    fn hands_out(&self) -> bool {
        false
    }

    /// Last checks, which may go on with the team; what was wrong.
    fn end(
        &self,
        product: &Product,
        case: &Case,
        happened: bool,
        next: &Answer,
    ) -> Result<Vec<String>>;
}

/// A prepared team and the call that will be struck at.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) place: Place,
    pub(super) words: Vec<String>,
    /// The file that it reads, where it reads one.
    pub(super) input: Option<PathBuf>,
    /// The token of the claim that the operation ends, where it ends one.
    token: String,
}

impl Case {
    /// A call that reads a file, and needs nothing else.
    pub(super) fn reading(place: Place, line: &str, input: PathBuf) -> Self {
        Self {
            place,
            words: words(line),
            input: Some(input),
            token: String::new(),
        }
    }
}

/// All operations.
pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(task::Claim),
        Box::new(task::Complete),
        Box::new(task::Fail),
        Box::new(import::Import),
        Box::new(mail::Send),
        Box::new(mail::ReadAndAck),
        Box::new(mail::Rotate),
    ]
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// A call that must end with one of these codes; a complaint when it does not.
fn expect(
    product: &Product,
    case: &Case,
    line: &str,
    codes: &[i32],
) -> Result<(Answer, Vec<String>)> {
    let answer = product.call(&case.place, words(line))?;
    let is_expected = answer.code().is_some_and(|code| codes.contains(&code));
    let complaints = if is_expected {
        Vec::new()
    } else {
        vec![format!("`{line}` should exit {codes:?}: {}", answer.said())]
    };
    Ok((answer, complaints))
}

/// What a reader is told, as JSON.
fn ask(product: &Product, case: &Case, line: &str) -> Result<serde_json::Value> {
    let answer = product.call(&case.place, words(line))?;
    match answer.json() {
        Some(value) if answer.status.success() => Ok(value),
        _ => bail!("`{line}` failed: {}", answer.said()),
    }
}

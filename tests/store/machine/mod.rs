//! The file store against a simple model, while its processes die at any file operation and other programs write the
//! same files.
//!
//! After a death the operation has happened completely or not at all; the next one succeeds; there are no leftovers;
//! the journal alone still rebuilds the files; and in the end every claimable task is given out.

mod act;
mod choose;
mod model;
mod ops;
mod others;
mod run;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use run::{Counts, Run};

/// The number of sequences of operations; nightly runs set more.
const CASES: u32 = 200;

#[test]
fn a_store_whose_processes_die_anywhere_behaves_like_one_whose_do_not() {
    let cases = std::env::var("TEAMSTER_CASES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(CASES);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 3_000,
        ..Config::default()
    };
    let counts = RefCell::new(Counts::default());
    let steps = proptest::collection::vec(ops::step(), 1..50);
    let ran = TestRunner::new(config).run(&steps, |steps| {
        let mut run = Run::new();
        let told = steps
            .iter()
            .try_for_each(|step| run.step(step))
            .and_then(|()| run.end());
        counts.borrow_mut().add(&run.counts);
        told.map_err(|wrong| TestCaseError::fail(format!("{wrong}\nafter\n{}", run.log.join("\n"))))
    });
    let counts = counts.into_inner();
    if let Err(error) = ran {
        panic!("{error}\n{counts:?}");
    }
    println!("{cases} sequences: {counts:?}");
    assert!(counts.deaths > 0, "nobody died: {counts:?}");
    assert!(counts.committed > 0, "no death came after the commit");
    assert!(counts.undone > 0, "no death came before the commit");
    assert!(counts.menders > 0, "nobody died while mending");
}

/// A mailbox: all messages ever put into it, and how many of them are acknowledged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mailbox {
    pub messages: Vec<String>,
    pub acked: usize,
}

/// All mailboxes, by their labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mail {
    pub boxes: BTreeMap<String, Mailbox>,
}

impl Mail {
    pub fn put(&mut self, label: &str, message: &str) {
        let mailbox = self.boxes.entry(label.to_owned()).or_default();
        mailbox.messages.push(message.to_owned());
    }

    /// Returns the non-empty boxes of a reader, in the order in which it reads them.
    pub fn labels(&self, reader: &str) -> Vec<String> {
        if reader != "lead" {
            return vec![format!("inbox/{reader}")];
        }
        let outboxes = self
            .boxes
            .keys()
            .filter(|label| label.starts_with("outbox/"));
        std::iter::once("inbox/lead".to_owned())
            .chain(outboxes.cloned())
            .collect()
    }

    /// Returns the messages that a reader gets next.
    pub fn unread(&self, reader: &str, limit: usize) -> Vec<String> {
        let boxes = self.labels(reader);
        let waiting = boxes
            .iter()
            .filter_map(|label| self.boxes.get(label))
            .flat_map(|mailbox| &mailbox.messages[mailbox.acked..]);
        waiting.take(limit).cloned().collect()
    }

    /// Acknowledges the next messages of a reader.
    pub fn ack(&mut self, reader: &str, mut count: usize) {
        for label in self.labels(reader) {
            if let Some(mailbox) = self.boxes.get_mut(&label) {
                let part = count.min(mailbox.messages.len() - mailbox.acked);
                mailbox.acked += part;
                count -= part;
            }
        }
    }

    /// Acknowledges everything up to a message of one box.
    pub fn ack_up_to(&mut self, label: &str, place: usize) {
        if let Some(mailbox) = self.boxes.get_mut(label) {
            mailbox.acked = mailbox.acked.max(place + 1);
        }
    }

    /// Returns what every reader would get.
    pub fn all_unread(&self, workers: &[&str]) -> Vec<Vec<String>> {
        let readers = workers.iter().copied().chain(["lead"]);
        readers
            .map(|reader| self.unread(reader, usize::MAX))
            .collect()
    }
}

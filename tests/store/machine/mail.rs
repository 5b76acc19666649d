//! What mailboxes should do: lists, and how far each was acknowledged.

use std::collections::BTreeMap;

/// A mailbox: what was ever put into it, and how much of it is over.
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

    /// The boxes of a reader that hold anything, in the order in which it reads them.
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

    /// What a reader gets next.
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

    /// What every reader would get.
    pub fn all_unread(&self, workers: &[&str]) -> Vec<Vec<String>> {
        let readers = workers.iter().copied().chain(["lead"]);
        readers
            .map(|reader| self.unread(reader, usize::MAX))
            .collect()
    }
}

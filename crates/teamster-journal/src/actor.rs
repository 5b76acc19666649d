//! The actor of an event.

use std::fmt;

use serde::{Deserialize, Serialize};
use teamster_types::WorkerName;

/// The actor of an event. The journal stores it as a string; an unrecognised string is kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum EventActor {
    /// The lead of the team: the host of its run, or a person who acts on the lead's behalf.
    Lead,
    /// The agent that plans for the team.
    Leader,
    /// A person.
    Person,
    /// The rules of the store, and the supervision of workers.
    System,
    /// A program other than teamster.
    Foreign,
    /// A worker, or an agent of Claude Code, by name.
    Worker(WorkerName),
    /// An actor that this version does not recognise, with its string from the journal.
    Unknown(String),
}

impl EventActor {
    /// The actors with a fixed string in the journal.
    const NAMED: [Self; 5] = [
        Self::Lead,
        Self::Leader,
        Self::Person,
        Self::System,
        Self::Foreign,
    ];

    /// Returns the string that is stored in the journal.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Lead => "lead",
            Self::Leader => "leader",
            Self::Person => "user",
            Self::System => "system",
            Self::Foreign => "foreign",
            Self::Worker(name) => name.as_str(),
            Self::Unknown(word) => word,
        }
    }
}

impl From<&str> for EventActor {
    fn from(word: &str) -> Self {
        let named = Self::NAMED.into_iter().find(|named| named.as_str() == word);
        named.unwrap_or_else(|| match word.parse() {
            Ok(name) => Self::Worker(name),
            Err(_) => Self::Unknown(word.to_owned()),
        })
    }
}

impl From<String> for EventActor {
    fn from(word: String) -> Self {
        Self::from(word.as_str())
    }
}

impl From<&String> for EventActor {
    fn from(word: &String) -> Self {
        Self::from(word.as_str())
    }
}

impl From<&EventActor> for EventActor {
    fn from(actor: &EventActor) -> Self {
        actor.clone()
    }
}

impl From<&WorkerName> for EventActor {
    fn from(name: &WorkerName) -> Self {
        Self::Worker(name.clone())
    }
}

impl From<EventActor> for String {
    fn from(actor: EventActor) -> Self {
        match actor {
            EventActor::Unknown(word) => word,
            EventActor::Worker(name) => name.into(),
            named => named.as_str().to_owned(),
        }
    }
}

impl fmt::Display for EventActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PartialEq<str> for EventActor {
    fn eq(&self, word: &str) -> bool {
        self.as_str() == word
    }
}

impl PartialEq<&str> for EventActor {
    fn eq(&self, word: &&str) -> bool {
        self.as_str() == *word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_written_again_as_it_was_read() {
        for (word, actor) in [
            ("\"lead\"", EventActor::Lead),
            ("\"leader\"", EventActor::Leader),
            ("\"user\"", EventActor::Person),
            ("\"system\"", EventActor::System),
            ("\"foreign\"", EventActor::Foreign),
            (
                "\"worker-1\"",
                EventActor::Worker("worker-1".parse().unwrap()),
            ),
            ("\"team-lead\"", EventActor::Unknown("team-lead".to_owned())),
            ("\"a b/../c\"", EventActor::Unknown("a b/../c".to_owned())),
            ("\"\"", EventActor::Unknown(String::new())),
        ] {
            let read: EventActor = serde_json::from_str(word).unwrap();
            assert_eq!(read, actor);
            assert_eq!(serde_json::to_string(&read).unwrap(), word);
        }
    }
}

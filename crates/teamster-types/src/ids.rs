//! Names that may become part of a path, checked before any path is built.
//!
//! A value of one of these types has passed its check; it cannot be created otherwise. A name is never silently
//! "cleaned": one that does not match is refused.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names that a worker may not have, because they are reserved for others.
pub const RESERVED_WORKERS: [&str; 8] = [
    "lead",
    "leader",
    "team-lead",
    "host",
    "all",
    "system",
    "user",
    "integration",
];

/// The reason a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A team name that does not match.
    #[error("{0} is not a team name: use 1 to 50 of a-z, 0-9 and `-`, not starting with `-`")]
    Team(RefusedName),
    /// A worker name that does not match.
    #[error(
        "{0} is not a worker name: use 1 to 64 of A-Z, a-z, 0-9, `_` and `-`, starting with a letter or digit"
    )]
    Worker(RefusedName),
    /// A worker name that is reserved.
    #[error("`{0}` is reserved and cannot be the name of a worker")]
    Reserved(String),
    /// A task id that does not match.
    #[error("{0} is not a task id: use 1 to 20 digits, such as 7")]
    Task(RefusedName),
}

/// A refused name made safe for display: escaped, and truncated if long.
#[derive(Clone, PartialEq, Eq)]
pub struct RefusedName(String);

impl RefusedName {
    fn new(name: &str) -> Self {
        let mut shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
        if name.chars().count() > 40 {
            shown.push('…');
        }
        Self(shown)
    }
}

impl fmt::Display for RefusedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

impl fmt::Debug for RefusedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! checked_name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(name: String) -> Result<Self, NameError> {
                name.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

checked_name!(
    /// The name of a team: `^[a-z0-9][a-z0-9-]{0,49}$`.
    TeamName
);
checked_name!(
    /// The name of a worker: `^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`, and none of [`RESERVED_WORKERS`].
    WorkerName
);
checked_name!(
    /// The id of a task: `^[0-9]{1,20}$`, always text, ordered as a number.
    TaskId
);

impl FromStr for TeamName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let bytes = name.as_bytes();
        if (1..=50).contains(&bytes.len()) && bytes[0] != b'-' && bytes.iter().all(|&b| inner(b)) {
            Ok(Self(name.to_owned()))
        } else {
            Err(NameError::Team(RefusedName::new(name)))
        }
    }
}

impl FromStr for WorkerName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let bytes = name.as_bytes();
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=64).contains(&bytes.len())
            || !bytes[0].is_ascii_alphanumeric()
            || !bytes.iter().all(|&b| inner(b))
        {
            return Err(NameError::Worker(RefusedName::new(name)));
        }
        if RESERVED_WORKERS.contains(&name) {
            return Err(NameError::Reserved(name.to_owned()));
        }
        Ok(Self(name.to_owned()))
    }
}

impl PartialOrd for TeamName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TeamName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for WorkerName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WorkerName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl FromStr for TaskId {
    type Err = NameError;

    fn from_str(id: &str) -> Result<Self, NameError> {
        if (1..=20).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_digit()) {
            Ok(Self(id.to_owned()))
        } else {
            Err(NameError::Task(RefusedName::new(id)))
        }
    }
}

impl TaskId {
    /// Returns the id with this number.
    pub fn from_number(number: u64) -> Self {
        Self(number.to_string())
    }

    /// Returns the id as a number; 20 digits always fit.
    pub fn number(&self) -> u128 {
        self.0
            .bytes()
            .fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0'))
    }

    /// Returns whether it counts when the next id is assigned. An id of more than 15 digits comes from another program,
    /// and must not use up the remaining ids.
    pub fn is_ordinary(&self) -> bool {
        self.number() < 1_000_000_000_000_000
    }

    /// Returns the next id, unless all ids of 20 digits are used up.
    pub fn next(&self) -> Option<Self> {
        (self.number() + 1).to_string().parse().ok()
    }
}

impl PartialOrd for TaskId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TaskId {
    fn cmp(&self, other: &Self) -> Ordering {
        // `01` and `1` are two files, so equal numbers still need an order.
        self.number()
            .cmp(&other.number())
            .then_with(|| self.0.cmp(&other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_could_escape_or_confuse_are_refused() {
        let long = "a".repeat(300);
        for bad in [
            "", "../x", "a/b", "-rf", ".", "..", "a b", "a\0b", "é", "🦀", "a\n", "A.b", &long,
        ] {
            assert!(bad.parse::<TeamName>().is_err(), "team {bad:?}");
            assert!(bad.parse::<WorkerName>().is_err(), "worker {bad:?}");
            assert!(bad.parse::<TaskId>().is_err(), "task {bad:?}");
        }
        assert!("Team".parse::<TeamName>().is_err());
        for name in RESERVED_WORKERS {
            assert_eq!(
                name.parse::<WorkerName>(),
                Err(NameError::Reserved(name.to_owned()))
            );
        }
    }

    #[test]
    fn a_refusal_shows_the_name_without_its_escape_sequences() {
        let error = "\u{1b}[31mred".parse::<TeamName>().unwrap_err().to_string();
        assert!(!error.contains('\u{1b}'), "{error}");
        assert!(error.contains("\\u{1b}[31mred"), "{error}");
    }

    #[test]
    fn ids_are_ordered_as_numbers_up_to_twenty_digits() {
        let mut ids: Vec<TaskId> = ["10", "9", "01", "1", "99999999999999999999"]
            .iter()
            .map(|id| id.parse().unwrap())
            .collect();
        ids.sort();
        let sorted: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
        assert_eq!(sorted, ["01", "1", "9", "10", "99999999999999999999"]);
        assert_eq!(ids[4].next(), None);
    }

    proptest! {
        #[test]
        fn an_accepted_name_is_one_harmless_path_component(name in ".{0,70}") {
            if let Ok(worker) = name.parse::<WorkerName>() {
                prop_assert!(!worker.as_str().contains(['/', '.', '\0']));
                prop_assert!(!worker.as_str().starts_with('-'));
            }
            if let Ok(team) = name.parse::<TeamName>() {
                prop_assert!(!team.as_str().contains(['/', '.', '\0']));
                prop_assert!(!team.as_str().starts_with('-'));
            }
        }
    }
}

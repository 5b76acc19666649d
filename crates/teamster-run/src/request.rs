//! The request of a user: `3:executor "fix all type errors"`.
//!
//! A crew is a list of `N:agent[:role]`. The first word of a request is a crew when it begins with a number, a colon
//! and a letter; so a sentence that begins with "2:30" stays a sentence. `command:…` and `scripted:…` are agents whose
//! argument is the rest of the entry, including commas that no other entry follows.

use std::fmt;
use std::str::FromStr;

use teamster_types::WorkerName;
use teamster_types::task::DESCRIPTION_LIMIT;

/// The largest size of a team.
pub const MOST_WORKERS: u32 = 100;
const LONGEST_WORD: usize = 64;
/// Agents whose word includes an argument after the colon.
const WITH_ARGUMENT: [&str; 2] = ["command", "scripted"];

/// The reason why a request is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// An entry of the crew cannot be read.
    #[error("{entry:?} is not a valid part of a team: {why}")]
    Entry {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        why: String,
    },
    /// The crew has too many workers.
    #[error("{asked} workers were asked for; the limit is {MOST_WORKERS}")]
    TooMany {
        /// The number of workers that was asked for.
        asked: u64,
    },
    /// The entries of a crew are separated by spaces, so that the second one would be the task.
    #[error("the parts of a team are joined by commas: write {joined}, and the task after it")]
    Spaces {
        /// The crew as it is written.
        joined: String,
    },
    /// There is no task.
    #[error("no task given; write it after the team")]
    NoTask,
    /// The task is longer than the limit.
    #[error(
        "the task has {length} characters; the limit is {DESCRIPTION_LIMIT}: put the rest into a file of the project, and name it"
    )]
    TooLong {
        /// The length of the task, in characters.
        length: usize,
    },
}

/// Workers of one kind in a crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrewGroup {
    /// The number of workers.
    pub count: u32,
    /// The agent: a role, a provider, or `command:…` and `scripted:…`.
    pub agent: String,
    /// Their role in the team.
    pub role: Option<String>,
}

/// The workers that the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crew {
    /// The groups, in the order of the request; never empty.
    pub groups: Vec<CrewGroup>,
}

/// One worker of a crew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedMember {
    /// The name, such as `worker-1`.
    pub name: WorkerName,
    /// The agent of the worker.
    pub agent: String,
    /// Its role in the team.
    pub role: Option<String>,
}

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The crew; without one, a preset decides.
    pub crew: Option<Crew>,
    /// The task in the words of the user.
    pub task: String,
}

impl Request {
    /// Parses the arguments of a command. A single argument may hold both crew and task, as a slash command passes it.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, RequestError> {
        let mut words = words.iter().map(AsRef::as_ref);
        let first = words.next().unwrap_or_default();
        let rest = words.collect::<Vec<_>>().join(" ");
        let (crew, task) = if !is_crew(first) {
            (None, [first, rest.as_str()].join(" "))
        } else if rest.is_empty() {
            let (crew, task) = first.split_once(char::is_whitespace).unwrap_or((first, ""));
            (Some(crew), task.to_owned())
        } else {
            (Some(first), rest)
        };
        let task = task.trim().to_owned();
        let beyond: Vec<&str> = task
            .split_whitespace()
            .take_while(|word| is_crew(word) && group(word).is_ok())
            .collect();
        if let (Some(crew), false) = (crew, beyond.is_empty()) {
            let joined = [&[crew], beyond.as_slice()].concat().join(",");
            return Err(RequestError::Spaces { joined });
        }
        let crew = crew.map(str::parse).transpose()?;
        let length = task.chars().count();
        if task.is_empty() {
            return Err(RequestError::NoTask);
        }
        if length > DESCRIPTION_LIMIT {
            return Err(RequestError::TooLong { length });
        }
        Ok(Self { crew, task })
    }
}

/// Returns whether a word begins like a crew.
fn is_crew(word: &str) -> bool {
    let after = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let letter = after.strip_prefix(':').and_then(|rest| rest.chars().next());
    after.len() < word.len() && letter.is_some_and(|c| c.is_ascii_alphabetic())
}

impl Crew {
    /// Returns the number of workers.
    pub fn size(&self) -> u32 {
        self.groups.iter().map(|group| group.count).sum()
    }

    /// Returns all workers, numbered consecutively.
    pub fn members(&self) -> Vec<RequestedMember> {
        let each = self
            .groups
            .iter()
            .flat_map(|group| (0..group.count).map(move |_| group));
        each.zip(1_u32..)
            .filter_map(|(group, number)| {
                Some(RequestedMember {
                    name: format!("worker-{number}").parse().ok()?,
                    agent: group.agent.clone(),
                    role: group.role.clone(),
                })
            })
            .collect()
    }
}

impl FromStr for Crew {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let groups = entries(text)
            .into_iter()
            .map(|entry| group(entry.trim()))
            .collect::<Result<Vec<_>, _>>()?;
        let asked: u64 = groups.iter().map(|group| u64::from(group.count)).sum();
        if asked > u64::from(MOST_WORKERS) {
            return Err(RequestError::TooMany { asked });
        }
        Ok(Self { groups })
    }
}

/// Returns the entries of a crew. They are separated by commas; within a command or a script only by a comma that is
/// followed by the beginning of an entry, so that `1:command:cut -d, -f1` stays one.
fn entries(text: &str) -> Vec<&str> {
    let mut entries = Vec::new();
    let mut begin = 0;
    for (comma, _) in text.match_indices(',') {
        let carries = WITH_ARGUMENT.iter().any(|word| {
            let entry = text[begin..comma].trim_start();
            let agent = entry.trim_start_matches(|c: char| c.is_ascii_digit());
            agent
                .strip_prefix(':')
                .and_then(|rest| rest.strip_prefix(word))
                .is_some_and(|rest| rest.starts_with(':'))
        });
        if !carries || is_crew(text[comma + 1..].trim_start()) {
            entries.push(&text[begin..comma]);
            begin = comma + 1;
        }
    }
    entries.push(&text[begin..]);
    entries
}

fn group(entry: &str) -> Result<CrewGroup, RequestError> {
    let wrong = |why: String| RequestError::Entry {
        entry: entry.to_owned(),
        why,
    };
    let form = "write N:agent or N:agent:role, such as 3:executor";
    let Some((count, rest)) = entry.split_once(':') else {
        return Err(wrong(form.to_owned()));
    };
    let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(wrong(form.to_owned()));
    }
    // A number that does not fit is too many, too.
    let count: u32 = count.parse().unwrap_or(u32::MAX);
    if count == 0 {
        return Err(wrong("there must be at least one".to_owned()));
    }
    let (word, more) = match rest.split_once(':') {
        Some((word, more)) => (word, Some(more)),
        None => (rest, None),
    };
    check_word(word, "agent").map_err(wrong)?;
    if WITH_ARGUMENT.contains(&word) {
        let argument = more.map(str::trim).filter(|more| !more.is_empty());
        let argument =
            argument.ok_or_else(|| wrong(format!("`{word}` needs something after its colon")))?;
        return Ok(CrewGroup {
            count,
            agent: format!("{word}:{argument}"),
            role: None,
        });
    }
    if let Some(role) = more {
        check_word(role, "role").map_err(wrong)?;
    }
    Ok(CrewGroup {
        count,
        agent: word.to_owned(),
        role: more.map(str::to_owned),
    })
}

/// Refuses a word that cannot be the name of an agent or a role.
pub fn check_word(word: &str, what: &str) -> Result<(), String> {
    let is_word = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.len() <= LONGEST_WORD
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if is_word {
        return Ok(());
    }
    Err(format!(
        "{word:?} is not a valid {what}: use 1 to {LONGEST_WORD} of A-Z, a-z, 0-9, `-` and `_`, beginning with a letter"
    ))
}

impl fmt::Display for CrewGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.count, self.agent)?;
        match &self.role {
            Some(role) => write!(f, ":{role}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, group) in self.groups.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            write!(f, "{group}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

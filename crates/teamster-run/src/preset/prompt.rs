//! The prompts of the members of a preset.

use std::collections::{BTreeMap, BTreeSet};

use teamster_document::Fault;

/// The headings `## prompt` and `## Worker` are for all workers, `## Leader` is for the leader.
const HEADING: &str = "prompt";
const WORKER: &str = "worker";
const LEADER: &str = "leader";

/// The texts for all members, and for some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PresetPrompts {
    everybody: String,
    some: BTreeMap<String, String>,
}

/// The values of the placeholders in a prompt.
#[derive(Clone, Copy, Debug)]
pub struct PlaceholderValues<'a> {
    /// The value of `{task}`: the task in the words of the user.
    pub task: &'a str,
    /// The value of `{team}`: the team's name.
    pub team: &'a str,
    /// The value of `{member}`: the name of the member that gets the prompt.
    pub member: &'a str,
}

impl PlaceholderValues<'_> {
    /// Returns the text with its placeholders replaced in one pass: the inserted values are data, and are not scanned
    /// again.
    pub fn fill(&self, text: &str) -> String {
        let places = [
            ("{task}", self.task),
            ("{team}", self.team),
            ("{member}", self.member),
        ];
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let found = places.iter().find(|(word, _)| rest.starts_with(word));
            let (word, value) = found.copied().unwrap_or(("{", "{"));
            filled.push_str(value);
            rest = &rest[word.len()..];
        }
        filled.push_str(rest);
        filled
    }
}

impl PresetPrompts {
    /// Returns the text for the leader; empty when there is none.
    pub fn of_leader(&self) -> &str {
        self.some.get(LEADER).map_or("", String::as_str)
    }

    /// Returns the text for a member of this name and role; empty when there is none.
    pub fn of(&self, name: &str, role: &str) -> String {
        let own = self.some.get(name).filter(|_| name != role);
        let parts: Vec<&str> = [Some(&self.everybody), self.some.get(role), own]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .filter(|text| !text.is_empty())
            .collect();
        parts.join("\n\n")
    }

    /// Reads the sections from the text below the front matter. `known` are the names and roles in the team.
    pub(super) fn read(
        body: &str,
        first_line: usize,
        known: &BTreeSet<&str>,
        faults: &mut Vec<Fault>,
    ) -> Self {
        let mut prompts = Self::default();
        let mut section: Option<String> = None;
        let mut fence: Option<&str> = None;
        for (place, line) in body.lines().enumerate() {
            let mark = line.trim_start();
            match fence {
                Some(open) if mark.starts_with(open) => fence = None,
                Some(_) => {}
                None if mark.starts_with("```") => fence = Some("```"),
                None if mark.starts_with("~~~") => fence = Some("~~~"),
                None => {
                    if let Some(heading) = heading(line) {
                        section = opened(heading, first_line + place, known, faults);
                        continue;
                    }
                }
            }
            if let Some(name) = &section {
                let text = match name.as_str() {
                    "" => &mut prompts.everybody,
                    _ => prompts.some.entry(name.clone()).or_default(),
                };
                text.push_str(line);
                text.push('\n');
            }
        }
        Self {
            everybody: prompts.everybody.trim().to_owned(),
            some: prompts
                .some
                .into_iter()
                .map(|(name, text)| (name, text.trim().to_owned()))
                .collect(),
        }
    }
}

/// Returns the text of a first- or second-level heading; deeper ones are part of a section.
fn heading(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("## ")
        .or_else(|| line.strip_prefix("# "))?;
    Some(rest.trim())
}

/// Returns the section that a heading opens: `Some("")` is for all members, `None` is text for people.
fn opened(
    heading: &str,
    line: usize,
    known: &BTreeSet<&str>,
    faults: &mut Vec<Fault>,
) -> Option<String> {
    let mut parts = heading.split_whitespace();
    let first = parts.next()?;
    let name = parts.collect::<Vec<_>>().join(" ");
    if name.is_empty() && first.eq_ignore_ascii_case(WORKER) {
        return Some(String::new());
    }
    if name.is_empty() && first.eq_ignore_ascii_case(LEADER) {
        return Some(LEADER.to_owned());
    }
    if !first.eq_ignore_ascii_case(HEADING) {
        return None;
    }
    if !name.is_empty() && name != LEADER && !known.contains(name.as_str()) {
        let names: Vec<&str> = known.iter().copied().collect();
        let message = format!(
            "the prompt is for {name:?}, and no member has this name or role; there are {}",
            names.join(", ")
        );
        faults.push(Fault::new(line, message));
        return None;
    }
    Some(name)
}

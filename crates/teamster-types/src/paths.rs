//! Globs for the paths that a task reserves: what they match, and whether two of them could match the same file.
//!
//! `*` and `?` stay within one folder, `**` as a whole component matches any number of folders, `[a-z]` and `[!a-z]`
//! match one character, `{a,b}` matches either alternative, and `\` escapes the next character. A glob that matches a
//! folder matches everything in it, so `src/auth` reserves the folder. Matching is case-sensitive.

use std::borrow::Cow;

/// The maximum number of globs after brace expansion.
const MOST_ALTERNATIVES: usize = 256;
/// The maximum length of a glob, in bytes.
const LONGEST: usize = 4096;

/// How a task is handled whose paths may overlap with those of a task in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reservations {
    /// The task waits.
    #[default]
    Enforce,
    /// The task may be claimed, and the journal records the overlap.
    Warn,
    /// Overlaps are not checked.
    Off,
}

impl Reservations {
    /// Returns the name used in the settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Warn => "warn",
            Self::Off => "off",
        }
    }

    /// Returns the value with this name in the settings.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Enforce, Self::Warn, Self::Off]
            .into_iter()
            .find(|choice| choice.word() == word)
    }
}

/// The reason a text is not a valid glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{glob:?} is not a pattern for paths: {why}")]
pub struct GlobError {
    glob: String,
    why: &'static str,
}

/// A pattern for paths below a project's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    /// One pattern for each choice of alternatives in braces.
    alternatives: Vec<Vec<GlobPart>>,
}

/// One component of a path, between slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobPart {
    /// Any number of folders, including none.
    Folders,
    /// One name.
    Name(Vec<GlobToken>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobToken {
    Character(char),
    One,
    Any,
    OneOf(CharClass),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CharClass {
    ranges: Vec<(char, char)>,
    negated: bool,
}

impl CharClass {
    fn has(&self, character: char) -> bool {
        let listed = self
            .ranges
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&character));
        listed != self.negated
    }

    /// Returns whether a character could be in both sets. Returns true when that is hard to decide.
    fn intersects(&self, other: &Self) -> bool {
        let inside = |(from, to): &(char, char), set: &Self| {
            let mut ranges = set.ranges.iter();
            ranges.any(|(start, end)| start <= from && to <= end)
        };
        match (self.negated, other.negated) {
            (true, true) => true,
            (false, true) => !self.ranges.iter().all(|range| inside(range, other)),
            (true, false) => other.intersects(self),
            (false, false) => self.ranges.iter().any(|(from, to)| {
                let mut ranges = other.ranges.iter();
                ranges.any(|(start, end)| from <= end && start <= to)
            }),
        }
    }
}

impl GlobToken {
    fn takes(&self, character: char) -> bool {
        match self {
            Self::Character(wanted) => *wanted == character,
            Self::One | Self::Any => true,
            Self::OneOf(set) => set.has(character),
        }
    }

    /// Returns whether both could match the same character.
    fn intersects(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Character(character), piece) | (piece, Self::Character(character)) => {
                piece.takes(*character)
            }
            (Self::OneOf(one), Self::OneOf(other)) => one.intersects(other),
            _ => true,
        }
    }
}

impl Glob {
    /// Parses a glob.
    pub fn new(text: &str) -> Result<Self, GlobError> {
        let wrong = |why| GlobError {
            glob: text.chars().take(80).collect(),
            why,
        };
        if text.len() > LONGEST {
            return Err(wrong("it is too long"));
        }
        let mut alternatives = Vec::new();
        for written in expand_braces(text).map_err(wrong)? {
            alternatives.push(parts(&written).map_err(wrong)?);
        }
        Ok(Self { alternatives })
    }

    /// Returns whether it matches a path, or a folder that contains the path.
    pub fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path
            .split('/')
            .filter(|name| !name.is_empty() && *name != ".")
            .collect();
        let mut alternatives = self.alternatives.iter();
        alternatives.any(|parts| matches_names(parts, &names))
    }

    /// Returns whether a path could be matched by both. Returns true when in doubt.
    pub fn overlaps(&self, other: &Self) -> bool {
        let mut pairs = self
            .alternatives
            .iter()
            .flat_map(|one| other.alternatives.iter().map(move |two| (one, two)));
        pairs.any(|(one, two)| parts_intersect(one, two))
    }
}

/// Returns whether any of `globs` matches the path.
pub fn any_matches(globs: &[Glob], path: &str) -> bool {
    globs.iter().any(|glob| glob.matches(path))
}

/// Returns whether a path of one task could also be a path of the other. A text that is not a valid glob could match
/// anything.
pub fn may_overlap(one: &[String], other: &[String]) -> bool {
    let read = |texts: &[String]| -> Vec<Option<Glob>> {
        texts.iter().map(|text| Glob::new(text).ok()).collect()
    };
    let (one, other) = (read(one), read(other));
    one.iter().any(|one| {
        other.iter().any(|other| match (one, other) {
            (Some(one), Some(other)) => one.overlaps(other),
            _ => true,
        })
    })
}

/// Expands braces: `a{b,c}` becomes `ab` and `ac`. Escaped braces stay.
fn expand_braces(text: &str) -> Result<Vec<Cow<'_, str>>, &'static str> {
    let mut done = Vec::new();
    let mut open = vec![Cow::Borrowed(text)];
    while let Some(text) = open.pop() {
        let Some(BraceGroup { start, end, commas }) = first_braces(&text)? else {
            done.push(text);
            continue;
        };
        let mut from = start + 1;
        for to in commas.into_iter().chain([end]) {
            let one = format!("{}{}{}", &text[..start], &text[from..to], &text[end + 1..]);
            open.push(Cow::Owned(one));
            from = to + 1;
        }
        if open.len() + done.len() > MOST_ALTERNATIVES {
            return Err("its braces stand for too many patterns");
        }
    }
    Ok(done)
}

/// The places of a pair of braces and of the commas that belong to it.
struct BraceGroup {
    start: usize,
    end: usize,
    commas: Vec<usize>,
}

fn first_braces(text: &str) -> Result<Option<BraceGroup>, &'static str> {
    let (mut start, mut depth, mut commas) = (0, 0_u32, Vec::new());
    let mut characters = text.char_indices();
    let mut in_set = false;
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '[' if !in_set => in_set = text[at..].contains(']'),
            ']' => in_set = false,
            _ if in_set => {}
            '{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            '}' if depth == 1 => {
                let end = at;
                return Ok(Some(BraceGroup { start, end, commas }));
            }
            '}' if depth > 1 => depth -= 1,
            ',' if depth == 1 => commas.push(at),
            _ => {}
        }
    }
    if depth > 0 {
        return Err("a brace is not closed");
    }
    Ok(None)
}

fn parts(text: &str) -> Result<Vec<GlobPart>, &'static str> {
    let mut parts = Vec::new();
    // A slash splits even inside a set: no name contains a slash.
    for name in text.split('/') {
        match name {
            "" | "." => {}
            ".." => return Err("it leads out of the project"),
            "**" => {
                if parts.last() != Some(&GlobPart::Folders) {
                    parts.push(GlobPart::Folders);
                }
            }
            name => parts.push(GlobPart::Name(tokens(name)?)),
        }
    }
    if parts.is_empty() {
        return Err("it names nothing; `**` stands for everything");
    }
    Ok(parts)
}

fn tokens(name: &str) -> Result<Vec<GlobToken>, &'static str> {
    let mut pieces = Vec::new();
    let mut rest = name.chars();
    while let Some(character) = rest.next() {
        pieces.push(match character {
            '\\' => GlobToken::Character(rest.next().ok_or("it ends with a backslash")?),
            '?' => GlobToken::One,
            '*' => {
                if pieces.last() == Some(&GlobToken::Any) {
                    continue;
                }
                GlobToken::Any
            }
            '[' => GlobToken::OneOf(char_class(&mut rest)?),
            other => GlobToken::Character(other),
        });
    }
    Ok(pieces)
}

/// Parses the set after a `[`.
fn char_class(rest: &mut std::str::Chars<'_>) -> Result<CharClass, &'static str> {
    const OPEN: &str = "a `[` is not closed within one name";
    let mut ranges = Vec::new();
    let mut next = rest.next().ok_or(OPEN)?;
    let negated = matches!(next, '!' | '^');
    if negated {
        next = rest.next().ok_or(OPEN)?;
    }
    // A `]` in first place is a literal character.
    let mut first = true;
    loop {
        if next == ']' && !first {
            return Ok(CharClass { ranges, negated });
        }
        first = false;
        let from = match next {
            '\\' => rest.next().ok_or(OPEN)?,
            other => other,
        };
        next = rest.next().ok_or(OPEN)?;
        let mut to = from;
        if next == '-' {
            let end = rest.next().ok_or(OPEN)?;
            if end == ']' {
                ranges.extend([(from, from), ('-', '-')]);
                return Ok(CharClass { ranges, negated });
            }
            to = match end {
                '\\' => rest.next().ok_or(OPEN)?,
                other => other,
            };
            next = rest.next().ok_or(OPEN)?;
        }
        if from > to {
            return Err("a range in a set runs backwards");
        }
        ranges.push((from, to));
    }
}

/// Matches a path against the components of a glob. Each pair of places is visited once, so the time is bounded for any
/// glob.
fn matches_names(parts: &[GlobPart], names: &[&str]) -> bool {
    let width = names.len() + 1;
    let mut reached = vec![false; (parts.len() + 1) * width];
    reached[0] = true;
    for (i, part) in parts.iter().enumerate() {
        for j in 0..width {
            if !reached[i * width + j] {
                continue;
            }
            match (part, names.get(j)) {
                (GlobPart::Folders, name) => {
                    // A final `**` matches the contents of the folder, not the folder itself.
                    reached[(i + 1) * width + j] |= i + 1 < parts.len() || name.is_some();
                    if name.is_some() {
                        reached[i * width + j + 1] = true;
                    }
                }
                (GlobPart::Name(pieces), Some(name)) if matches_name(pieces, name) => {
                    reached[(i + 1) * width + j + 1] = true;
                }
                (GlobPart::Name(_), _) => {}
            }
        }
    }
    // All components are used up: the rest of the path is inside the matched folder.
    reached[parts.len() * width..].contains(&true)
}

fn matches_name(pieces: &[GlobToken], name: &str) -> bool {
    // The reachable states after each character; a star keeps its state.
    let mut states = closure(pieces, vec![true; 1]);
    for character in name.chars() {
        let mut next = vec![false; pieces.len() + 1];
        for (at, piece) in pieces.iter().enumerate() {
            if states[at] && piece.takes(character) {
                next[if *piece == GlobToken::Any { at } else { at + 1 }] = true;
            }
        }
        states = closure(pieces, next);
    }
    states[pieces.len()]
}

/// Adds the states after stars, which may also match nothing.
fn closure(pieces: &[GlobToken], mut states: Vec<bool>) -> Vec<bool> {
    states.resize(pieces.len() + 1, false);
    for (at, piece) in pieces.iter().enumerate() {
        if states[at] && *piece == GlobToken::Any {
            states[at + 1] = true;
        }
    }
    states
}

/// Returns whether a path could be matched by both lists of components.
fn parts_intersect(one: &[GlobPart], other: &[GlobPart]) -> bool {
    let width = other.len() + 1;
    let mut reached = vec![false; (one.len() + 1) * width];
    reached[0] = true;
    for i in 0..=one.len() {
        for j in 0..width {
            if !reached[i * width + j] {
                continue;
            }
            let (Some(left), Some(right)) = (one.get(i), other.get(j)) else {
                // The path may continue below a folder that one of them has matched, wherever the other leads.
                return true;
            };
            let meet = match (left, right) {
                (GlobPart::Name(left), GlobPart::Name(right)) => names_intersect(left, right),
                _ => true,
            };
            if *left == GlobPart::Folders {
                reached[(i + 1) * width + j] = true;
            }
            if *right == GlobPart::Folders {
                reached[i * width + j + 1] = true;
            }
            if meet {
                // Both consume one name, and `**` stays.
                let i = if *left == GlobPart::Folders { i } else { i + 1 };
                let j = if *right == GlobPart::Folders {
                    j
                } else {
                    j + 1
                };
                reached[i * width + j] = true;
            }
        }
    }
    false
}

/// Returns whether a name could be matched by both: each pair of places is visited once.
fn names_intersect(one: &[GlobToken], other: &[GlobToken]) -> bool {
    let width = other.len() + 1;
    let mut reached = vec![false; (one.len() + 1) * width];
    reached[0] = true;
    for i in 0..=one.len() {
        for j in 0..width {
            if !reached[i * width + j] {
                continue;
            }
            let (left, right) = (one.get(i), other.get(j));
            // A star matches nothing.
            if left == Some(&GlobToken::Any) {
                reached[(i + 1) * width + j] = true;
            }
            if right == Some(&GlobToken::Any) {
                reached[i * width + j + 1] = true;
            }
            if let (Some(left), Some(right)) = (left, right)
                && left.intersects(right)
            {
                // Both consume one character, and a star stays.
                let i = if *left == GlobToken::Any { i } else { i + 1 };
                let j = if *right == GlobToken::Any { j } else { j + 1 };
                reached[i * width + j] = true;
            }
        }
    }
    reached[(one.len() + 1) * width - 1]
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;

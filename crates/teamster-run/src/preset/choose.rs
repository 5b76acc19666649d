//! Which preset a task calls for.

use super::Preset;

/// What came of looking for a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// One has more of its keywords in the task than every other.
    Preset {
        /// The preset.
        preset: &'a Preset,
        /// The keywords that were found.
        matched: Vec<&'a str>,
    },
    /// Several have the same number, so a person decides.
    Tie {
        /// Their names.
        between: Vec<&'a str>,
        /// How many keywords each of them has in the task.
        count: usize,
    },
    /// None has any.
    None,
}

/// Looks for the preset whose keywords a task holds most of. A preset that comes later replaces one of the same name, so
/// a user's own go after those that teamster comes with.
pub fn choose<'a>(task: &str, presets: &'a [Preset]) -> Choice<'a> {
    let mut found: Vec<(&'a Preset, Vec<&'a str>)> = Vec::new();
    for (place, preset) in presets.iter().enumerate() {
        let is_replaced = presets
            .iter()
            .skip(place + 1)
            .any(|later| later.name == preset.name);
        if !is_replaced {
            let matched = preset
                .keywords
                .iter()
                .map(String::as_str)
                .filter(|keyword| matches(task, keyword))
                .collect();
            found.push((preset, matched));
        }
    }
    let most = found.iter().map(|(_, matched)| matched.len()).max();
    let count = most.unwrap_or(0);
    if count == 0 {
        return Choice::None;
    }
    found.retain(|(_, matched)| matched.len() == count);
    if found.len() > 1 {
        return Choice::Tie {
            between: found
                .iter()
                .map(|(preset, _)| preset.name.as_str())
                .collect(),
            count,
        };
    }
    match found.pop() {
        Some((preset, matched)) => Choice::Preset { preset, matched },
        None => Choice::None,
    }
}

/// Whether a task holds a keyword: as a whole word, in capitals or not; a Korean one anywhere, because Korean writes
/// endings and particles without a space.
pub fn matches(task: &str, keyword: &str) -> bool {
    let (task, keyword) = (task.to_lowercase(), keyword.to_lowercase());
    if keyword.is_empty() {
        return false;
    }
    if keyword.chars().any(is_hangul) {
        return task.contains(&keyword);
    }
    task.match_indices(&keyword).any(|(start, found)| {
        let before = task[..start].chars().next_back();
        let after = task[start + found.len()..].chars().next();
        !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
    })
}

/// Whether a character beside a Latin word makes it another word. A Korean particle does not: in "api를" the word is api.
fn is_of_word(c: char) -> bool {
    (c.is_alphanumeric() || c == '_') && !is_hangul(c)
}

fn is_hangul(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}')
}

//! Chooses the preset for a task.

use std::ops::Range;

use super::Preset;
use super::stem::{SearchedText, is_inside};

/// The result of choosing a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresetChoice<'a> {
    /// One preset has more of its keywords in the task than every other.
    Preset {
        /// The preset.
        preset: &'a Preset,
        /// The keywords that were found.
        matched: Vec<&'a str>,
    },
    /// Several presets have the same number of keywords, so a person decides.
    Tie {
        /// Their names.
        between: Vec<&'a str>,
        /// How many keywords each of them has in the task.
        count: usize,
    },
    /// No preset has a keyword in the task.
    None,
}

/// Finds the preset with the most keywords in a task. A later preset replaces an earlier one of the same name, so a
/// user's own presets come after the built-in ones. Where one keyword stands inside a longer one, as `api` in `api
/// gateway`, only the longer one counts.
pub fn choose<'a>(task: &str, presets: &'a [Preset]) -> PresetChoice<'a> {
    let sentence = SearchedText::new(task);
    let mut found: Vec<(&'a Preset, Vec<FoundKeyword<'a>>)> = Vec::new();
    for (place, preset) in presets.iter().enumerate() {
        let is_replaced = presets
            .iter()
            .skip(place + 1)
            .any(|later| later.name == preset.name);
        if !is_replaced {
            let keywords = preset.keywords.iter().map(|keyword| FoundKeyword {
                keyword,
                places: sentence.find(keyword),
            });
            found.push((preset, keywords.collect()));
        }
    }
    let all: Vec<Range<usize>> = found
        .iter()
        .flat_map(|(_, keywords)| keywords)
        .flat_map(|keyword| keyword.places.iter().cloned())
        .collect();
    let counts = |place: &Range<usize>| !all.iter().any(|other| is_inside(place, other));
    let mut found: Vec<(&Preset, Vec<&str>)> = found
        .into_iter()
        .map(|(preset, keywords)| {
            let keywords = keywords.into_iter();
            let keywords = keywords.filter(|keyword| keyword.places.iter().any(counts));
            (preset, keywords.map(|keyword| keyword.keyword).collect())
        })
        .collect();
    let most = found.iter().map(|(_, matched)| matched.len()).max();
    let count = most.unwrap_or(0);
    if count == 0 {
        return PresetChoice::None;
    }
    found.retain(|(_, matched)| matched.len() == count);
    if found.len() > 1 {
        return PresetChoice::Tie {
            between: found
                .iter()
                .map(|(preset, _)| preset.name.as_str())
                .collect(),
            count,
        };
    }
    match found.pop() {
        Some((preset, matched)) => PresetChoice::Preset { preset, matched },
        None => PresetChoice::None,
    }
}

/// A keyword of a preset, and its position in the task.
struct FoundKeyword<'a> {
    keyword: &'a str,
    places: Vec<Range<usize>>,
}

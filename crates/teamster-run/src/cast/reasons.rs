//! Why a team is as it is.

use std::fmt::Write as _;

pub(super) struct Reasons {
    how: String,
    /// What several words stand for is said once.
    agents: Vec<(String, Vec<String>)>,
}

impl Reasons {
    pub(super) fn new(how: String) -> Self {
        Self {
            how,
            agents: Vec::new(),
        }
    }

    /// What a word stands for, and why.
    pub(super) fn add(&mut self, word: &str, why: Option<String>) {
        let Some(why) = why else { return };
        match self.agents.iter_mut().find(|(known, _)| *known == why) {
            Some((_, words)) if words.iter().any(|known| known == word) => {}
            Some((_, words)) => words.push(word.to_owned()),
            None => self.agents.push((why, vec![word.to_owned()])),
        }
    }

    pub(super) fn words(self) -> String {
        let mut text = self.how;
        for (why, words) in self.agents {
            let is = if words.len() == 1 { "is" } else { "are" };
            let _ = write!(text, "; {} {is} {why}", words.join(" and "));
        }
        text
    }
}

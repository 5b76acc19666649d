//! The setting `notify`.

/// How a person wants to be told: the setting `notify`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotifyWay {
    /// The terminal rings, if there is one.
    #[default]
    Bell,
    /// A message on the desktop, where there is a program for it; else as above.
    Desktop,
    /// Not at all.
    Off,
}

impl NotifyWay {
    /// Returns the way that a word of the settings means.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Bell, Self::Desktop, Self::Off]
            .into_iter()
            .find(|way| way.word() == word)
    }

    /// Returns the word in the settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bell => "bell",
            Self::Desktop => "desktop",
            Self::Off => "off",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_word_that_is_read_back() {
        for way in [NotifyWay::Bell, NotifyWay::Desktop, NotifyWay::Off] {
            assert_eq!(NotifyWay::of(way.word()), Some(way));
        }
        assert_eq!(NotifyWay::of("loud"), None);
    }
}

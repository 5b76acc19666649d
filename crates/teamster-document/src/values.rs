//! Field types for documents: [`Lined`], [`TextOr`] and [`Word`].
//!
//! Each requests a newtype with a reserved name from its reader, which responds with what the type needs.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

/// The reserved names by which a reader recognises [`Lined`], [`TextOr`] and [`Word`].
pub(super) const LINED: &str = "$lined";
pub(super) const TEXT_OR: &str = "$text-or";
pub(super) const WORD: &str = "$word";

/// A value and its line. The value is `None` if it is missing or invalid; the problem is then among the faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lined<T> {
    /// The line, counted from 1; 0 when it is missing.
    pub line: usize,
    /// The value, if it could be read.
    pub value: Option<T>,
}

impl<T> Default for Lined<T> {
    fn default() -> Self {
        Self {
            line: 0,
            value: None,
        }
    }
}

impl<T> Lined<T> {
    /// Returns whether the value was missing.
    pub fn is_missing(&self) -> bool {
        self.line == 0
    }
}

impl<T> Lined<Vec<Lined<T>>> {
    /// Returns the items that could be read, each with its line.
    pub fn items(&self) -> impl Iterator<Item = (usize, &T)> {
        let items = self.value.iter().flatten();
        items.filter_map(|item| Some((item.line, item.value.as_ref()?)))
    }
}

impl Lined<Vec<Lined<Word>>> {
    /// Returns the texts that could be read.
    pub fn texts(self) -> Vec<String> {
        let items = self.value.unwrap_or_default().into_iter();
        items.filter_map(|item| Some(item.value?.0)).collect()
    }
}

/// A non-empty text; a number counts as its digits, because planners like to number things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(pub String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct WordVisitor;
        impl Visitor<'_> for WordVisitor {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.to_owned()))
            }
        }
        source.deserialize_newtype_struct(WORD, WordVisitor)
    }
}

/// A table, or a text as shorthand for its most common form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextOr<T> {
    /// The shorthand.
    Text(String),
    /// The full table.
    Table(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct TextOrVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrVisitor<T> {
            type Value = TextOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a table of keys and values")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(text.to_owned()))
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                source: D,
            ) -> Result<TextOr<T>, D::Error> {
                T::deserialize(source).map(TextOr::Table)
            }
        }
        source.deserialize_newtype_struct(TEXT_OR, TextOrVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lined<T> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct LinedVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for LinedVisitor<T> {
            type Value = Lined<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of a document")
            }

            fn visit_none<E: de::Error>(self) -> Result<Lined<T>, E> {
                Ok(Lined::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, source: D) -> Result<Lined<T>, D::Error> {
                source.deserialize_newtype_struct(LINED, self)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Lined<T>, A::Error> {
                Ok(Lined {
                    line: parts.next_element()?.unwrap_or_default(),
                    value: parts.next_element()?,
                })
            }
        }
        // Serde treats a missing key as an option, and not as an error.
        source.deserialize_option(LinedVisitor(PhantomData))
    }
}

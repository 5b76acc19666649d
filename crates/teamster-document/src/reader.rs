//! Deserialises types from a document's tree with serde.
//!
//! Type errors are worded here, with the line and in terms that authors of such files understand. Two things differ
//! from other deserializers. An invalid [`Lined`](crate::Lined) value is recorded and left out instead of aborting. And
//! an enum whose serde name is `do` is selected by the key `do` of its map, beside the other keys, which keep their
//! lines: serde's own `tag` would lose them.

mod access;

use std::cell::RefCell;
use std::fmt;

use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer as _, Visitor};

use crate::values::{LINED, TEXT_OR, WORD};
use crate::{DocumentNode, DocumentValue, Fault};
use access::{Entries, Items, LinedParts, SharedMap, TaggedMap};

const TABLE: &str = "a table of keys and values";

impl DocumentNode {
    /// Reads a `T`, which messages call `who`. Problems are added to the faults; if no `T` is returned, there is at
    /// least one.
    pub fn read<'de, T: Deserialize<'de>>(
        &'de self,
        who: &str,
        faults: &mut Vec<Fault>,
    ) -> Option<T> {
        let found = RefCell::new(Vec::new());
        let reader = NodeReader::new(self, NodePlace::Root(who), &found);
        let read = T::deserialize(reader).map_err(|error| error.at(self.line, who));
        faults.append(&mut found.borrow_mut());
        match read {
            Ok(value) => Some(value),
            Err(fault) => {
                faults.push(fault);
                None
            }
        }
    }
}

/// Why a value could not be read.
#[derive(Debug)]
enum ReadError {
    /// A problem with a known line.
    Located(Fault),
    /// A key is missing.
    Missing(&'static str),
    /// A type rejects its value.
    Refused(String),
}

impl ReadError {
    /// Adds the line to an error that does not contain it.
    fn at(self, line: usize, who: &str) -> Fault {
        match self {
            Self::Located(fault) => fault,
            Self::Missing(key) => Fault::new(line, format!("{who} has no `{key}`")),
            Self::Refused(why) => Fault::new(line, format!("{who}: {why}")),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Located(fault) => f.write_str(&fault.message),
            Self::Missing(key) => write!(f, "`{key}` is missing"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::Refused(why.to_string())
    }

    fn missing_field(key: &'static str) -> Self {
        Self::Missing(key)
    }
}

/// The position of a node in the document, for messages.
#[derive(Clone, Copy)]
enum NodePlace<'a> {
    /// The root value, and its name.
    Root(&'a str),
    /// The value of a key.
    Key { who: &'a str, key: &'a str },
    /// An item of a list, counted from 1, and the position of the list.
    Item {
        who: &'a str,
        key: &'a str,
        number: usize,
    },
}

/// A node that is being read.
#[derive(Clone, Copy)]
struct NodeReader<'de, 'a> {
    node: &'de DocumentNode,
    place: NodePlace<'a>,
    faults: &'a RefCell<Vec<Fault>>,
    /// A key that has already been read, because it selected the variant.
    tag: Option<&'static str>,
    /// Collects the keys that are known to any of several readers of the same map.
    known: Option<&'a RefCell<Vec<&'static str>>>,
}

impl<'de, 'a> NodeReader<'de, 'a> {
    fn new(node: &'de DocumentNode, place: NodePlace<'a>, faults: &'a RefCell<Vec<Fault>>) -> Self {
        Self {
            node,
            place,
            faults,
            tag: None,
            known: None,
        }
    }

    /// Returns the name of a map of the type `name`, for messages.
    fn who(&self, name: &str, fields: &[&str]) -> String {
        let NodePlace::Item { number, .. } = self.place else {
            return self.whose();
        };
        // An item is best identified by the name that its author gave it.
        let label = ["id", "name"]
            .iter()
            .find(|key| fields.contains(key))
            .and_then(|key| self.node.get(key))
            .and_then(|node| match &node.value {
                DocumentValue::Text(text) if !text.trim().is_empty() => Some(text),
                DocumentValue::Number(text) => Some(text),
                _ => None,
            });
        // The last word of the type's name, such as `Edge` in `FlowEdge`.
        let word = name.rfind(char::is_uppercase).unwrap_or(0);
        let noun = name[word..].to_lowercase();
        match label {
            Some(label) => format!("{noun} {label:?}"),
            None => format!("{noun} {number} of the list"),
        }
    }

    /// Returns the name that follows from its position alone.
    fn whose(&self) -> String {
        match self.place {
            NodePlace::Root(who) => who.to_owned(),
            NodePlace::Key { key, .. } => format!("`{key}`"),
            NodePlace::Item { key, number, .. } => format!("item {number} of `{key}`"),
        }
    }

    fn not_a(&self, wanted: &str) -> ReadError {
        self.is_not(self.node.kind(), wanted)
    }

    fn is_not(&self, kind: &str, wanted: &str) -> ReadError {
        let message = match self.place {
            NodePlace::Root(who) => format!("{who} is {kind}, not {wanted}"),
            NodePlace::Key { who, key } => {
                format!("{who} has a `{key}` that is {kind}, not {wanted}")
            }
            NodePlace::Item { who, key, .. } => {
                format!("{who} has {kind} in `{key}`, not {wanted}")
            }
        };
        ReadError::Located(Fault::new(self.node.line, message))
    }

    /// Returns an error of this value with its line.
    fn fault(&self, error: ReadError) -> Fault {
        let line = self.node.line;
        match (error, self.place) {
            (
                ReadError::Refused(why),
                NodePlace::Key { who, key } | NodePlace::Item { who, key, .. },
            ) => Fault::new(line, format!("{who} has a bad `{key}`: {why}")),
            (error, _) => error.at(line, &self.whose()),
        }
    }

    fn locate(&self, error: ReadError) -> ReadError {
        ReadError::Located(self.fault(error))
    }

    /// Reports unknown keys: a misspelt `blockedBy` would silently let a task run too early, so every key must be
    /// known.
    fn note_unknown(&self, who: &str, known: &[&str]) {
        let DocumentValue::Map(entries) = &self.node.value else {
            return;
        };
        let unknown = entries.iter().filter(|(key, _)| {
            self.tag != Some(key.name.as_str()) && !known.contains(&key.name.as_str())
        });
        for (key, _) in unknown {
            let message = format!(
                "{who} has the unknown key `{}`; known are {}",
                key.name,
                known.join(", ")
            );
            self.faults.borrow_mut().push(Fault {
                is_unknown_key: true,
                ..Fault::new(key.line, message)
            });
        }
    }

    /// Reads a map with known keys.
    fn fields<V: Visitor<'de>>(
        self,
        who: &str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let DocumentValue::Map(entries) = &self.node.value else {
            let message = format!("{who} is {}, not {TABLE}", self.node.kind());
            return Err(ReadError::Located(Fault::new(self.node.line, message)));
        };
        match self.known {
            Some(known) => known.borrow_mut().extend(self.tag.iter().chain(fields)),
            None => self.note_unknown(who, fields),
        }
        let map = Entries {
            rest: entries.iter(),
            fields: Some(fields),
            who,
            faults: self.faults,
            value: None,
        };
        let read = visitor.visit_map(map);
        read.map_err(|error| ReadError::Located(error.at(self.node.line, who)))
    }

    fn items<V: Visitor<'de>>(
        self,
        list: &'de [DocumentNode],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let (who, key) = match self.place {
            NodePlace::Root(who) => (who, "items"),
            NodePlace::Key { who, key } | NodePlace::Item { who, key, .. } => (who, key),
        };
        visitor.visit_seq(Items {
            rest: list.iter(),
            who,
            key,
            number: 0,
            faults: self.faults,
        })
    }

    fn number<T: std::str::FromStr>(&self, wanted: &str) -> Result<T, ReadError> {
        let DocumentValue::Number(digits) = &self.node.value else {
            return Err(self.not_a(wanted));
        };
        let parsed = digits.trim_start_matches('+').parse();
        parsed.map_err(|_| self.is_not(digits, wanted))
    }
}

/// Reads integers, each within the limits of its type.
macro_rules! whole_numbers {
    ($($method:ident $visit:ident $number:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            let wanted = format!("a whole number from {} to {}", <$number>::MIN, <$number>::MAX);
            visitor.$visit(self.number::<$number>(&wanted)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for NodeReader<'de, '_> {
    type Error = ReadError;

    whole_numbers!(
        deserialize_i64 visit_i64 i64, deserialize_u8 visit_u8 u8, deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64
    );

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            DocumentValue::Null => visitor.visit_unit(),
            DocumentValue::Bool(answer) => visitor.visit_bool(*answer),
            DocumentValue::Number(digits) => match (digits.parse(), digits.parse()) {
                (Ok(number), _) => visitor.visit_i64(number),
                (_, Ok(number)) => visitor.visit_f64(number),
                _ => visitor.visit_borrowed_str(digits),
            },
            DocumentValue::Text(text) => visitor.visit_borrowed_str(text),
            DocumentValue::List(list) => self.items(list, visitor),
            DocumentValue::Map(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.node.value {
            DocumentValue::Bool(answer) => visitor.visit_bool(answer),
            _ => Err(self.not_a("true or false")),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_f64(self.number("a number")?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            DocumentValue::Text(text) => visitor.visit_borrowed_str(text),
            _ => Err(self.not_a("a text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.node.value {
            DocumentValue::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match (name, &self.node.value) {
            (LINED, _) => visitor.visit_seq(LinedParts {
                reader: self,
                is_line_read: false,
            }),
            (WORD, DocumentValue::Text(text) | DocumentValue::Number(text)) => {
                if text.trim().is_empty() {
                    let message = match self.place {
                        NodePlace::Root(who) => format!("{who} is empty"),
                        NodePlace::Key { who, key } => format!("{who} has an empty `{key}`"),
                        NodePlace::Item { who, key, .. } => {
                            format!("{who} has an empty text in `{key}`")
                        }
                    };
                    return Err(ReadError::Located(Fault::new(self.node.line, message)));
                }
                visitor.visit_borrowed_str(text)
            }
            (WORD, _) => Err(self.not_a("a text")),
            (TEXT_OR, DocumentValue::Text(text)) => visitor.visit_borrowed_str(text),
            (TEXT_OR, DocumentValue::Map(_)) => visitor.visit_newtype_struct(self),
            (TEXT_OR, _) => Err(self.not_a("a text or a table of keys and values")),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            DocumentValue::List(list) => self.items(list, visitor),
            _ => Err(self.not_a("a list")),
        }
    }

    /// Reads several types from one map, whose keys they share, or reads a list.
    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if !matches!(self.node.value, DocumentValue::Map(_)) {
            return Err(self.not_a(TABLE));
        }
        let known = RefCell::new(Vec::new());
        let reader = NodeReader {
            known: Some(&known),
            ..self
        };
        let read = visitor.visit_seq(SharedMap { reader, left: len })?;
        self.note_unknown(&self.whose(), &known.borrow());
        Ok(read)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let DocumentValue::Map(entries) = &self.node.value else {
            return Err(self.not_a(TABLE));
        };
        visitor.visit_map(Entries {
            rest: entries.iter(),
            fields: None,
            who: &self.whose(),
            faults: self.faults,
            value: None,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.fields(&self.who(name, fields), fields, visitor)
    }

    /// Reads a variant from a text, or from a map in which the key `name` selects it.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let (told, key) = match &self.node.value {
            DocumentValue::Map(_) => (self.node.get(name), name),
            _ => (Some(self.node), ""),
        };
        let Some(told) = told else {
            return Err(ReadError::Missing(name));
        };
        let whose = self.whose();
        let reader = NodeReader {
            node: told,
            place: match key {
                "" => self.place,
                key => NodePlace::Key { who: &whose, key },
            },
            ..self
        };
        let DocumentValue::Text(variant) = &told.value else {
            return Err(reader.not_a("a text"));
        };
        if !variants.contains(&variant.as_str()) {
            let why = format!("there is no {variant:?}; there are {}", variants.join(", "));
            return Err(reader.locate(ReadError::Refused(why)));
        }
        if key.is_empty() {
            let name: StrDeserializer<'_, ReadError> = variant.as_str().into_deserializer();
            return visitor.visit_enum(name);
        }
        visitor.visit_enum(TaggedMap {
            reader: NodeReader {
                tag: Some(name),
                ..self
            },
            variant,
        })
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 u16 f32 char bytes byte_buf unit unit_struct tuple_struct identifier ignored_any
    }
}

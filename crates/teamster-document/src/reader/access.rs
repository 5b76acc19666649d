//! The serde access types: the entries of a map, the items of a list, a variant of an enum.

use std::cell::RefCell;
use std::slice;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer as _, EnumAccess, IntoDeserializer as _, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};

use super::{NodePlace, NodeReader, ReadError};
use crate::{DocumentKey, DocumentNode, DocumentValue, Fault};

/// The entries of a map; entries without a value count as missing.
pub(super) struct Entries<'de, 'a> {
    pub(super) rest: slice::Iter<'de, (DocumentKey, DocumentNode)>,
    /// The requested keys; `None` requests all.
    pub(super) fields: Option<&'static [&'static str]>,
    pub(super) who: &'a str,
    pub(super) faults: &'a RefCell<Vec<Fault>>,
    pub(super) value: Option<(&'de DocumentKey, &'de DocumentNode)>,
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let fields = self.fields;
        let wanted = |name: &str| fields.is_none_or(|fields| fields.contains(&name));
        let next = self
            .rest
            .find(|(key, node)| wanted(&key.name) && node.value != DocumentValue::Null);
        let Some((key, node)) = next else {
            return Ok(None);
        };
        self.value = Some((key, node));
        let name: StrDeserializer<'_, ReadError> = key.name.as_str().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let Some((key, node)) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let place = NodePlace::Key {
            who: self.who,
            key: &key.name,
        };
        let reader = NodeReader::new(node, place, self.faults);
        seed.deserialize(reader)
            .map_err(|error| reader.locate(error))
    }
}

/// The items of a list.
pub(super) struct Items<'de, 'a> {
    pub(super) rest: slice::Iter<'de, DocumentNode>,
    pub(super) who: &'a str,
    pub(super) key: &'a str,
    pub(super) number: usize,
    pub(super) faults: &'a RefCell<Vec<Fault>>,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let Some(node) = self.rest.next() else {
            return Ok(None);
        };
        self.number += 1;
        let place = NodePlace::Item {
            who: self.who,
            key: self.key,
            number: self.number,
        };
        let reader = NodeReader::new(node, place, self.faults);
        let read = seed.deserialize(reader);
        read.map(Some).map_err(|error| reader.locate(error))
    }
}

/// The two parts of a [`Lined`]: the line, and the value unless it is invalid.
pub(super) struct LinedParts<'de, 'a> {
    pub(super) reader: NodeReader<'de, 'a>,
    pub(super) is_line_read: bool,
}

impl<'de> SeqAccess<'de> for LinedParts<'de, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        if !self.is_line_read {
            self.is_line_read = true;
            let line = self.reader.node.line;
            return seed.deserialize(line.into_deserializer()).map(Some);
        }
        match seed.deserialize(self.reader) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.reader
                    .faults
                    .borrow_mut()
                    .push(self.reader.fault(error));
                Ok(None)
            }
        }
    }
}

/// One map that is read as several types that share its keys.
pub(super) struct SharedMap<'de, 'a> {
    pub(super) reader: NodeReader<'de, 'a>,
    pub(super) left: usize,
}

impl<'de> SeqAccess<'de> for SharedMap<'de, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.reader).map(Some)
    }
}

/// A map that is one variant of an enum.
pub(super) struct TaggedMap<'de, 'a> {
    pub(super) reader: NodeReader<'de, 'a>,
    /// The value of the key that selects the variant.
    pub(super) variant: &'de str,
}

impl<'de> EnumAccess<'de> for TaggedMap<'de, '_> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), ReadError> {
        let name: StrDeserializer<'_, ReadError> = self.variant.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for TaggedMap<'de, '_> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        let who = format!("`{}`", self.variant);
        self.reader.fields(&who, &[], de::IgnoredAny)?;
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        let who = format!("`{}`", self.variant);
        let reader = NodeReader {
            place: NodePlace::Root(&who),
            ..self.reader
        };
        seed.deserialize(reader)
            .map_err(|error| reader.locate(error))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.reader.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let who = format!("`{}`", self.variant);
        self.reader.fields(&who, fields, visitor)
    }
}

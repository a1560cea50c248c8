//! Finds the line of a value in the text.
//!
//! The YAML library reports a position only with an error. So the text is parsed once more, up
//! to the requested place, and an error is raised there. That finds the right line whatever style,
//! anchor or comment the text uses.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::place::{Place, Step};

/// A position in a text. Line and column count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl Position {
    pub(super) fn of(error: &serde_yaml::Error) -> Option<Position> {
        error.location().map(|at| Position { line: at.line(), column: at.column() })
    }
}

/// The position of `place` in `text`. If it is absent, that of its nearest enclosing block.
pub(super) fn position(text: &str, place: &Place) -> Option<Position> {
    let seek = Seek { steps: &place.steps, on_name: place.on_name };
    seek.deserialize(serde_yaml::Deserializer::from_str(text)).err().as_ref().and_then(Position::of)
}

/// Walks to a place and fails there.
#[derive(Clone, Copy)]
struct Seek<'a> {
    steps: &'a [Step],
    on_name: bool,
}

/// Text of an error that never reaches the user.
const HERE: &str = "here";

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// A type without a `visit_…` here fails at its own place, which is the wanted position.
impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HERE)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((Step::Field(wanted), rest)) = self.steps.split_first() else {
            return Err(A::Error::custom(HERE));
        };
        let on_name = self.on_name && rest.is_empty();
        while let Some(name) = map.next_key_seed(Name { stop_at: on_name.then_some(wanted) })? {
            if name.as_deref() == Some(wanted) {
                map.next_value_seed(Seek { steps: rest, ..self })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Err(A::Error::custom(HERE))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Some((Step::Item(wanted), rest)) = self.steps.split_first() else {
            return Err(A::Error::custom(HERE));
        };
        for _ in 0..*wanted {
            if seq.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        seq.next_element_seed(Seek { steps: rest, ..self })?;
        Err(A::Error::custom(HERE))
    }
}

/// Reads the name of a field, `None` if it is not text. Fails at the name `stop_at`.
struct Name<'a> {
    stop_at: Option<&'a String>,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Name<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HERE)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<String>, E> {
        if self.stop_at.is_some_and(|wanted| wanted == name) {
            return Err(E::custom(HERE));
        }
        Ok(Some(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "redis:\n  main: {url: x, interval: 1s}\n\
        tasks:\n  # a comment\n  - name: a\n    lock:\n      key: k\n  - name: b\n    lock: {key: \
        l}\n";

    fn at(place: &Place) -> (usize, usize) {
        let position = position(TEXT, place).unwrap();
        (position.line, position.column)
    }

    #[test]
    fn values_names_and_absent_fields_are_found() {
        let top = Place::default();
        let task = top.field("tasks").item(1);
        assert_eq!(at(&top.field("redis").field("main").field("interval")), (2, 28));
        assert_eq!(at(&task.field("lock").field("key")), (9, 17));
        assert_eq!(at(&task.field("lock").name_of_field("key")), (9, 12));
        assert_eq!(at(&task.field("lock").field("absent")), (9, 11));
        assert_eq!(at(&task), (8, 5));
        assert_eq!(
            at(&top.field("tasks").item(0).field("lock").field("key").field("deeper")),
            (7, 12)
        );
        assert_eq!(at(&top.field("absent")), (1, 1));
        assert_eq!(at(&top.field("tasks").item(9)), (5, 3));
    }

    #[test]
    fn an_empty_text_is_wrong_at_its_start() {
        assert_eq!(
            position("", &Place::default().field("redis")),
            Some(Position { line: 1, column: 1 })
        );
    }
}

//! Reads one block of the document: refuses unknown fields, reads known ones, reports every mistake
//! with its place.

use serde_yaml::{Mapping, Value};

use super::mistake::{Mistakes, Place, Reported, quoted};
use super::schema::BlockSpec;
use super::values::kind;

/// A mapping of the document, its field names already checked.
pub(super) struct Block<'a> {
    place: Place,
    map: &'a Mapping,
    /// A field says what is missing, but in a way that is refused: then nothing is reported as
    /// missing.
    says_otherwise: bool,
    mistakes: &'a Mistakes,
}

impl<'a> Block<'a> {
    /// Opens `value` as the block `spec`; unknown fields are reported, but do not keep it from
    /// being read.
    pub(super) fn open(
        value: &'a Value,
        place: Place,
        spec: &BlockSpec,
        mistakes: &'a Mistakes,
    ) -> Result<Block<'a>, Reported> {
        let Value::Mapping(map) = value else {
            let fields = spec.fields.join(", ");
            return Err(mistakes.report(
                place,
                format!("is {}; write a block with the fields {fields}", kind(value)),
            ));
        };
        for name in map.keys() {
            let Value::String(name) = name else {
                mistakes.report(
                    place.clone(),
                    format!("has a field whose name is {}; use text", kind(name)),
                );
                continue;
            };
            if let Some(refusal) = spec.refusal(name) {
                mistakes.report(place.name_of_field(name), refusal);
            }
        }
        let says_otherwise =
            map.keys().filter_map(Value::as_str).any(|name| spec.says_otherwise(name));
        Ok(Block { place, map, says_otherwise, mistakes })
    }

    /// The value of a field, if it is there.
    pub(super) fn value(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field)
    }

    pub(super) fn place(&self, field: &str) -> Place {
        self.place.field(field)
    }

    /// Where mistakes are reported.
    pub(super) fn mistakes(&self) -> &'a Mistakes {
        self.mistakes
    }

    /// Reports what is wrong with a field (or, if it is absent, with the block that lacks it).
    pub(super) fn report(&self, field: &str, message: impl Into<String>) -> Reported {
        self.mistakes.report(self.place(field), message)
    }

    /// Reports what is wrong with the whole block.
    pub(super) fn report_whole(&self, message: impl Into<String>) -> Reported {
        self.mistakes.report(self.place.clone(), message)
    }

    /// A field that may be left out.
    pub(super) fn optional<T>(
        &self,
        field: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, Reported> {
        let Some(value) = self.value(field) else { return Ok(None) };
        read(value).map(Some).map_err(|message| self.report(field, message))
    }

    /// A field with a default.
    pub(super) fn or<T>(
        &self,
        field: &str,
        default: T,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<T, Reported> {
        Ok(self.optional(field, read)?.unwrap_or(default))
    }

    /// A field that must be there; `remedy` tells what to write.
    pub(super) fn required<T>(
        &self,
        field: &str,
        remedy: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<T, Reported> {
        self.optional(field, read)?
            .ok_or_else(|| self.missing(self.place(field), format!("is missing; {remedy}")))
    }

    fn missing(&self, place: Place, message: String) -> Reported {
        if self.says_otherwise { Reported } else { self.mistakes.report(place, message) }
    }

    /// A list of 1 to `max` items that must be there, no two the same; `remedy` tells what to
    /// write.
    pub(super) fn required_list<T>(
        &self,
        field: &str,
        max: usize,
        remedy: &str,
        read: impl Fn(&Value) -> Result<T, String>,
        same: impl Fn(&T, &T) -> bool,
    ) -> Result<Vec<T>, Reported> {
        let place = self.place(field);
        let Some(value) = self.value(field) else {
            return Err(self.missing(place, format!("is missing; {remedy}")));
        };
        let items = list(value, &place, self.mistakes, read)?;
        if items.is_empty() {
            return Err(self.report(field, format!("is an empty list; {remedy}")));
        }
        if items.len() > max {
            return Err(
                self.report(field, format!("has {} items; write at most {max}", items.len()))
            );
        }
        let first_of = |item: &T| items.iter().position(|other| same(other, item));
        let twice =
            items.iter().enumerate().filter_map(|(index, item)| Some((index, first_of(item)?)));
        let twice = twice.filter(|(index, first)| index != first).map(|(index, first)| {
            self.mistakes.report(
                place.item(index),
                format!("is the same as {field}[{first}]; name each one once"),
            )
        });
        twice.last().map_or(Ok(()), Err)?;
        Ok(items)
    }

    /// A block inside this one that may be left out.
    pub(super) fn child(
        &self,
        field: &str,
        spec: &BlockSpec,
    ) -> Result<Option<Block<'a>>, Reported> {
        self.value(field)
            .map(|value| Block::open(value, self.place(field), spec, self.mistakes))
            .transpose()
    }

    /// The one of `fields` that is there; none or several are a mistake, with `remedy`.
    pub(super) fn exactly_one<'f>(
        &self,
        fields: &[&'f str],
        remedy: &str,
    ) -> Result<&'f str, Reported> {
        let present: Vec<&str> =
            fields.iter().copied().filter(|field| self.map.contains_key(field)).collect();
        match present.as_slice() {
            [one] => Ok(one),
            [] => Err(self.missing(self.place.clone(), format!("says nothing; {remedy}"))),
            [_, second, ..] => {
                let message =
                    format!("cannot stand beside {}; {remedy}", quoted_list(&present, second));
                Err(self.report(second, message))
            }
        }
    }
}

fn quoted_list(present: &[&str], except: &str) -> String {
    let names: Vec<String> =
        present.iter().filter(|name| **name != except).map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// The text items of a list, each read by `read`.
pub(super) fn list<T>(
    value: &Value,
    place: &Place,
    mistakes: &Mistakes,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<T>, Reported> {
    let Value::Sequence(items) = value else {
        return Err(
            mistakes.report(place.clone(), format!("is {}; write a list: [a, b]", kind(value)))
        );
    };
    let mut good = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        if let Ok(item) = read(item).map_err(|message| mistakes.report(place.item(index), message))
        {
            good.push(item);
        }
    }
    if good.len() == items.len() { Ok(good) } else { Err(Reported) }
}

/// One of the names of a closed list.
pub(super) fn choice<T: Copy>(
    value: &Value,
    what: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let names = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
    let Value::String(text) = value else {
        return Err(format!("is {}; write the name of a {what}: {}", kind(value), names()));
    };
    let found = all.iter().copied().find(|one| name(*one) == text);
    found.ok_or_else(|| format!("{} is not a known {what}; use one of {}", quoted(text), names()))
}

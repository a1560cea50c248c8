//! Reads one block of the document: refuses unknown fields, reads known ones, and reports every
//! mistake with its place.

use serde_yaml::{Mapping, Value};

use super::mistake::{Mistakes, Reported, quoted};
use super::place::Place;
use super::schema::{BlockSpec, StoreKind};
use super::values::kind;

/// A value of the document and its place.
#[derive(Clone)]
pub(super) struct At<'a> {
    pub(super) value: &'a Value,
    pub(super) place: Place,
    pub(super) mistakes: &'a Mistakes,
    /// The kind of store of the task that it belongs to; `None`: it belongs to no task.
    pub(super) store: Option<StoreKind>,
}

impl<'a> At<'a> {
    /// Reports a mistake at this place.
    pub(super) fn report(&self, message: impl Into<String>) -> Reported {
        self.mistakes.report(self.place.clone(), message)
    }

    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<T, Reported> {
        read(self.value).map_err(|message| self.report(message))
    }

    /// The items of a list, each parsed by `read`.
    pub(super) fn list<T>(
        &self,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Vec<T>, Reported> {
        let Value::Sequence(items) = self.value else {
            return Err(self.report(format!("is {}; write a list: [a, b]", kind(self.value))));
        };
        let items: Vec<_> = (0..)
            .zip(items)
            .map(|(index, value)| At { value, place: self.place.item(index), ..*self }.read(&read))
            .collect();
        items.into_iter().collect()
    }
}

/// A mapping of the document. Its field names are already checked.
pub(super) struct Block<'a> {
    at: At<'a>,
    map: &'a Mapping,
    /// An unknown field already stands in for a missing one, and was refused with a hint. Then no
    /// required field is reported as missing.
    says_otherwise: bool,
}

impl<'a> Block<'a> {
    /// Opens a value as the block `spec`. Unknown fields are reported, but the rest of the block is
    /// still read.
    pub(super) fn open(at: At<'a>, spec: &BlockSpec) -> Result<Block<'a>, Reported> {
        let Value::Mapping(map) = at.value else {
            let fields = spec.fields_in(at.store).join(", ");
            let kind = kind(at.value);
            return Err(at.report(format!("is {kind}; write a block with the fields {fields}")));
        };
        for name in map.keys() {
            let Value::String(name) = name else {
                at.report(format!("has a field whose name is {}; use text", kind(name)));
                continue;
            };
            if let Some(refusal) = spec.refusal(name, at.store) {
                at.mistakes.report(at.place.name_of_field(name), refusal);
            }
        }
        let says_otherwise =
            map.keys().filter_map(Value::as_str).any(|name| spec.says_otherwise(name, at.store));
        Ok(Block { at, map, says_otherwise })
    }

    /// The value of a field, if present.
    pub(super) fn value(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field)
    }

    /// The value of a field with its place, if present.
    pub(super) fn at(&self, field: &str) -> Option<At<'a>> {
        let value = self.value(field)?;
        Some(At { value, place: self.place(field), ..self.at })
    }

    /// Whether it belongs to a task in ZooKeeper.
    pub(super) fn is_in_zookeeper(&self) -> bool {
        self.at.store == Some(StoreKind::ZooKeeper)
    }

    /// Either of two names: that of a field in Redis, or in ZooKeeper.
    pub(super) fn called<'f>(&self, in_redis: &'f str, in_zookeeper: &'f str) -> &'f str {
        if self.is_in_zookeeper() { in_zookeeper } else { in_redis }
    }

    /// The block itself as a value.
    pub(super) fn whole(&self) -> At<'a> {
        self.at.clone()
    }

    pub(super) fn place(&self, field: &str) -> Place {
        self.at.place.field(field)
    }

    /// Reports a mistake in a field. If the field is absent, the place is that of the block.
    pub(super) fn report(&self, field: &str, message: impl Into<String>) -> Reported {
        self.report_at(self.place(field), message)
    }

    /// Reports a mistake of the whole block.
    pub(super) fn report_whole(&self, message: impl Into<String>) -> Reported {
        self.at.report(message)
    }

    /// Reports a mistake at a place within the block.
    pub(super) fn report_at(&self, place: Place, message: impl Into<String>) -> Reported {
        self.at.mistakes.report(place, message)
    }

    /// An optional field.
    pub(super) fn optional<T>(
        &self,
        field: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, Reported> {
        self.at(field).map(|at| at.read(read)).transpose()
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

    /// Which of its two names a field has here. Both together are a mistake.
    pub(super) fn either<'f>(&self, field: &'f str, older: &'f str) -> Result<&'f str, Reported> {
        match (self.value(field), self.value(older)) {
            (Some(_), Some(_)) => {
                let message = format!("is the older name of `{field}`, which stands here as well");
                Err(self.report(older, message + "; remove one of them"))
            }
            (None, Some(_)) => Ok(older),
            _ => Ok(field),
        }
    }

    /// A required field. `remedy` says what to write.
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
        if self.says_otherwise { Reported } else { self.report_at(place, message) }
    }

    /// A required list of 1 to `max` distinct items. `remedy` says what to write.
    pub(super) fn required_list<T>(
        &self,
        field: &str,
        max: usize,
        remedy: &str,
        read: impl Fn(&Value) -> Result<T, String>,
        same: impl Fn(&T, &T) -> bool,
    ) -> Result<Vec<T>, Reported> {
        let place = self.place(field);
        let Some(at) = self.at(field) else {
            return Err(self.missing(place, format!("is missing; {remedy}")));
        };
        let items = at.list(read)?;
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
            let message = format!("is the same as {field}[{first}]; name each one once");
            self.report_at(place.item(index), message)
        });
        twice.last().map_or(Ok(()), Err)?;
        Ok(items)
    }

    /// An optional block within this one.
    pub(super) fn child(
        &self,
        field: &str,
        spec: &BlockSpec,
    ) -> Result<Option<Block<'a>>, Reported> {
        self.at(field).map(|at| Block::open(at, spec)).transpose()
    }

    /// The one field of `fields` that is present. None or several are a mistake, reported with
    /// `remedy`.
    pub(super) fn exactly_one<'f>(
        &self,
        fields: &[&'f str],
        remedy: &str,
    ) -> Result<&'f str, Reported> {
        let present: Vec<&str> =
            fields.iter().copied().filter(|field| self.map.contains_key(field)).collect();
        match present.as_slice() {
            [one] => Ok(one),
            [] => Err(self.missing(self.at.place.clone(), format!("says nothing; {remedy}"))),
            [_, second, ..] => {
                let message =
                    format!("cannot be combined with {}; {remedy}", quoted_list(&present, second));
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

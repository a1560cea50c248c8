//! Values of the configurations of Prometheus and Alertmanager, as these programs read them.

use std::collections::BTreeMap;

use serde_yaml::Value;

use crate::text::durations::parse_duration_ms;

/// The items of a list; none if it is not there.
pub(super) fn list<'a>(block: &'a Value, field: &str) -> Result<&'a [Value], String> {
    match block.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Sequence(items)) => Ok(items),
        Some(_) => Err(format!("`{field}` is no list")),
    }
}

/// A plain value as text.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The plain values of a list; none for any other value.
pub(super) fn texts(block: &Value, field: &str) -> Vec<String> {
    let items = block.get(field).and_then(Value::as_sequence).into_iter().flatten();
    items.filter_map(text).collect()
}

/// A mapping of plain values; none for any other value.
pub(super) fn pairs(block: &Value, field: &str) -> BTreeMap<String, String> {
    let entries = block.get(field).and_then(Value::as_mapping).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

/// Whether a switch is on. These programs read YAML 1.1, where `yes` and `on` are booleans.
pub(super) fn is_on(value: Option<&Value>) -> bool {
    let said = value.and_then(text).unwrap_or_default().to_ascii_lowercase();
    matches!(said.as_str(), "true" | "yes" | "on" | "y")
}

/// A duration as Prometheus and Alertmanager parse it. There a bare 0 needs no unit, and an empty
/// value counts as absent.
pub(super) fn ms(block: &Value, field: &str) -> Result<Option<u64>, String> {
    let parsed = match block.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) if number.as_u64() == Some(0) => Ok(Some(0)),
        Some(Value::String(text)) if text == "0" => Ok(Some(0)),
        Some(Value::String(text)) => parse_duration_ms(text).map(Some),
        Some(_) => Err("is not text".to_owned()),
    };
    parsed.map_err(|message| format!("{field} {message}"))
}

//! The subset of JSON Schema that the API's description uses. Any other keyword is an error.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keywords that do not constrain values.
const SILENT: [&str; 2] = ["description", "default"];

/// A document, and which of its properties occurred.
pub(super) struct Schemas<'a> {
    document: &'a Value,
    /// `Schema.property` of every property that occurred.
    pub(super) present: BTreeSet<String>,
    /// Those that occurred with a value other than `null`.
    pub(super) reported: BTreeSet<String>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(document: &'a Value) -> Schemas<'a> {
        Schemas { document, present: BTreeSet::new(), reported: BTreeSet::new() }
    }

    /// Panics unless `value` matches the schema.
    #[track_caller]
    pub(super) fn check(&mut self, schema: &'a Value, value: &Value, what: &str) {
        if let Err(why) = self.fits(schema, value, "", what) {
            panic!("{why}\nin {value:#}");
        }
    }

    /// Every property of the object schemas with these names, as `Schema.property`.
    pub(super) fn properties(&self) -> BTreeSet<String> {
        let schemas = self.document["components"]["schemas"].as_object().unwrap();
        let of = |(name, schema): (&String, &Value)| -> Vec<String> {
            let properties = schema["properties"].as_object().into_iter().flat_map(Map::keys);
            properties.map(|property| format!("{name}.{property}")).collect()
        };
        schemas.iter().flat_map(of).collect()
    }

    /// `name`: the schema that contains it; `at`: its place in the document.
    fn fits(
        &mut self,
        schema: &'a Value,
        value: &Value,
        name: &str,
        at: &str,
    ) -> Result<(), String> {
        let keywords = schema.as_object().ok_or_else(|| format!("{at}: no schema: {schema}"))?;
        for (keyword, rule) in keywords {
            let fits = match keyword.as_str() {
                "$ref" => {
                    let path = rule.as_str().unwrap().strip_prefix('#').unwrap();
                    let target = self
                        .document
                        .pointer(path)
                        .ok_or_else(|| format!("{at}: {path} is not there"))?;
                    self.fits(target, value, path.rsplit('/').next().unwrap(), at)?;
                    true
                }
                "anyOf" => {
                    let tried: Vec<_> = rule
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|choice| self.fits(choice, value, name, at))
                        .collect();
                    if tried.iter().all(Result::is_err) {
                        return Err(tried
                            .into_iter()
                            .filter_map(Result::err)
                            .collect::<Vec<_>>()
                            .join("\nnor "));
                    }
                    true
                }
                "type" => match rule {
                    Value::Array(types) => types.iter().any(|one| is_of(value, one)),
                    one => is_of(value, one),
                },
                "enum" => rule.as_array().unwrap().contains(value),
                "const" => rule == value,
                "properties" | "required" | "items" if value.is_null() => true,
                "properties" => self.properties_fit(rule.as_object().unwrap(), value, name, at)?,
                "required" => rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|field| value.get(field.as_str().unwrap()).is_some()),
                "additionalProperties" if rule.is_object() => {
                    for (field, item) in value.as_object().into_iter().flatten() {
                        self.fits(rule, item, name, &format!("{at}/{field}"))?;
                    }
                    true
                }
                "additionalProperties" => {
                    assert_eq!(rule, &Value::Bool(false), "{at}: nothing else is checked");
                    let known = |field: &String| schema["properties"].get(field).is_some();
                    value.as_object().is_none_or(|object| object.keys().all(known))
                }
                "items" => {
                    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.fits(rule, item, name, &format!("{at}/{number}"))?;
                    }
                    true
                }
                "format" => {
                    assert_eq!(rule, "date-time", "{at}: nothing else is checked");
                    value.as_str().is_none_or(is_instant)
                }
                "pattern" => {
                    let pattern = regex_lite::Regex::new(rule.as_str().unwrap()).unwrap();
                    value.as_str().is_none_or(|text| pattern.is_match(text))
                }
                "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
                "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
                silent if SILENT.contains(&silent) => true,
                other => return Err(format!("{at}: nobody checks {other}")),
            };
            if !fits {
                return Err(format!("{at} ({name}): {value} does not fit {keyword}: {rule}"));
            }
        }
        Ok(())
    }

    fn properties_fit(
        &mut self,
        properties: &'a Map<String, Value>,
        value: &Value,
        name: &str,
        at: &str,
    ) -> Result<bool, String> {
        for (field, schema) in properties {
            let Some(part) = value.get(field) else { continue };
            self.fits(schema, part, name, &format!("{at}/{field}"))?;
            self.present.insert(format!("{name}.{field}"));
            if !part.is_null() {
                self.reported.insert(format!("{name}.{field}"));
            }
        }
        Ok(true)
    }
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type: {other}"),
    }
}

/// `2026-01-31T23:59:59.999Z`.
fn is_instant(text: &str) -> bool {
    let pattern =
        r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$";
    regex_lite::Regex::new(pattern).unwrap().is_match(text)
}

#[test]
fn what_does_not_fit_is_found() {
    use serde_json::json;
    let document = json!({"components": {"schemas": {
        "Word": {"type": "string", "enum": ["a", "b"]},
        "Thing": {
            "type": "object", "additionalProperties": false, "required": ["word", "at"],
            "properties": {
                "word": {"description": "A word.", "anyOf": [{"$ref": "#/components/schemas/Word"}, {"type": "null"}]},
                "at": {"type": "string", "format": "date-time"},
                "list": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}},
                "id": {"type": "string", "pattern": "^[0-9]+$"},
            },
        },
        "Odd": {"type": "object", "maxProperties": 3},
    }}});
    let schema = |name: &str| &document["components"]["schemas"][name];
    let fits = |name: &str, value: Value| {
        let mut schemas = Schemas::new(&document);
        schemas.fits(schema(name), &value, name, "").map(|()| schemas)
    };
    let at = "2026-01-31T23:59:59.999Z";
    let good =
        fits("Thing", json!({"word": null, "at": at, "list": [0, 7], "id": "12"})).ok().unwrap();
    assert_eq!(good.present.len(), 4);
    assert_eq!(good.present.difference(&good.reported).collect::<Vec<_>>(), ["Thing.word"]);
    assert_eq!(good.properties(), good.present);
    for bad in [
        json!({"word": "c", "at": at}),
        json!({"word": 1, "at": at}),
        json!({"at": at}),
        json!({"word": "a", "at": null}),
        json!({"word": "a", "at": "2026-01-31 23:59:59.999Z"}),
        json!({"word": "a", "at": "2026-13-31T23:59:59.999Z"}),
        json!({"word": "a", "at": at, "more": 1}),
        json!({"word": "a", "at": at, "list": [1.5]}),
        json!({"word": "a", "at": at, "list": [-1]}),
        json!({"word": "a", "at": at, "id": "x1"}),
        json!([]),
    ] {
        assert!(fits("Thing", bad.clone()).is_err(), "{bad}");
    }
    assert!(fits("Odd", json!({})).is_err(), "a keyword that nobody checks");
}

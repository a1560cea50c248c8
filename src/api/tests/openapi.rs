//! Generates docs/openapi.json: the paths are in a table here, the schemas are those of the types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::words::{EventId, EventKind, Level, Verdict, Wanted};
use crate::api::{
    Drill, DrillRequest, Error, EventList, Explanation, OneTask, PresentDrill, StartDrill, TaskList,
};
use crate::paths;

const ABOUT: &str = "What lockwatch knows of the tasks that it watches. Fields are only ever added \
    within `/api/v1`. Durations are seconds; instants are RFC 3339 in UTC with milliseconds. What \
    is unknown is `null`. Texts that came from a store are escaped: a backslash is doubled, what \
    is not printable is `\\xNN` for each byte, and what is longer than 200 bytes is cut and ends \
    in `…` and a digest.";

const NO_SUCH_TASK: &str = "There is no such task.";
const INVALID: &str = "A parameter or a value is invalid; nothing is ever ignored.";
const STOPPED: &str = "The newest snapshot is older than 10 s: the agent's engine has stopped, and \
    nothing it says describes the present.";

/// The description of the API in OpenAPI 3.1.
fn document() -> Value {
    let mut schemas = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let paths = paths(&mut schemas);
    let mut components = schemas.take_definitions(true);
    components.values_mut().for_each(finish);
    let licence = env!("CARGO_PKG_LICENSE");
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "lockwatch", "version": "1", "description": ABOUT,
            "license": {"name": licence, "identifier": licence},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": components},
    });
    // Where an OpenAPI document has its schemas.
    let text = document.to_string().replace("#/$defs/", "#/components/schemas/");
    document = serde_json::from_str(&text).unwrap();
    document
}

/// What is `null` and may be absent, too.
const NULL_OR_ABSENT: &str = "runs";

/// What the types do not say: objects have no other fields, what may be absent is never `null`, and
/// no number is negative but an offset.
fn finish(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            fields.retain(|keyword, value| match keyword.as_str() {
                "default" => false,
                "format" => value == "date-time" || !value.is_string(),
                _ => true,
            });
            let required = fields.get("required").cloned().unwrap_or_default();
            let is_required =
                |name: &String| required.as_array().is_some_and(|all| all.contains(&json!(name)));
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                for (name, field) in properties {
                    if !is_required(name) && name != NULL_OR_ABSENT {
                        never_null(field);
                    }
                    let is_number = field["type"] == "number" || field["type"][0] == "number";
                    if is_number && name != "clock_offset_seconds" {
                        field["minimum"] = 0.into();
                    }
                }
                fields.insert("additionalProperties".to_owned(), false.into());
            }
            for (keyword, value) in fields {
                match value {
                    // Its fields are schemas, and may have any name.
                    Value::Object(named) if keyword == "properties" => {
                        named.values_mut().for_each(finish);
                    }
                    _ => finish(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(finish),
        _ => {}
    }
}

fn never_null(schema: &mut Value) {
    if let Some([Value::String(only), _null]) = schema["type"].as_array().map(Vec::as_slice) {
        schema["type"] = only.as_str().into();
    }
    if let Some([only, _null]) = schema["anyOf"].as_array().map(Vec::as_slice) {
        let reference = only["$ref"].clone();
        let fields = schema.as_object_mut().unwrap();
        fields.remove("anyOf");
        fields.insert("$ref".to_owned(), reference);
    }
}

fn paths(schemas: &mut SchemaGenerator) -> Value {
    let tasks = [
        list::<Verdict>(
            schemas,
            "verdict",
            "The verdict is one of these.",
            json!(["down", "split"]),
        ),
        list::<Wanted>(schemas, "wanted", "Whether it is wanted is one of these.", json!(["yes"])),
        names("store", "Its store has one of these names.", "main"),
        names(
            "q",
            "Name, key, a holder or its host contains this, as it is shown; upper and lower case \
             are alike.",
            "bound",
        ),
        json!({
            "name": "labels", "in": "query",
            "description": "Parameters `label.NAME`, one for each configured label: it has this \
                            value.",
            "schema": {
                "type": "object", "additionalProperties": false,
                "patternProperties": {"^label\\..+$": {"type": "string"}},
            },
            "style": "form", "explode": true, "example": {"label.team": "logistics"},
        }),
    ];
    let events = [
        names(
            "task",
            "Events about these tasks; together with `store`: about any of these.",
            "outbound",
        ),
        names("store", "Events about these stores themselves.", "main"),
        list::<EventKind>(schemas, "kind", "Of these kinds.", json!(["verdict", "acquired"])),
        parameter("level", "Of this level and above.", reference::<Level>(schemas), "info"),
        parameter(
            "since",
            "Events after this one, the oldest first; without it, the newest ones.",
            reference::<EventId>(schemas),
            "00000000-0",
        ),
        parameter(
            "limit",
            "Most events of the response.",
            json!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 200}),
            10,
        ),
    ];
    let too_many = format!("{STOPPED} Or too many requests wait for an explanation.");
    let get = |answers: Answers<'_>| json!({"get": answers.operation()});
    let task_list = get(Answers {
        id: "listTasks",
        summary: "All tasks, or those that are requested, and all stores.",
        description: Some(
            "Values of one parameter are alternatives; different parameters must all fit.",
        ),
        parameters: &tasks,
        good: ("One snapshot.", reference::<TaskList>(schemas)),
        errors: &[("400", INVALID), ("503", STOPPED)],
        error: reference::<Error>(schemas),
        tagged: true,
    });
    let error = reference::<Error>(schemas);
    let one_task = get(Answers {
        id: "getTask",
        summary: "One task.",
        description: None,
        parameters: &[name()],
        good: ("The task.", reference::<OneTask>(schemas)),
        errors: &[("400", INVALID), ("404", NO_SUCH_TASK), ("503", STOPPED)],
        error: error.clone(),
        tagged: true,
    });
    let explanation = get(Answers {
        id: "explainTask",
        summary: "Why a task has its verdict.",
        description: None,
        parameters: &[name()],
        good: ("The agent's own reasoning.", reference::<Explanation>(schemas)),
        errors: &[
            ("400", "There are no parameters here."),
            ("404", NO_SUCH_TASK),
            ("503", &too_many),
        ],
        error: error.clone(),
        tagged: false,
    });
    let mut want = Answers {
        id: "flipOwnSwitch",
        summary: "Flips the own switch of the user that has logged in.",
        description: Some(
            "Only where the store's block `want` has `page: true`; elsewhere 404. A request from \
             another site's page is refused (403).",
        ),
        parameters: &[name()],
        good: (
            "The switch is as requested. The body is that of `lockwatch want --output json`.",
            json!({"type": "object"}),
        ),
        errors: &[
            ("400", "The body is no wish, or there are parameters."),
            ("403", "Another site's page sent it, or nobody has logged in."),
            ("404", "There is no such task, or no switch of it can be flipped here."),
            (
                "409",
                "The store or the configuration does not allow it; nothing is known to have \
                     changed.",
            ),
            ("415", "The body's type is not JSON."),
            ("503", "The store cannot be reached, or too many switches are being flipped."),
        ],
        error: error.clone(),
        tagged: false,
    }
    .operation();
    want["requestBody"] = json!({"required": true, "content": content(&json!({
        "type": "object", "additionalProperties": false, "required": ["want"],
        "properties": {"want": {"type": "string", "enum": ["on", "off"]}},
    }))});
    let event_list = get(Answers {
        id: "listEvents",
        summary: "The newest events.",
        description: None,
        parameters: &events,
        good: ("Events.", reference::<EventList>(schemas)),
        errors: &[
            ("400", INVALID),
            ("410", "A stream was requested; `/live` is the only one."),
            ("503", STOPPED),
        ],
        error: error.clone(),
        tagged: true,
    });
    let description = get(Answers {
        id: "describe",
        summary: "This description.",
        description: None,
        parameters: &[],
        good: ("OpenAPI 3.1.", json!({"type": "object"})),
        errors: &[("400", INVALID)],
        error: error.clone(),
        tagged: true,
    });
    let [present_drill, start_drill, change_drill] = drills(schemas, &error);
    json!({
        paths::TASKS: task_list,
        paths::TASK.of("{name}").replace("%7B", "{").replace("%7D", "}"): one_task,
        paths::EXPLANATION.of("{name}").replace("%7B", "{").replace("%7D", "}"): explanation,
        paths::WANT.of("{name}").replace("%7B", "{").replace("%7D", "}"): {"post": want},
        paths::DRILL: {"get": present_drill, "post": start_drill},
        format!("{}/{{id}}", paths::DRILL): {"post": change_drill},
        paths::EVENTS: event_list,
        paths::OPENAPI: description,
    })
}

/// What runs, begins, and is renewed or ended.
fn drills(schemas: &mut SchemaGenerator, error: &Value) -> [Value; 3] {
    let present = Answers {
        id: "getDrill",
        summary: "The drill that runs.",
        description: None,
        parameters: &[],
        good: ("It, or `null`.", reference::<PresentDrill>(schemas)),
        errors: &[("400", "There are no parameters here."), ("503", STOPPED)],
        error: error.clone(),
        tagged: false,
    };
    let refused = [
        ("400", "The body is none of these, or there are parameters."),
        (
            "403",
            "No `drill: true` is configured, another site's page sent it, or nobody logged in.",
        ),
        ("404", "There is no such task."),
        ("409", "Another drill runs: of which task, since when, and who began it."),
        ("415", "The body's type is not JSON."),
        (
            "429",
            "The drill before reached a notification, or may have, less than ten minutes ago; \
            `Retry-After` says for how many seconds to wait.",
        ),
        ("503", "The agent's engine does not answer, or too many requests wait."),
    ];
    let start = Answers {
        id: "startDrill",
        summary: "Begins a drill: a synthetic task that is down, with the labels of a real one.",
        description: Some(
            "`lockwatch drill` sends this, follows the alert, and ends the drill. It \
            ends by itself 30 s after it was renewed last.",
        ),
        parameters: &[],
        good: ("It is on every scrape from now on.", reference::<Drill>(schemas)),
        errors: &refused,
        error: error.clone(),
        tagged: false,
    };
    let of_id = |status: &str| matches!(status, "400" | "403" | "415" | "503");
    let mut of_id: Vec<_> = refused.into_iter().filter(|(status, _)| of_id(status)).collect();
    of_id.push((
        "404",
        "The id is of another agent, or of a drill that is over; the reason says why.",
    ));
    let id = json!({
        "name": "id", "in": "path", "required": true, "description": "The drill's id.",
        "schema": {"type": "string"},
    });
    let change = Answers {
        id: "changeDrill",
        summary: "Lets a drill go on for 30 s more, within its time, or ends it.",
        description: None,
        parameters: &[id],
        good: ("It goes on, or has ended.", reference::<Drill>(schemas)),
        errors: &of_id,
        error: error.clone(),
        tagged: false,
    };
    let [present, mut start, mut change] = [present, start, change].map(Answers::operation);
    let responses = start["responses"].as_object_mut().unwrap();
    let good = responses.remove("200").unwrap();
    responses.insert("201".to_owned(), good);
    for (operation, body) in [
        (&mut start, reference::<StartDrill>(schemas)),
        (&mut change, reference::<DrillRequest>(schemas)),
    ] {
        operation["requestBody"] = json!({"required": true, "content": content(&body)});
    }
    [present, start, change]
}

/// One operation of a path.
struct Answers<'a> {
    id: &'a str,
    summary: &'a str,
    description: Option<&'a str>,
    parameters: &'a [Value],
    /// What status 200 means, and its body.
    good: (&'a str, Value),
    /// Other status codes, and what they mean.
    errors: &'a [(&'a str, &'a str)],
    /// Their body.
    error: Value,
    /// Whether the response has an entity tag.
    tagged: bool,
}

impl Answers<'_> {
    fn operation(self) -> Value {
        let headers = json!({
            "ETag": {
                "description": "Changes with the response and with each start of the agent.",
                "schema": {"type": "string"},
            },
            "Cache-Control": {
                "description": "Always `no-cache`: ask again each time.",
                "schema": {"type": "string", "const": "no-cache"},
            },
        });
        let mut parameters = self.parameters.to_vec();
        let (means, body) = self.good;
        let mut responses = Map::new();
        responses
            .insert("200".to_owned(), json!({"description": means, "content": content(&body)}));
        if self.tagged {
            parameters.push(json!({
                "name": "If-None-Match", "in": "header",
                "description": "Tags of responses that the client has.",
                "schema": {"type": "string"},
            }));
            responses["200"]["headers"] = headers.clone();
            let means = "The client has this response already: `If-None-Match` names its tag.";
            responses.insert("304".to_owned(), json!({"description": means, "headers": headers}));
        }
        for (status, means) in self.errors {
            let response = json!({"description": means, "content": content(&self.error)});
            responses.insert((*status).to_owned(), response);
        }
        let mut operation = json!({
            "operationId": self.id, "summary": self.summary, "parameters": parameters,
            "responses": responses,
        });
        if let Some(description) = self.description {
            operation["description"] = description.into();
        }
        operation
    }
}

fn content(schema: &Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

fn reference<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().into()
}

fn parameter(name: &str, description: &str, schema: Value, example: impl Into<Value>) -> Value {
    json!({
        "name": name, "in": "query", "description": description, "schema": schema,
        "example": example.into(),
    })
}

/// A parameter that may be there several times.
fn names(name: &str, description: &str, example: &str) -> Value {
    let schema = json!({"type": "array", "items": {"type": "string"}});
    let mut parameter = parameter(name, description, schema, json!([example]));
    (parameter["style"], parameter["explode"]) = ("form".into(), true.into());
    parameter
}

/// A parameter whose words are separated by commas.
fn list<T: JsonSchema>(
    schemas: &mut SchemaGenerator,
    name: &str,
    description: &str,
    example: Value,
) -> Value {
    let schema = json!({"type": "array", "items": reference::<T>(schemas)});
    let mut parameter = parameter(name, description, schema, example);
    (parameter["style"], parameter["explode"]) = ("form".into(), false.into());
    parameter
}

/// The name in the path.
fn name() -> Value {
    json!({
        "name": "name", "in": "path", "required": true,
        "description": "The task's name, percent-encoded.", "schema": {"type": "string"},
    })
}

#[test]
fn it_is_what_the_types_say() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    let generated = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(file).unwrap();
    assert!(generated == checked_in, "run this test with BLESS=1, and look at what changes");
}

//! The closed lists of the API, for its description: their words are those of the code.

use std::borrow::Cow;

use lockwatch_judge::event::{
    End as Ends, EventKind as EventKinds, Fate as Fates, SplitKind as SplitKinds,
};
use lockwatch_judge::input::{Refusal as Refusals, Role as Roles, WakeUpState as WakeUpStates};
use lockwatch_judge::reading::{
    Codec as Codecs, Mode as Modes, Stands as AllStands, Unknown as Unknowns,
};
use lockwatch_judge::spec::{Moves as AllMoves, Unit as Units};
use lockwatch_judge::verdict::{
    LockFact as LockFacts, RunFact as RunFacts, TurnFact as TurnFacts, Verdict as Verdicts,
    Wanted as AllWanted, rules,
};
use lockwatch_watch::redis::RedisKind as StoreKinds;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::api::{At, Seconds, Text};
use crate::outputs::events::LEVELS;

/// Declares a type for each list: its description, its name in the document, and its words.
macro_rules! lists {
    ($($about:literal $name:ident = $words:expr;)+) => {$(
        pub(in crate::api) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                let words = $words;
                json_schema!({"description": $about, "type": "string", "enum": words})
            }
        }
    )+};
}

lists! {
    "What lockwatch says of a task; worst first."
    Verdict = Verdicts::ALL.map(Verdicts::name);
    "Whether users want the task; `unset`: the configuration names no switches."
    Wanted = AllWanted::ALL.map(AllWanted::name);
    "What is known of the lock, after confirmation."
    LockFact = LockFacts::ALL.map(LockFacts::name);
    "What is known of the runs of a periodic task."
    RunFact = RunFacts::ALL.map(RunFacts::name);
    "What is known of the turn, after confirmation."
    TurnFact = TurnFacts::ALL.map(TurnFacts::name);
    "The rule that gave a verdict, in the order in which they are considered."
    Rule = rule_names();
    "Why something is unknown."
    UnknownReason = Unknowns::ALL.map(Unknowns::name).to_vec();
    "The kinds of evidence for more than one holder."
    SplitKind = SplitKinds::ALL.map(SplitKinds::name);
    "How holds end."
    End = Ends::ALL.map(Ends::name);
    "What became of locks after their server may have lost data."
    Fate = Fates::ALL.map(Fates::name);
    "How a switch's value is encoded."
    Codec = Codecs::ALL.map(Codecs::name);
    "What counts as a movement of the progress."
    Moves = AllMoves::ALL.map(AllMoves::name);
    "The unit of an instant in a value."
    Unit = Units::ALL.map(Units::name);
    "Whether holders of a lock exclude each other."
    Mode = Modes::ALL.map(Modes::name);
    "What an entry does in the queue of a lock."
    Stands = AllStands::ALL.map(AllStands::name);
    "The role that a server reports."
    Role = Roles::ALL.map(Roles::name);
    "The code of the error with which a server refuses writes."
    Refusal = Refusals::ALL.map(Refusals::name);
    "Whether a server announces changed keys."
    WakeUpState = WakeUpStates::ALL.map(WakeUpStates::name);
    "How the servers of a store belong together."
    StoreKind = StoreKinds::ALL.map(StoreKinds::name);
    "What came of a changed key."
    Hint = ["read", "coalesced", "foreign"];
    "The kinds of events."
    EventKind = EventKinds::NAMES.to_vec();
    "How much an event matters: errors are what wakes somebody."
    Level = LEVELS.map(|(name, _)| name);
}

/// Some rules are in the lists of several kinds of tasks.
fn rule_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for rule in rules() {
        if !names.contains(&rule.name) {
            names.push(rule.name);
        }
    }
    names
}

/// An event's id, which has a form instead of a list.
pub(in crate::api) struct EventId;

impl JsonSchema for EventId {
    fn schema_name() -> Cow<'static, str> {
        "EventId".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Names one event: a word that changes with each process of the agent, \
                            `-`, and a number that counts its events.",
            "type": "string",
            "pattern": "^[0-9a-f]{8}-[0-9]+$",
        })
    }
}

/// How often each word of a list occurred.
#[derive(JsonSchema)]
#[schemars(rename = "{T}Count")]
#[expect(dead_code, reason = "only its description is used")]
pub(in crate::api) struct Counted<T> {
    /// Which of them.
    name: T,
    /// How often.
    count: u64,
}

/// Describes a value without a name of its own.
macro_rules! inline {
    ($($name:ident = $schema:tt;)+) => {$(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )+};
}

inline! {
    Text = {"type": "string"};
    At = {"type": ["string", "null"], "format": "date-time"};
    Seconds = {"type": "number", "minimum": 0};
}

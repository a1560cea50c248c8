//! The messages in the browser's console.

use serde_json::Value;

/// A line of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleLine {
    /// `SEVERE`, `WARNING`, `INFO` or `DEBUG`.
    pub level: String,
    /// The source: `network`, `security`, `javascript`, `console-api`, …
    pub source: String,
    /// The text.
    pub message: String,
}

impl ConsoleLine {
    /// Whether it is an error or a warning.
    pub fn is_bad(&self) -> bool {
        self.level == "SEVERE" || self.level == "WARNING"
    }

    /// Whether it only reports a failed request, as when the agent is gone.
    pub fn is_of_the_network(&self) -> bool {
        self.source == "network"
    }
}

impl From<&Value> for ConsoleLine {
    fn from(line: &Value) -> ConsoleLine {
        let text =
            |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        ConsoleLine { level: text("level"), source: text("source"), message: text("message") }
    }
}

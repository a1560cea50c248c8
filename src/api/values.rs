//! Values that bodies share: texts, instants, durations, counts, what is wrong, and why something
//! is unknown.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use lockwatch_watch::redis::rfc3339 as epoch_ms;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::instants::{rfc3339, seconds};
use crate::text::terminal::safe;

/// Text that a terminal may show. It is escaped when it is read, so that nothing raw from an agent
/// can reach the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Text(Cow<'static, str>);

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        Text(Cow::Borrowed(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(Cow::Owned(text))
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Text {
        Text::from(text.into_owned())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        let text = String::deserialize(deserializer)?;
        let harmless = match safe(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(escaped) => Some(escaped),
        };
        Ok(Text::from(harmless.unwrap_or(text)))
    }
}

/// An instant in milliseconds since the Unix epoch, which bodies have in RFC 3339. `None` where it
/// is unknown or has no such form; `null` then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At(pub Option<i64>);

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.and_then(rfc3339).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<At, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(At(text.and_then(|text| epoch_ms(text.as_bytes()))))
    }
}

/// A duration in milliseconds, which bodies have in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(seconds(self.0))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "what is beyond the range becomes its nearest end"
        )]
        f64::deserialize(deserializer).map(|seconds| Seconds((seconds * 1_000.0).round() as u64))
    }
}

/// Why something is unknown, and what a person can do about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Unknown {
    /// One of a closed list.
    #[cfg_attr(test, schemars(with = "super::tests::words::UnknownReason"))]
    pub reason: Text,
    /// What the server, or the system, said.
    pub said: Option<Text>,
    /// A sentence for people.
    pub remedy: Text,
}

impl Unknown {
    /// What was said, if anything, and what to do about it, in sentences.
    pub fn sentence(&self) -> Cow<'_, str> {
        sentences(self.said.as_deref(), &self.remedy)
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.reason, self.sentence())
    }
}

/// What the server said, if anything, and what to do about it, in sentences.
pub(crate) fn sentences<'a>(said: Option<&str>, remedy: &'a str) -> Cow<'a, str> {
    let Some(said) = said else { return remedy.into() };
    let end = if said.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{said}{end} {remedy}").into()
}

/// The reason why a request has no other response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Error {
    /// A sentence for people.
    pub error: Text,
    /// The valid parameters or values, if an invalid one was sent and they are a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<Text>>,
}

/// What deserves an alert.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Problem {
    /// Its name, as in the metrics.
    pub problem: Text,
    /// The alert of the shipped rules.
    pub alert: Text,
    /// `page`: it wakes somebody.
    #[cfg_attr(test, schemars(extend("enum" = ["page", "warning"])))]
    pub severity: Text,
    /// How long it has been seen; of an event: its age.
    pub seconds: Seconds,
    /// It is over, and shown for a while.
    pub event: bool,
}

/// How often something happened, and how long it took in all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Histogram {
    /// How often.
    pub count: u64,
    /// How long in all.
    pub sum_seconds: Seconds,
}

/// How often one of several things happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Count {
    /// Which of them.
    pub name: Text,
    /// How often.
    pub count: u64,
}

/// An instance that takes part in a split, or ran a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Party {
    /// As in `Holder`.
    pub holder: Text,
    /// Whether `holder` is a digest.
    pub digest: bool,
    /// The server that shows it, where that is not the deciding one; escaped.
    pub node: Option<Text>,
    /// Its host, where that is known; escaped.
    pub host: Option<Text>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_harmless_once_it_is_read() {
        let text: Text = serde_json::from_str(r#""\u001b]0;owned\u0007\u202e""#).unwrap();
        assert_eq!(&*text, r"\x1b]0;owned\x07\xe2\x80\xae");
    }

    #[test]
    fn values_come_back() {
        let at = At(Some(1_800_000_000_123));
        let text = serde_json::to_string(&(at, At(None), Seconds(1_250))).unwrap();
        assert_eq!(text, r#"["2027-01-15T08:00:00.123Z",null,1.25]"#);
        let back: (At, At, Seconds) = serde_json::from_str(&text).unwrap();
        assert_eq!(back, (at, At(None), Seconds(1_250)));
        let odd: (At, Seconds, Seconds) = serde_json::from_str(r#"["soon",-1,1e300]"#).unwrap();
        assert_eq!(odd, (At(None), Seconds(0), Seconds(u64::MAX)));
        assert_eq!(serde_json::to_string(&At(Some(i64::MAX))).unwrap(), "null");
    }

    #[test]
    fn what_was_said_comes_first() {
        assert_eq!(sentences(None, "Do it."), "Do it.");
        for said in ["DENIED", "DENIED."] {
            assert_eq!(sentences(Some(said), "Do it."), "DENIED. Do it.");
        }
    }
}

//! What follows the `?`, and how a parameter that is not understood is refused: nothing is ever
//! ignored.

use hyper::StatusCode;
use serde::Serialize;

use super::reply::{Reply, json};

/// The parameters in their order, decoded.
pub(super) type Parameters = Vec<(String, String)>;

/// Why a request is not understood, for the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Refusal {
    error: String,
    /// What would be understood instead, where that is a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<Vec<String>>,
}

impl Refusal {
    pub(super) fn new(error: impl Into<String>) -> Refusal {
        Refusal { error: error.into(), allowed: None }
    }

    /// A parameter that there is not.
    pub(super) fn parameter(name: &str, allowed: &[&str]) -> Refusal {
        let sentence = match allowed {
            [] => format!("There is no parameter {name:?}: this path takes none."),
            _ => format!("There is no parameter {name:?}; there are: {}.", allowed.join(", ")),
        };
        Refusal::with_list(sentence, allowed)
    }

    /// A value that a parameter cannot have.
    pub(super) fn value(name: &str, value: &str, allowed: &[&str]) -> Refusal {
        Refusal::with_list(
            format!("{name} cannot be {value:?}; it is one of: {}.", allowed.join(", ")),
            allowed,
        )
    }

    fn with_list(error: String, allowed: &[&str]) -> Refusal {
        Refusal { error, allowed: Some(allowed.iter().map(|&name| name.to_owned()).collect()) }
    }

    pub(super) fn sentence(&self) -> &str {
        &self.error
    }

    pub(super) fn reply(&self) -> Reply {
        json(StatusCode::BAD_REQUEST, self)
    }
}

/// The parameters of a query.
pub(super) fn parameters(query: Option<&str>) -> Result<Parameters, Refusal> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            parameter(pair)
                .ok_or_else(|| Refusal::new("The query has a broken % escape, or is no UTF-8."))
        })
        .collect()
}

fn parameter(pair: &str) -> Option<(String, String)> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    Some((decoded(name, Blank::Plus)?, decoded(value, Blank::Plus)?))
}

/// The one of `all` with the name `value`.
pub(super) fn one_of<T: Copy>(
    parameter: &str,
    value: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, Refusal> {
    let found = all.iter().copied().find(|one| name(*one) == value);
    found.ok_or_else(|| {
        Refusal::value(parameter, value, &all.iter().map(|one| name(*one)).collect::<Vec<_>>())
    })
}

/// What a `+` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blank {
    /// A blank, as in queries.
    Plus,
    /// Itself, as in paths.
    Escaped,
}

/// `text` without its `%` escapes; `None` if they are broken, or if what they say is no UTF-8.
pub(super) fn decoded(text: &str, blank: Blank) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => bytes.push(hex(rest.next()?)? << 4 | hex(rest.next()?)?),
            b'+' if blank == Blank::Plus => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// The value of a hexadecimal digit.
pub(super) fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let pairs = |query| parameters(Some(query)).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(parameters(None).unwrap(), []);
        assert_eq!(pairs(""), []);
        assert_eq!(pairs("&&a=1&&"), [pair("a", "1")]);
        assert_eq!(pairs("q=a+b%2Bc%26d=e&q"), [pair("q", "a b+c&d=e"), pair("q", "")]);
        assert_eq!(pairs("label%2Eteam=%E5%87%BA%e8%8d%b7"), [pair("label.team", "出荷")]);
        for broken in ["a=%", "a=%2", "a=%zz", "%ff=1", "a=%+1"] {
            assert!(parameters(Some(broken)).is_err(), "{broken}");
        }
    }
}

//! Query parameters, and how an invalid one is refused: nothing is ever ignored silently.

use hyper::StatusCode;
use percent_encoding::percent_decode_str;

use super::reply::{Reply, json};
use crate::api::Error;

/// The parameters in their order, decoded.
pub(super) type Parameters = Vec<(String, String)>;

/// Why a request is invalid, for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal(Error);

impl Refusal {
    pub(super) fn new(error: impl Into<String>) -> Refusal {
        Refusal(Error { error: error.into().into(), allowed: None })
    }

    /// A parameter that does not exist.
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
        let allowed = allowed.iter().map(|&name| name.to_owned().into()).collect();
        Refusal(Error { error: error.into(), allowed: Some(allowed) })
    }

    pub(super) fn reply(&self) -> Reply {
        json(StatusCode::BAD_REQUEST, &self.0)
    }
}

/// The parameters of a query.
pub(super) fn parameters(query: Option<&str>) -> Result<Parameters, Refusal> {
    match is_well_escaped(query.unwrap_or_default()) {
        true => Ok(lenient(query)),
        false => Err(Refusal::new("The query has a broken % escape, or is no UTF-8.")),
    }
}

/// The same for pages, where a broken escape stays as it is.
pub(super) fn lenient(query: Option<&str>) -> Parameters {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect()
}

/// Whether every `%` begins a complete escape, and the decoded text is UTF-8.
pub(super) fn is_well_escaped(text: &str) -> bool {
    let is_whole = |after: &str| {
        after.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    text.split('%').skip(1).all(is_whole) && percent_decode_str(text).decode_utf8().is_ok()
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
        for broken in ["a=%", "a=%2", "a=%zz", "%ff=1", "a=%+1", "a=%C3&b=%A9"] {
            assert!(parameters(Some(broken)).is_err(), "{broken}");
        }
    }
}

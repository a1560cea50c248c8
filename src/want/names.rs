//! Users' names as a program stores them. Some programs put names through their serializer, others
//! only values. A name in another spelling would be another user.

use std::collections::BTreeSet;

use lockwatch_judge::spec::{Codec, Key};
use lockwatch_watch::redis::codec::{Form, display_text, encode, form_of};

use crate::text::identity::escape;

/// How a name is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// As it is.
    Plain,
    /// By a serializer.
    Encoded(Codec, Form),
}

impl Style {
    fn write(self, user: &[u8]) -> Option<Vec<u8>> {
        match self {
            Style::Plain => Some(user.to_vec()),
            Style::Encoded(codec, form) => encode(codec, form, std::str::from_utf8(user).ok()?),
        }
    }

    fn name(self) -> String {
        match self {
            Style::Plain => "plain".to_owned(),
            Style::Encoded(codec, Form::Text) => codec.name().to_owned(),
            Style::Encoded(codec, form) => format!("{} ({})", codec.name(), form.name()),
        }
    }
}

/// The serializers, the configured one first.
fn serializers(codec: Codec) -> impl Iterator<Item = Codec> {
    let others = Codec::ALL.into_iter().filter(move |other| *other != codec);
    std::iter::once(codec).chain(others).filter(|codec| *codec != Codec::Raw)
}

/// The styles in which this name may have been written, each with the name that it shows; none if
/// it is encoded in a way that cannot be repeated.
fn styles(codec: Codec, name: &[u8]) -> Vec<(Style, Vec<u8>)> {
    let plain = (Style::Plain, name.to_vec());
    for codec in serializers(codec) {
        let Some((form, word)) = form_of(codec, name) else { continue };
        let encoded = (Style::Encoded(codec, form), word.into_bytes());
        // JSON's numbers and truths look as they are, and so do plain ones.
        return match codec == Codec::Json && form != Form::Text && encoded.1 == name {
            true => vec![plain, encoded],
            false => vec![encoded],
        };
    }
    if display_text(codec, name) == name { vec![plain] } else { Vec::new() }
}

/// A stored name as people know it.
pub(super) fn shown(codec: Codec, name: &[u8]) -> Vec<u8> {
    let first = styles(codec, name).into_iter().next();
    first.map_or_else(|| display_text(codec, name), |(_, shown)| shown)
}

/// Whether a stored name is this user's.
pub(super) fn is_of(codec: Codec, name: &[u8], user: &[u8]) -> bool {
    name == user || shown(codec, name) == user
}

/// Every name that a program may have stored for this user.
pub(super) fn spellings(codec: Codec, user: &[u8]) -> Vec<Vec<u8>> {
    let forms =
        serializers(codec).flat_map(|codec| Form::ALL.map(|form| Style::Encoded(codec, form)));
    let all: BTreeSet<_> =
        std::iter::once(Style::Plain).chain(forms).filter_map(|style| style.write(user)).collect();
    all.into_iter().collect()
}

/// The name to store for a user who has none yet: spelled as those of the others are.
///
/// # Errors
/// Why that is not certain, for a person.
pub(super) fn new(codec: Codec, user: &[u8], others: &[&[u8]]) -> Result<Vec<u8>, String> {
    let shared = match others.split_first() {
        None => vec![match codec {
            Codec::Raw => Style::Plain,
            codec => Style::Encoded(codec, Form::Text),
        }],
        Some((first, rest)) => {
            let of_first = styles(codec, first).into_iter().map(|(style, _)| style);
            let is_shared = |style: &Style| {
                rest.iter().all(|name| styles(codec, name).iter().any(|(other, _)| other == style))
            };
            of_first.filter(is_shared).collect()
        }
    };
    if shared.is_empty() {
        let ways: BTreeSet<String> = others
            .iter()
            .map(|name| styles(codec, name).first().map_or("unknown".into(), |it| it.0.name()))
            .collect();
        return Err(format!(
            "the names of the other users are written in more than one way ({}), so it is not \
             certain how to write a new one. Let the program switch {user} once, or remove the \
             names that no program uses",
            ways.into_iter().collect::<Vec<_>>().join(", "),
            user = escape(user)
        ));
    }
    shared.iter().find_map(|style| style.write(user)).ok_or_else(|| {
        format!(
            "{} cannot be written as the other names are ({}); use a name of that kind",
            escape(user),
            shared.first().map_or_else(String::new, |style| style.name())
        )
    })
}

/// The part of a key that names its user: what follows the last colon, if no other key ends so.
pub(super) fn short<'a>(keys: &[Key], key: &'a [u8]) -> &'a [u8] {
    let last = last_part(key);
    let same = keys.iter().filter(|other| last_part(other) == last || **other == last).count();
    if same == 1 && !last.is_empty() { last } else { key }
}

fn last_part(key: &[u8]) -> &[u8] {
    key.rsplit(|byte| *byte == b':').next().unwrap_or(key)
}

/// The key of a user, who is named by all of it or by its last part.
///
/// # Errors
/// Why no key is certainly his, for a person.
pub(super) fn key_of<'a>(keys: &'a [Key], user: &[u8]) -> Result<&'a Key, String> {
    if let Some(key) = keys.iter().find(|key| **key == user) {
        return Ok(key);
    }
    let ending: Vec<&Key> = keys.iter().filter(|key| last_part(key) == user).collect();
    let list = |keys: &[&Key]| {
        let names = keys.iter().map(|key| escape(key));
        crate::text::identity::list(names, 10)
    };
    match ending.as_slice() {
        [only] => Ok(only),
        [] => Err(format!(
            "{} has no switch: `wanted: {{keys: …}}` lists a key for each user, and none is named \
             so. There are {}; name one of them, or add a key to the list",
            escape(user),
            list(&keys.iter().collect::<Vec<_>>())
        )),
        several => Err(format!(
            "{} may be the user of {}; name the whole key",
            escape(user),
            list(several)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(codec: Codec, form: Form, word: &str) -> Vec<u8> {
        encode(codec, form, word).unwrap()
    }

    #[test]
    fn a_new_name_is_spelled_as_the_others_are() {
        let plain = |name: &str| name.as_bytes().to_vec();
        let text = |codec, name| encoded(codec, Form::Text, name);
        let marked = |name| encoded(Codec::Kryo5, Form::MarkedText, name);
        let long = |name| encoded(Codec::Jdk, Form::Long, name);
        for (codec, others, user, made) in [
            (Codec::Raw, vec![], "anna", plain("anna")),
            (Codec::Json, vec![], "anna", plain("\"anna\"")),
            (Codec::Kryo5, vec![], "anna", text(Codec::Kryo5, "anna")),
            (Codec::Jdk, vec![], "42", text(Codec::Jdk, "42")),
            (Codec::Jdk, vec![plain("bert")], "anna", plain("anna")),
            (Codec::Jdk, vec![plain("bert"), plain("7")], "anna", plain("anna")),
            (Codec::Json, vec![plain("7"), plain("bert")], "anna", plain("anna")),
            (Codec::Json, vec![plain("7")], "42", plain("42")),
            (Codec::Json, vec![plain("true")], "anna", plain("anna")),
            // The names by a serializer, the values as text.
            (Codec::Raw, vec![text(Codec::Jdk, "bert")], "anna", text(Codec::Jdk, "anna")),
            (Codec::Raw, vec![plain("\"bert\"")], "anna", plain("\"anna\"")),
            (Codec::Kryo5, vec![marked("bert")], "anna", marked("anna")),
            (Codec::Jdk, vec![long("7")], "42", long("42")),
        ] {
            let others: Vec<&[u8]> = others.iter().map(Vec::as_slice).collect();
            assert_eq!(new(codec, user.as_bytes(), &others), Ok(made), "{codec:?} {others:?}");
        }
    }

    #[test]
    fn an_uncertain_name_is_refused() {
        let refused = |codec, user: &[u8], others: &[&[u8]]| new(codec, user, others).unwrap_err();
        let message = refused(Codec::Json, b"anna", &[b"bert", b"\"carl\""]);
        assert!(message.contains("more than one way (json, plain)"), "{message}");
        let long = encoded(Codec::Jdk, Form::Long, "7");
        let message = refused(Codec::Jdk, b"anna", &[&long]);
        assert!(message.contains("jdk (long)"), "{message}");
        assert!(refused(Codec::Json, b"\xff", &[]).contains("\\xff cannot be written"));
        let message = refused(Codec::Json, b"anna", &[b"\"b\\u0065rt\""]);
        assert!(message.contains("(unknown)"), "{message}");
    }

    #[test]
    fn a_user_is_found_in_every_spelling() {
        for codec in Codec::ALL {
            let all = spellings(codec, b"anna");
            assert!(all.iter().all(|name| is_of(codec, name, b"anna")), "{codec:?}: {all:?}");
            assert_eq!(all.len(), 5, "plain, JSON, Java's, Kryo's two: {all:?}");
        }
        assert!(!is_of(Codec::Raw, b"anna ", b"anna"));
    }

    #[test]
    fn a_key_belongs_to_the_user_that_it_names() {
        let keys: Vec<Key> = ["{out}:anna", "{out}:bert", "x:bert", "carl"].map(Vec::from).to_vec();
        let of = |user: &str| key_of(&keys, user.as_bytes()).map(|key| key.as_slice());
        assert_eq!(of("anna"), Ok(b"{out}:anna".as_slice()));
        assert_eq!(of("x:bert"), Ok(b"x:bert".as_slice()));
        assert_eq!(of("carl"), Ok(b"carl".as_slice()));
        assert!(of("bert").unwrap_err().contains("may be the user of {out}:bert, x:bert"));
        assert!(of("dora").unwrap_err().contains("There are {out}:anna, {out}:bert, x:bert, carl"));
        assert_eq!(short(&keys, b"{out}:anna"), b"anna");
        assert_eq!(short(&keys, b"x:bert"), b"x:bert");
        assert_eq!(short(&keys, b"carl"), b"carl");
    }
}

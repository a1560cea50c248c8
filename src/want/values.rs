//! The bytes to write for on or off: in the form that the program itself uses for them.

use std::collections::BTreeMap;

use lockwatch_judge::reading::Switch;
use lockwatch_judge::spec::Codec;
use lockwatch_watch::redis::codec::{Form, Scalar, decode, encode, form_of};

use super::board::Row;

/// What a user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The task is to run.
    On,
    /// It is not to run for this user.
    Off,
}

impl Wish {
    /// Whether a switch says so.
    pub(super) fn is(self, switch: &Switch) -> bool {
        matches!((self, switch), (Wish::On, Switch::On) | (Wish::Off, Switch::Off))
    }
}

/// The pairs of words, off and on. The first one is written where nothing says otherwise.
const PAIRS: [[&str; 2]; 4] = [["false", "true"], ["0", "1"], ["off", "on"], ["no", "yes"]];

/// The bytes for a user's wish. `own` are those of the switch as it is, if there is one, and
/// `others` the switches of the other users.
///
/// # Errors
/// Why it is not certain what the program would write, for a person.
pub(super) fn value(
    codec: Codec,
    wish: Wish,
    own: Option<&[u8]>,
    others: &[&Row],
) -> Result<Vec<u8>, String> {
    let own = own.and_then(|own| turned(codec, own, wish));
    let values = |switch: Switch| {
        let of = others.iter().filter(move |row| row.switch == switch);
        of.filter_map(|row| row.value.as_deref()).filter(|value| !says_nothing(codec, value))
    };
    let (same, opposite) = match wish {
        Wish::On => (values(Switch::On), values(Switch::Off)),
        Wish::Off => (values(Switch::Off), values(Switch::On)),
    };
    let known = own
        .or_else(|| most_frequent(same).map(<[u8]>::to_vec))
        .or_else(|| most_frequent(opposite).and_then(|value| turned(codec, value, wish)));
    let foreign = others.iter().find_map(|row| match &row.switch {
        Switch::Undecodable { fits, .. } => Some(*fits),
        _ => None,
    });
    match (known, foreign) {
        (Some(value), _) => Ok(value),
        (None, None) => Ok(usual(codec, wish)),
        (None, Some(Some(fits))) => Err(format!(
            "the other switches are no values of the codec {}, but of {fits}; write `codec: \
             {fits}` beside the key in `wanted`",
            codec.name(),
            fits = fits.name()
        )),
        (None, Some(None)) => Err(format!(
            "no other switch can be read as a value of the codec {}, so it is not certain what the \
             program would read; correct `codec` in `wanted`, or let the program switch one user \
             on and off once",
            codec.name()
        )),
    }
}

/// Whether the value shows nothing of how a program writes on and off: null, or nothing at all.
fn says_nothing(codec: Codec, value: &[u8]) -> bool {
    match decode(codec, value) {
        Some(Scalar::Null) => true,
        Some(Scalar::Text(text)) => {
            let text = text.trim();
            text.is_empty() || text.eq_ignore_ascii_case("null")
        }
        _ => false,
    }
}

/// The value of which there are most; of several the first in the order of bytes.
fn most_frequent<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let most = counts.values().max().copied()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(value, _)| value)
}

/// This value turned on or off, in its own form.
fn turned(codec: Codec, value: &[u8], wish: Wish) -> Option<Vec<u8>> {
    let (form, word) = form_of(codec, value)?;
    let word = word.trim();
    let word = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\'')).unwrap_or(word);
    let lower = word.to_ascii_lowercase();
    let pair = PAIRS.iter().find(|pair| pair.contains(&lower.as_str()))?;
    encode(codec, form, &in_case_of(word, of(*pair, wish)))
}

/// `word` in capitals, or with a capital at its beginning, if the model has that.
fn in_case_of(model: &str, word: &str) -> String {
    let is_upper = |text: &str| text.bytes().all(|byte| byte.is_ascii_uppercase());
    let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
    match model.split_at_checked(1) {
        Some((_, more)) if is_upper(model) && !more.is_empty() => word.to_ascii_uppercase(),
        Some((begins, _)) if is_upper(begins) => first.to_ascii_uppercase() + rest,
        _ => word.to_owned(),
    }
}

fn of(pair: [&'static str; 2], wish: Wish) -> &'static str {
    let [off, on] = pair;
    match wish {
        Wish::On => on,
        Wish::Off => off,
    }
}

/// A truth value where the codec has one.
fn usual(codec: Codec, wish: Wish) -> Vec<u8> {
    let [usual, ..] = PAIRS;
    let word = of(usual, wish);
    encode(codec, Form::Bool, word).unwrap_or_else(|| word.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(codec: Codec, values: &[&[u8]]) -> Vec<Row> {
        values.iter().map(|value| Row::of_field(codec, b"x", value)).collect()
    }

    fn made(codec: Codec, wish: Wish, own: Option<&[u8]>, others: &[&[u8]]) -> Vec<u8> {
        let rows = rows(codec, others);
        value(codec, wish, own, &rows.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_switch_keeps_its_own_form() {
        let turned =
            |own: &str, wish| made(Codec::Raw, wish, Some(own.as_bytes()), &[b"yes", b"no"]);
        for (off, on) in [
            ("0", "1"),
            ("false", "true"),
            ("OFF", "ON"),
            ("No", "Yes"),
            ("False", "True"),
            ("off", "on"),
        ] {
            assert_eq!(turned(off, Wish::On), on.as_bytes());
            assert_eq!(turned(on, Wish::Off), off.as_bytes());
        }
        assert_eq!(turned("on\n", Wish::Off), b"off");
        assert_eq!(turned("'0'", Wish::On), b"1");
        let short = encode(Codec::Jdk, Form::Short, "0").unwrap();
        let expected = encode(Codec::Jdk, Form::Short, "1").unwrap();
        assert_eq!(made(Codec::Jdk, Wish::On, Some(&short), &[]), expected);
        assert_eq!(made(Codec::Json, Wish::Off, Some(b"\"ON\""), &[]), b"\"OFF\"");
    }

    #[test]
    fn a_new_switch_has_the_form_of_the_others() {
        let raw = |wish, others: &[&[u8]]| made(Codec::Raw, wish, None, others);
        assert_eq!(raw(Wish::On, &[b"1", b"1", b"on", b"0"]), b"1");
        assert_eq!(raw(Wish::On, &[b"0", b"", b"null"]), b"1");
        assert_eq!(raw(Wish::On, &[b"?", b"off"]), b"on", "one that can be read shows how");
        assert_eq!(raw(Wish::Off, &[b"", b"1"]), b"0", "nothing is no form");
        // An odd spelling is copied, because a program wrote it.
        assert_eq!(raw(Wish::On, &[b"'yes'\n"]), b"'yes'\n");
    }

    #[test]
    fn the_first_switch_is_a_truth_value() {
        assert_eq!(made(Codec::Raw, Wish::On, None, &[]), b"true");
        assert_eq!(made(Codec::Raw, Wish::Off, Some(b""), &[]), b"false");
        assert_eq!(made(Codec::Json, Wish::On, None, &[]), b"true");
        assert_eq!(made(Codec::Kryo5, Wish::On, None, &[]), [5, 1]);
        assert_eq!(made(Codec::Jdk, Wish::Off, Some(b""), &[])[..4], [0xac, 0xed, 0, 5]);
    }

    #[test]
    fn what_the_program_would_not_read_is_refused() {
        let refused = |codec, others: &[&[u8]]| {
            let rows = rows(codec, others);
            value(codec, Wish::On, None, &rows.iter().collect::<Vec<_>>()).unwrap_err()
        };
        assert!(refused(Codec::Raw, &[&[5, 1]]).contains("write `codec: kryo5`"));
        assert!(refused(Codec::Json, &[b"yo"]).contains("correct `codec`"));
    }
}

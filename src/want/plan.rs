//! From what is there to the one command that sets a user's switch, and to how it is checked.

use lockwatch_judge::reading::Switch;
use lockwatch_judge::spec::Codec;
use lockwatch_watch::command;
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};

use super::board::{Board, Row, named_key};
use super::names;
use super::source::{Source, text_asks};
use super::values::{self, Wish};
use crate::text::identity::escape;

/// Which switch is this user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mine {
    /// The one with this name, however the program spells it.
    Named(Vec<u8>),
    /// The one in this key.
    Key(Vec<u8>),
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// One command, or a transaction.
    pub(super) commands: Vec<Command>,
    /// The fields, members or keys that it sets.
    pub(super) names: Vec<Vec<u8>>,
}

impl Mine {
    /// # Errors
    /// This user has no switch, for a person.
    pub(super) fn of(source: &Source, user: &[u8]) -> Result<Mine, String> {
        match source {
            Source::Keys(keys) => names::key_of(keys, user).map(|key| Mine::Key(key.clone())),
            Source::Hash(_) | Source::Set(_) => Ok(Mine::Named(user.to_vec())),
        }
    }

    pub(super) fn is(&self, codec: Codec, row: &Row) -> bool {
        match self {
            Mine::Named(user) => names::is_of(codec, &row.stored, user),
            Mine::Key(key) => row.stored == *key,
        }
    }

    /// All names under which the switch may stand.
    pub(super) fn names(&self, codec: Codec) -> Vec<Vec<u8>> {
        match self {
            Mine::Named(user) => names::spellings(codec, user),
            Mine::Key(key) => vec![key.clone()],
        }
    }
}

/// What to send, or `None` if the switch is as it shall be.
///
/// # Errors
/// Why it is not certain what to send, for a person.
pub(super) fn plan(
    source: &Source,
    codec: Codec,
    board: &Board,
    mine: &Mine,
    wish: Wish,
) -> Result<Option<Write>, String> {
    let (own, others): (Vec<&Row>, Vec<&Row>) =
        board.rows.iter().partition(|row| mine.is(codec, row));
    if is_done(&own, wish) {
        return Ok(None);
    }
    let names = match (mine, source) {
        (Mine::Key(key), _) => vec![key.clone()],
        (Mine::Named(user), _) => to_write(codec, user, &own, &others, wish)?,
    };
    let command = match source {
        Source::Set(key) => {
            let verb = if wish == Wish::On { "SADD" } else { "SREM" };
            let words = [verb.as_bytes(), key].map(<[u8]>::to_vec);
            Command { args: words.into_iter().chain(names.iter().cloned()).collect() }
        }
        Source::Hash(key) => {
            let value = value(codec, &own, &others, wish)?;
            let pairs = names.iter().flat_map(|name| [name.clone(), value.clone()]);
            let words = [b"HSET".as_slice(), key].map(<[u8]>::to_vec);
            Command { args: words.into_iter().chain(pairs).collect() }
        }
        Source::Keys(_) => {
            let key = names.first().map(Vec::as_slice).unwrap_or_default();
            if own.iter().any(|row| row.value.is_none() && is_undecodable(&row.switch)) {
                return Err(format!(
                    "{} is no string, or a long one, so it holds no switch; correct the key in \
                     `wanted`, or delete it",
                    escape(key)
                ));
            }
            command!("SET", key, value(codec, &own, &others, wish)?)
        }
    };
    Ok(Some(Write { commands: vec![command], names }))
}

/// What asks for the TTL that the write would take away.
pub(super) fn ttl_ask(source: &Source, names: &[Vec<u8>]) -> Option<Command> {
    match source {
        Source::Hash(key) => {
            let mut command = command!("HPEXPIRETIME", key, "FIELDS", names.len().to_string());
            command.args.extend_from_slice(names);
            Some(command)
        }
        Source::Set(_) => None,
        Source::Keys(_) => names.first().map(|key| command!("PTTL", key)),
    }
}

/// The same write with the TTL that there is by the reply to [`ttl_ask`]. A server that does not
/// answer it has no TTLs of fields, or does not let this user see them.
pub(super) fn keeping_ttl(source: &Source, write: Write, reply: Option<&Reply>) -> Write {
    let Write { mut commands, names } = write;
    match (source, reply) {
        (Source::Hash(key), Some(Reply::Array(ends))) => {
            let ends = names.iter().zip(ends).filter_map(|(name, end)| match end {
                Reply::Int(end) if *end > 0 => Some((name, end.to_string())),
                _ => None,
            });
            let again: Vec<_> = ends
                .map(|(name, end)| command!("HPEXPIREAT", key, end, "FIELDS", "1", name))
                .collect();
            if !again.is_empty() {
                commands.insert(0, command!("MULTI"));
                commands.extend(again);
                commands.push(command!("EXEC"));
            }
        }
        (Source::Keys(_), Some(Reply::Int(left))) if *left > 0 => {
            if let Some(set) = commands.first_mut() {
                set.args.extend([b"PX".to_vec(), left.to_string().into_bytes()]);
            }
        }
        _ => {}
    }
    Write { commands, names }
}

/// The first refusal among the replies to a write, also within a transaction.
pub(super) fn refusal(replies: &[Reply]) -> Option<&ServerError> {
    replies.iter().find_map(|reply| match reply {
        Reply::Error(error) => Some(error),
        Reply::Array(inner) => refusal(inner),
        _ => None,
    })
}

/// Several names that read as one user: any "on" makes the task wanted.
fn is_done(own: &[&Row], wish: Wish) -> bool {
    match wish {
        Wish::On => own.iter().any(|row| row.switch == Switch::On),
        Wish::Off => own.iter().all(|row| row.switch == Switch::Off),
    }
}

fn to_write(
    codec: Codec,
    user: &[u8],
    own: &[&Row],
    others: &[&Row],
    wish: Wish,
) -> Result<Vec<Vec<u8>>, String> {
    let stored = |rows: &[&Row]| rows.iter().map(|row| row.stored.clone()).collect::<Vec<_>>();
    match (own, wish) {
        ([], _) => {
            let others: Vec<&[u8]> = others.iter().map(|row| row.stored.as_slice()).collect();
            names::new(codec, user, &others).map(|name| vec![name])
        }
        ([only], _) => Ok(vec![only.stored.clone()]),
        (several, Wish::Off) => Ok(stored(several)),
        (several, Wish::On) => Err(format!(
            "{} names read as {}: {}; remove those that no program uses",
            several.len(),
            escape(user),
            several.iter().map(|row| escape(&row.stored)).collect::<Vec<_>>().join(", ")
        )),
    }
}

fn value(codec: Codec, own: &[&Row], others: &[&Row], wish: Wish) -> Result<Vec<u8>, String> {
    let readable = own.iter().find(|row| !is_undecodable(&row.switch));
    // A switch of this user that cannot be read speaks against the codec as others do.
    let unreadable = own.iter().filter(|row| is_undecodable(&row.switch));
    let others: Vec<&Row> = others.iter().chain(unreadable).copied().collect();
    values::value(codec, wish, readable.and_then(|row| row.value.as_deref()), &others)
}

fn is_undecodable(switch: &Switch) -> bool {
    matches!(switch, Switch::Undecodable { .. })
}

/// What asks for the switches under these names.
pub(super) fn checks(source: &Source, names: &[Vec<u8>]) -> Vec<Command> {
    match source {
        Source::Hash(key) => {
            let words = [b"HMGET".as_slice(), key].map(<[u8]>::to_vec);
            vec![Command { args: words.into_iter().chain(names.iter().cloned()).collect() }]
        }
        Source::Set(key) => names.iter().map(|name| command!("SISMEMBER", key, name)).collect(),
        Source::Keys(_) => names.iter().flat_map(|name| text_asks(name)).collect(),
    }
}

/// The switches that exist, from the replies to [`checks`].
pub(super) fn checked(
    source: &Source,
    codec: Codec,
    names: &[Vec<u8>],
    replies: &[Reply],
) -> Vec<Row> {
    match source {
        Source::Hash(_) => {
            let values = replies.first().and_then(Reply::as_array).unwrap_or_default();
            let row = |(name, value): (&Vec<u8>, &Reply)| {
                Some(Row::of_field(codec, name, value.as_bytes()?))
            };
            names.iter().zip(values).filter_map(row).collect()
        }
        Source::Set(_) => {
            let are_members =
                names.iter().zip(replies).filter(|(_, reply)| **reply == Reply::Int(1));
            are_members.map(|(name, _)| Row::of_member(codec, name)).collect()
        }
        Source::Keys(keys) => {
            let texts = names.iter().zip(replies.as_chunks::<2>().0);
            texts.filter_map(|(key, texts)| named_key(codec, keys, key, texts).ok()?).collect()
        }
    }
}

/// Whether the switches under these names, as they were read again, are as the user wishes.
pub(super) fn is_confirmed(source: &Source, names: &[Vec<u8>], rows: &[Row], wish: Wish) -> bool {
    match (source, wish) {
        // Off is: no member.
        (Source::Set(_), Wish::Off) => rows.is_empty(),
        _ => names.len() == rows.len() && rows.iter().all(|row| wish.is(&row.switch)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(codec: Codec, pairs: &[(&str, &str)]) -> Board {
        let row = |(field, value): &(&str, &str)| {
            Row::of_field(codec, field.as_bytes(), value.as_bytes())
        };
        Board { rows: pairs.iter().map(row).collect(), whole: true }
    }

    fn line(write: Option<Write>) -> String {
        let commands = write.map_or(Vec::new(), |write| write.commands);
        let words = commands.iter().flat_map(|command| &command.args);
        words.map(|word| escape(word).into_owned()).collect::<Vec<_>>().join(" ")
    }

    fn hash(codec: Codec, pairs: &[(&str, &str)], wish: Wish) -> Result<String, String> {
        let source = Source::Hash(b"users".to_vec());
        let mine = Mine::of(&source, b"anna").unwrap();
        plan(&source, codec, &board(codec, pairs), &mine, wish).map(line)
    }

    #[test]
    fn a_field_of_a_hash_is_set() {
        for (codec, pairs, wish, expected) in [
            (Codec::Raw, &[("bert", "1")][..], Wish::On, "HSET users anna 1"),
            (Codec::Raw, &[("anna", "0"), ("bert", "on")], Wish::On, "HSET users anna 1"),
            (Codec::Raw, &[("anna", "1")], Wish::Off, "HSET users anna 0"),
            (Codec::Raw, &[], Wish::On, "HSET users anna true"),
            // Nothing to do.
            (Codec::Raw, &[("anna", "yes")], Wish::On, ""),
            (Codec::Raw, &[("anna", "0")], Wish::Off, ""),
            (Codec::Raw, &[("bert", "1")], Wish::Off, ""),
            (Codec::Json, &[("\"bert\"", "true")], Wish::On, "HSET users \"anna\" true"),
            (Codec::Json, &[("anna", "true")], Wish::Off, "HSET users anna false"),
            // Whatever reads as this user is off.
            (
                Codec::Json,
                &[("\"anna\"", "true"), ("anna", "false")],
                Wish::Off,
                "HSET users \"anna\" false anna false",
            ),
            // An odd value is replaced where another shows how.
            (Codec::Raw, &[("anna", "?"), ("bert", "1")], Wish::On, "HSET users anna 1"),
        ] {
            assert_eq!(hash(codec, pairs, wish).as_deref(), Ok(expected), "{pairs:?}");
        }
    }

    #[test]
    fn what_is_not_certain_is_not_sent() {
        let message = hash(Codec::Json, &[("\"anna\"", "false"), ("anna", "false")], Wish::On);
        assert!(message.as_ref().unwrap_err().starts_with("2 names read as anna"), "{message:?}");
        let message = hash(Codec::Raw, &[("anna", "\u{5}\u{1}")], Wish::On);
        assert!(message.as_ref().unwrap_err().contains("write `codec: kryo5`"), "{message:?}");
    }

    #[test]
    fn a_member_of_a_set_comes_and_goes() {
        let source = Source::Set(b"users".to_vec());
        let mine = Mine::of(&source, b"anna").unwrap();
        let board = |members: &[&str]| Board {
            rows: members.iter().map(|it| Row::of_member(Codec::Json, it.as_bytes())).collect(),
            whole: true,
        };
        let plan =
            |members, wish| line(plan(&source, Codec::Json, &board(members), &mine, wish).unwrap());
        assert_eq!(plan(&["\"bert\""], Wish::On), "SADD users \"anna\"");
        assert_eq!(plan(&["bert"], Wish::On), "SADD users anna");
        assert_eq!(plan(&["anna", "bert"], Wish::Off), "SREM users anna");
        assert_eq!(plan(&["anna", "\"anna\""], Wish::Off), "SREM users anna \"anna\"");
        assert_eq!(plan(&["\"anna\""], Wish::On), "");
        assert_eq!(plan(&["bert"], Wish::Off), "");
    }

    #[test]
    fn a_key_is_set() {
        let source = Source::Keys(["u:anna", "u:bert"].map(Vec::from).to_vec());
        let mine = Mine::of(&source, b"anna").unwrap();
        let plan = |pairs: &[(&str, &str)], wish| {
            plan(&source, Codec::Raw, &board(Codec::Raw, pairs), &mine, wish).map(line)
        };
        assert_eq!(plan(&[("u:bert", "1")], Wish::On).as_deref(), Ok("SET u:anna 1"));
        assert_eq!(plan(&[("u:anna", "on")], Wish::Off).as_deref(), Ok("SET u:anna off"));
        assert_eq!(plan(&[], Wish::Off).as_deref(), Ok(""));
        let mut wrong = board(Codec::Raw, &[("u:anna", "wrong_type")]);
        wrong.rows[0].value = None;
        let message = super::plan(&source, Codec::Raw, &wrong, &mine, Wish::On).unwrap_err();
        assert!(message.starts_with("u:anna is no string"), "{message}");
    }

    #[test]
    fn only_what_is_there_is_confirmed() {
        let names = [b"anna".to_vec()];
        let hash = Source::Hash(b"users".to_vec());
        let read = |source: &Source, reply: Reply| {
            let rows = checked(source, Codec::Raw, &names, &[reply]);
            [Wish::On, Wish::Off].map(|wish| is_confirmed(source, &names, &rows, wish))
        };
        let value = |value: &str| Reply::Array(vec![Reply::Bytes(value.into())]);
        assert_eq!(read(&hash, value("1")), [true, false]);
        assert_eq!(read(&hash, value("0")), [false, true]);
        assert_eq!(read(&hash, value("?")), [false, false]);
        assert_eq!(read(&hash, Reply::Array(vec![Reply::Nil])), [false, false]);
        let set = Source::Set(b"users".to_vec());
        assert_eq!(read(&set, Reply::Int(1)), [true, false]);
        assert_eq!(read(&set, Reply::Int(0)), [false, true]);
    }

    #[test]
    fn a_write_keeps_the_ttl_that_is_there() {
        let hash = Source::Hash(b"users".to_vec());
        let on = board(Codec::Raw, &[("anna", "1")]);
        let mine = Mine::Named(b"anna".to_vec());
        let off = || plan(&hash, Codec::Raw, &on, &mine, Wish::Off).unwrap().unwrap();
        let kept = |reply| line(Some(keeping_ttl(&hash, off(), Some(&reply))));
        assert_eq!(kept(Reply::Array(vec![Reply::Int(-1)])), "HSET users anna 0");
        let error = Reply::Error(ServerError { code: b"ERR".to_vec(), detail: Vec::new() });
        assert_eq!(kept(error.clone()), "HSET users anna 0");
        assert_eq!(
            kept(Reply::Array(vec![Reply::Int(90_000)])),
            "MULTI HSET users anna 0 HPEXPIREAT users 90000 FIELDS 1 anna EXEC"
        );
        let keys = Source::Keys(vec![b"u:anna".to_vec()]);
        let set = Write { commands: vec![command!("SET", "u:anna", "0")], names: Vec::new() };
        let kept = |left| line(Some(keeping_ttl(&keys, set.clone(), Some(&Reply::Int(left)))));
        assert_eq!(kept(-1), "SET u:anna 0");
        assert_eq!(kept(5_000), "SET u:anna 0 PX 5000");
        let inner = Reply::Array(vec![Reply::Int(0), error]);
        assert!(refusal(&[Reply::Int(1), inner]).is_some());
    }
}

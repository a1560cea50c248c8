//! The picture: the switches of all users, as they were read.

use lockwatch_judge::reading::{Switch, Unknown, wanted};
use lockwatch_judge::spec::{Codec, Key};
use lockwatch_judge::verdict::Wanted;
use lockwatch_watch::redis::codec;
use lockwatch_watch::redis::reply::{Reply, ServerError};

use super::names;
use super::source::Source;

/// The switches, sorted by user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Board {
    pub(super) rows: Vec<Row>,
    /// Whether these are all users.
    pub(super) whole: bool,
}

/// One user's switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The field, the member or the key.
    pub(super) stored: Vec<u8>,
    /// The user, as people know him.
    pub(super) user: Vec<u8>,
    pub(super) switch: Switch,
    /// The bytes of the switch; `None` where nothing can be learned from them: a member of a set
    /// has none, and a key of another type is no switch.
    pub(super) value: Option<Vec<u8>>,
}

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// This key has another type than the configured one.
    WrongType(Key),
    /// The server refused.
    Error(ServerError),
    Protocol,
}

impl Board {
    /// Whether the task is wanted. A user that was not read may want it.
    pub(super) fn wanted(&self) -> Wanted {
        let switches: Vec<_> =
            self.rows.iter().map(|row| (row.user.clone(), row.switch.clone())).collect();
        match wanted(&switches) {
            Wanted::No if !self.whole => Wanted::Unknown,
            known => known,
        }
    }

    /// Adds switches that were asked for by name.
    pub(super) fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            self.rows.retain(|known| known.stored != row.stored);
            self.rows.push(row);
        }
        self.sort();
    }

    fn sort(&mut self) {
        self.rows.sort_by(|a, b| (&a.user, &a.stored).cmp(&(&b.user, &b.stored)));
        // A scan may show a user twice.
        self.rows.dedup_by(|a, b| a.stored == b.stored);
    }
}

impl Row {
    pub(super) fn of_field(codec: Codec, field: &[u8], value: &[u8]) -> Row {
        Row {
            stored: field.to_vec(),
            user: names::shown(codec, field),
            switch: codec::switch(codec, value),
            value: Some(value.to_vec()),
        }
    }

    pub(super) fn of_member(codec: Codec, member: &[u8]) -> Row {
        Row {
            stored: member.to_vec(),
            user: names::shown(codec, member),
            switch: Switch::On,
            value: None,
        }
    }
}

/// Makes the picture from the replies to [`Source::asks`].
pub(super) fn read(source: &Source, codec: Codec, replies: &[Reply]) -> Result<Board, Fault> {
    let (rows, whole) = match (source, replies) {
        (Source::Hash(key), [reply]) => {
            let (items, whole) = scanned(key, reply)?;
            let (pairs, []) = items.as_chunks::<2>() else { return Err(Fault::Protocol) };
            let row = |[field, value]: &[Reply; 2]| {
                Some(Row::of_field(codec, field.as_bytes()?, value.as_bytes()?))
            };
            (pairs.iter().map(row).collect::<Option<Vec<_>>>(), whole)
        }
        (Source::Set(key), [reply]) => {
            let (items, whole) = scanned(key, reply)?;
            let row = |member: &Reply| Some(Row::of_member(codec, member.as_bytes()?));
            (items.iter().map(row).collect(), whole)
        }
        (Source::Keys(keys), replies) if replies.len() == keys.len() * 2 => {
            let mut rows = Vec::new();
            for (key, texts) in keys.iter().zip(replies.as_chunks::<2>().0) {
                rows.extend(named_key(codec, keys, key, texts)?);
            }
            (Some(rows), true)
        }
        _ => return Err(Fault::Protocol),
    };
    let mut board = Board { rows: rows.ok_or(Fault::Protocol)?, whole };
    board.sort();
    Ok(board)
}

/// The items of a scan, and whether these are all.
fn scanned<'a>(key: &[u8], reply: &'a Reply) -> Result<(&'a [Reply], bool), Fault> {
    match reply {
        Reply::Error(error) => Err(fault(key, error)),
        Reply::Array(parts) => match parts.as_slice() {
            [cursor, Reply::Array(items)] => Ok((items, cursor.as_bytes() == Some(b"0"))),
            _ => Err(Fault::Protocol),
        },
        _ => Err(Fault::Protocol),
    }
}

fn fault(key: &[u8], error: &ServerError) -> Fault {
    match Unknown::from(error) {
        Unknown::WrongType => Fault::WrongType(key.to_vec()),
        _ => Fault::Error(error.clone()),
    }
}

/// The switch in a key of its own; `None`: the key does not exist.
pub(super) fn named_key(
    codec: Codec,
    keys: &[Key],
    key: &[u8],
    texts: &[Reply; 2],
) -> Result<Option<Row>, Fault> {
    let row = |switch, value| Row {
        stored: key.to_vec(),
        user: names::short(keys, key).to_vec(),
        switch,
        value,
    };
    match texts {
        [Reply::Int(0), Reply::Bytes(text)] if text.is_empty() => Ok(None),
        [Reply::Int(_), Reply::Bytes(text)] => {
            // What was cut is no value that could be copied.
            let value = (text.len() < 256).then(|| text.clone());
            Ok(Some(row(codec::switch(codec, text), value)))
        }
        [Reply::Error(error), _] | [_, Reply::Error(error)] => match fault(key, error) {
            // It makes one user unknown; the others count.
            Fault::WrongType(_) => {
                let value = Unknown::WrongType.name().as_bytes().to_vec();
                Ok(Some(row(Switch::Undecodable { value, fits: None }, None)))
            }
            other => Err(other),
        },
        _ => Err(Fault::Protocol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    fn scan(cursor: &str, items: &[&str]) -> Reply {
        Reply::Array(vec![text(cursor), Reply::Array(items.iter().map(|it| text(it)).collect())])
    }

    fn error(code: &str) -> Reply {
        Reply::Error(ServerError { code: code.into(), detail: Vec::new() })
    }

    fn shown(board: &Board) -> Vec<(String, Option<bool>)> {
        let on = |switch: &Switch| match switch {
            Switch::On => Some(true),
            Switch::Off => Some(false),
            Switch::Undecodable { .. } => None,
        };
        let name = |row: &Row| String::from_utf8_lossy(&row.user).into_owned();
        board.rows.iter().map(|row| (name(row), on(&row.switch))).collect()
    }

    #[test]
    fn each_source_is_read() {
        let hash = Source::Hash(b"users".to_vec());
        let replies = [scan("0", &["bert", "0", "anna", "true", "carl", "?", "bert", "0"])];
        let board = read(&hash, Codec::Raw, &replies).unwrap();
        let all = [("anna", Some(true)), ("bert", Some(false)), ("carl", None)];
        assert_eq!(shown(&board), all.map(|(user, on)| (user.to_owned(), on)));
        assert_eq!((board.whole, board.wanted()), (true, Wanted::Yes));

        let set = Source::Set(b"users".to_vec());
        let board = read(&set, Codec::Json, &[scan("7", &["\"anna\""])]).unwrap();
        assert_eq!(shown(&board), [("anna".to_owned(), Some(true))]);
        assert!(!board.whole);
        assert_eq!(read(&set, Codec::Json, &[scan("7", &[])]).unwrap().wanted(), Wanted::Unknown);

        let keys = Source::Keys(["u:anna", "u:bert", "u:carl"].map(Vec::from).to_vec());
        let wrong = error("WRONGTYPE");
        let replies =
            [Reply::Int(1), text("on"), Reply::Int(0), text(""), Reply::Int(1), wrong.clone()];
        let board = read(&keys, Codec::Raw, &replies).unwrap();
        assert_eq!(shown(&board), [("anna".to_owned(), Some(true)), ("carl".to_owned(), None)]);
        assert_eq!(read(&hash, Codec::Raw, &[wrong]), Err(Fault::WrongType(b"users".to_vec())));
    }

    #[test]
    fn what_is_no_answer_is_no_picture() {
        let hash = Source::Hash(b"users".to_vec());
        for reply in [Reply::Nil, text("0"), scan("0", &["anna"])] {
            assert_eq!(read(&hash, Codec::Raw, &[reply]), Err(Fault::Protocol));
        }
        assert_eq!(read(&hash, Codec::Raw, &[]), Err(Fault::Protocol));
        assert!(matches!(read(&hash, Codec::Raw, &[error("NOPERM")]), Err(Fault::Error(_))));
        let keys = Source::Keys(vec![b"a".to_vec()]);
        assert_eq!(read(&keys, Codec::Raw, &[Reply::Int(1)]), Err(Fault::Protocol));
    }
}

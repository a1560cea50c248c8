//! What is asked about a task, and the reading that the answers make.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::reading::{
    Contender, Deadline, Extras, GuardReading, Held, Holder, LockReading, Parts, Stands,
    TaskReading, Unknown,
};
use lockwatch_judge::spec::{KindSpec, LockSpec, TaskSpec, ValuePath};
use lockwatch_judge::time::ServerTime;

use super::codec::{Answer, Ask, SessionId};
use super::recipes::{self, Queue};
use super::tree::{self, Answers};
use crate::redis::accept::Caps;
use crate::redis::parts;
use crate::redis::read::turn;
use crate::redis::replies::Replies;
use crate::redis::value;

/// So many of those who wait are read with their session and data.
const SHOWN_MAX: usize = 8;
/// The most holders of a read lock.
const HOLDERS_MAX: usize = 1_000;

/// The questions about switches, progress and the like that nodes can answer.
const CAPS: Caps = Caps { pexpiretime: true, ..Caps::LEAST };

/// What is still to be asked about the task; nothing: the reading is complete.
pub(super) fn asks(spec: &TaskSpec, answers: &Answers) -> Vec<Ask> {
    let mut out = Vec::new();
    if let Some(lock) = lock_here(spec) {
        lock_asks(lock, answers, &mut out);
    }
    for question in questions(spec) {
        tree::asks(&question, answers, &mut out);
    }
    out
}

/// The nodes that are read of a task, and of each whether its children are read, too.
pub fn nodes(spec: &TaskSpec) -> BTreeMap<String, bool> {
    let mut nodes: BTreeMap<String, bool> =
        lock_here(spec).map(|lock| (path(lock).into(), true)).into_iter().collect();
    for question in &questions(spec) {
        if let Some((path, with_children)) = tree::node(question) {
            *nodes.entry(path.into()).or_default() |= with_children;
        }
    }
    nodes
}

/// The questions that are decoded as those to a Redis are.
fn questions(spec: &TaskSpec) -> Vec<crate::redis::ask::Ask> {
    let mut questions = Vec::new();
    match &spec.kind {
        _ if spec.has_only_switches_here() => {}
        KindSpec::Turn(spec) if spec.in_value => questions.push(tree::object_ask(&spec.hash)),
        KindSpec::Turn(spec) => turn::asks(spec, &mut questions),
        KindSpec::Lock(_) | KindSpec::Queue(_) => {}
    }
    for part in parts::ALL {
        part.asks(spec, CAPS, &mut questions);
    }
    questions
}

/// The reading that the answers make.
pub(super) fn reading(spec: &TaskSpec, answers: &Answers) -> TaskReading {
    let replies: Vec<_> =
        questions(spec).iter().map(|question| tree::reply(question, answers)).collect();
    let mut replies = Replies::new(&replies);
    let mut parts = Parts::default();
    let guard = match &spec.kind {
        kind if spec.has_only_switches_here() => kind.unknown(Unknown::NotReadYet),
        KindSpec::Lock(spec) => {
            let (lock, extras) = lock(spec, answers, &mut parts);
            GuardReading::Lock { lock, extras }
        }
        KindSpec::Turn(spec) => GuardReading::Turn(turn::take(spec, &mut replies)),
        KindSpec::Queue(_) => spec.kind.unknown(Unknown::Layout),
    };
    for part in parts::ALL {
        // What it makes necessary to ask is about the same nodes.
        if let Some(later) = part.decode(spec, CAPS, &mut replies, &mut parts) {
            part.decode_later(&tree::reply(&later, answers), &mut parts);
        }
    }
    TaskReading { guard, parts }
}

/// The lock, if it is in the ensemble that is read.
fn lock_here(spec: &TaskSpec) -> Option<&LockSpec> {
    spec.lock().filter(|_| !spec.has_only_switches_here())
}

/// The folder of the queue for its lock.
pub(super) fn folder(spec: &TaskSpec) -> Option<&str> {
    lock_here(spec).map(path)
}

fn path(lock: &LockSpec) -> &str {
    core::str::from_utf8(&lock.key).unwrap_or_default()
}

fn lock_asks(lock: &LockSpec, answers: &Answers, out: &mut Vec<Ask>) {
    let folder = Ask::Children(path(lock).into());
    match answers.get(&folder) {
        None => out.push(folder),
        Some(Some(Answer::Children(names, _))) => {
            let queue = queue(lock, names);
            let data = shown(&queue).map(|(name, _)| Ask::Data(tree::join(path(lock), name)));
            out.extend(data.filter(|ask| !answers.contains_key(ask)));
        }
        // That the folder is made is announced only to those who asked whether it is there.
        Some(Some(Answer::NoNode)) => {
            let there = Ask::Exists(path(lock).into());
            out.extend((!answers.contains_key(&there)).then_some(there));
        }
        Some(_) => {}
    }
}

/// The head of the queue.
fn shown<'a>(queue: &Queue<'a>) -> impl Iterator<Item = (&'a str, Stands)> {
    let blocks = queue.blocked_by.map(|name| (name, Stands::Blocks));
    let holders = queue.holders;
    let stands = move |at| if at < holders { Stands::Holds } else { Stands::Waits };
    let most = holders.min(HOLDERS_MAX) + SHOWN_MAX;
    let contenders = queue.contenders.clone().into_iter().take(most).enumerate();
    blocks.into_iter().chain(contenders.map(move |(at, name)| (name, stands(at))))
}

fn queue<'a>(lock: &LockSpec, names: &'a [String]) -> Queue<'a> {
    recipes::named(lock.library.as_str())
        .map(|recipe| recipes::queue(recipe, names))
        .unwrap_or_default()
}

/// Whether one who has the lock went away between the questions, so that all of it must be asked
/// again.
pub(super) fn is_torn(spec: &TaskSpec, answers: &Answers) -> bool {
    let Some(lock) = lock_here(spec) else { return false };
    let Some(Some(Answer::Children(names, _))) = answers.get(&Ask::Children(path(lock).into()))
    else {
        return false;
    };
    let queue = queue(lock, names);
    let mut holders = queue.contenders.iter().take(queue.holders);
    holders.any(|name| {
        let data = Ask::Data(tree::join(path(lock), name));
        answers.get(&data) == Some(&Some(Answer::NoNode))
    })
}

fn lock(lock: &LockSpec, answers: &Answers, parts: &mut Parts) -> (LockReading, Extras) {
    let unknown = |why| (LockReading::Unknown(why), Extras::default());
    let names = match answers.get(&Ask::Children(path(lock).into())) {
        Some(Some(Answer::Children(names, _))) => names.as_slice(),
        Some(Some(Answer::NoNode)) => &[],
        Some(Some(Answer::NoAuth)) => return unknown(Unknown::NoPermission),
        Some(Some(_)) => return unknown(Unknown::ServerError),
        Some(None) => return unknown(Unknown::TooLarge),
        None => return unknown(Unknown::NotReadYet),
    };
    let queue = queue(lock, names);
    // From then on every contender gets the same number, and some libraries let all of them in.
    if queue.is_unordered {
        return unknown(Unknown::Layout);
    }
    if queue.holders > HOLDERS_MAX {
        return unknown(Unknown::TooLarge);
    }
    let recipe = recipes::named(lock.library.as_str());
    let is_ephemeral = recipe.is_some_and(recipes::Recipe::is_ephemeral);
    let (mut holders, mut hosts, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    for (name, stands) in shown(&queue) {
        let (data, stat) = match answers.get(&Ask::Data(tree::join(path(lock), name))) {
            Some(Some(Answer::Data(data, stat))) => (data, stat),
            // Without its node, nothing is shown of one who waits.
            _ if stands != Stands::Holds => continue,
            Some(Some(Answer::NoAuth)) => return unknown(Unknown::NoPermission),
            // It had the lock, and has gone again and again before its node was read.
            Some(Some(Answer::NoNode)) => {
                holders.push(holder(name, name.into()));
                continue;
            }
            Some(Some(_)) => return unknown(Unknown::ServerError),
            Some(None) => return unknown(Unknown::TooLarge),
            None => return unknown(Unknown::NotReadYet),
        };
        let session = stat.owner.map(|SessionId(id)| format!("0x{id:x}").into_bytes());
        let is_left = session.is_none() && is_ephemeral && stands == Stands::Holds;
        let stands = if is_left { Stands::Blocks } else { stands };
        if stands == Stands::Holds {
            let client = session.clone().unwrap_or_else(|| b"no session".to_vec());
            let named = host(lock.host.as_deref(), data);
            hosts.extend(named.map(|host| host.map(|host| (client.clone(), host))));
            holders.push(holder(name, client));
        }
        let says = data.get(..Contender::SAYS_BYTES_MAX).unwrap_or(data);
        entries.push(Contender {
            name: name.into(),
            stands,
            session,
            since: Some(ServerTime::at(stat.created_ms)),
            says: (!says.is_empty()).then(|| says.to_vec()),
        });
    }
    parts.hosts = (!hosts.is_empty()).then(|| hosts.into_iter().collect());
    let waiters = u64::try_from(queue.contenders.len() - queue.holders).ok();
    let entries = (!entries.is_empty()).then(|| Arc::new(entries));
    let extras = Extras { waiters, fencing_token: None, queue: entries };
    holders.sort_unstable();
    let reading = match queue.mode {
        Some(mode) if !holders.is_empty() => {
            Held { mode, holders, ghosts: 0, deadline: Deadline::Never }.into()
        }
        _ => LockReading::Free,
    };
    (reading, extras)
}

/// A session has the lock by one of its nodes. Another node of the same session is another hold.
fn holder(name: &str, client: Vec<u8>) -> Holder {
    let number = recipes::number(name).unwrap_or(name);
    Holder { client, thread: Some(number.as_bytes().to_vec()), entries: None, secret: false }
}

/// The host that a contender's data name, at the configured place if there is one. Without one a
/// loopback address names none: it is what a machine calls itself.
fn host(path: Option<&ValuePath>, data: &[u8]) -> Option<Result<Vec<u8>, Unknown>> {
    if let Some(path) = path {
        return Some(value::find(path, data).map_err(|_| Unknown::ValuePath));
    }
    const HOST_BYTES_MAX: usize = 255;
    let text = core::str::from_utf8(data).ok()?.trim();
    let is_host = !text.is_empty()
        && text.len() <= HOST_BYTES_MAX
        && !text.contains(char::is_control)
        && !text.starts_with("127.")
        && text != "::1"
        && text != "localhost";
    is_host.then(|| Ok(text.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use lockwatch_judge::spec::StoreIndex;

    use super::*;
    use crate::zookeeper::codec::Stat;

    const FIRST: &str = "a__lock__0000000001";
    const SECOND: &str = "b__lock__0000000002";

    /// The reading of a lock of Kazoo with two contenders, by what is answered of their nodes.
    fn read(first: Option<Answer>, second: Option<Answer>) -> (LockReading, Extras) {
        let spec = TaskSpec::new("job", StoreIndex(0), LockSpec::new(b"/job", "kazoo"));
        let names = [SECOND, FIRST].map(ToString::to_string).to_vec();
        let data = |name: &str| Ask::Data(tree::join("/job", name));
        let folder = Some(Answer::Children(names, Stat::default()));
        let answers = Answers::from([
            (Ask::Children("/job".into()), folder),
            (data(FIRST), first),
            (data(SECOND), second),
        ]);
        assert_eq!(asks(&spec, &answers), [], "nothing else is asked");
        let reading = reading(&spec, &answers);
        let GuardReading::Lock { lock, extras } = reading.guard else { unreachable!() };
        (lock, extras)
    }

    fn node(session: i64, data: &[u8]) -> Option<Answer> {
        let owner = Some(SessionId(session));
        Some(Answer::Data(data.to_vec(), Stat { owner, created_ms: 7, ..Stat::default() }))
    }

    fn clients(lock: &LockReading) -> Vec<&[u8]> {
        let LockReading::Held(held) = lock else { return Vec::new() };
        held.holders.iter().map(|holder| &*holder.client).collect()
    }

    #[test]
    fn the_holder_is_a_session_and_the_queue_shows_all() {
        let (lock, extras) = read(node(0x1f, b"srv-a"), node(0x20, b""));
        assert_eq!(clients(&lock), [b"0x1f"]);
        assert_eq!(extras.waiters, Some(1));
        let queue = extras.queue.unwrap();
        let shown = queue.iter().map(|it| (it.stands, it.session.as_deref(), it.says.as_deref()));
        let expected = [
            (Stands::Holds, Some(&b"0x1f"[..]), Some(&b"srv-a"[..])),
            (Stands::Waits, Some(b"0x20"), None),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    /// A node that no session made stays for ever, and nobody works.
    #[test]
    fn a_contender_without_a_session_blocks() {
        let left = Some(Answer::Data(Vec::new(), Stat { created_ms: 7, ..Stat::default() }));
        let (lock, extras) = read(left, node(0x20, b""));
        assert_eq!((lock, extras.waiters), (LockReading::Free, Some(1)));
        let stands: Vec<_> = extras.queue.unwrap().iter().map(|it| it.stands).collect();
        assert_eq!(stands, [Stands::Blocks, Stands::Waits]);
    }

    /// Holds that are shorter than the way to the server and back.
    #[test]
    fn a_holder_that_went_before_its_node_was_read_had_the_lock() {
        let (lock, _) = read(Some(Answer::NoNode), node(0x20, b""));
        assert_eq!(clients(&lock), [FIRST.as_bytes()]);
    }

    #[test]
    fn what_may_not_be_read_of_the_holder_is_unknown_and_of_others_is_not_shown() {
        let unknown = |first| read(first, node(0x20, b"")).0;
        let why = |why| LockReading::Unknown(why);
        assert_eq!(unknown(Some(Answer::NoAuth)), why(Unknown::NoPermission));
        assert_eq!(unknown(None), why(Unknown::TooLarge));
        for second in [Some(Answer::NoAuth), Some(Answer::NoNode), None] {
            let (lock, extras) = read(node(0x1f, b""), second);
            assert_eq!((clients(&lock), extras.waiters), (vec![&b"0x1f"[..]], Some(1)));
            assert_eq!(extras.queue.unwrap().len(), 1);
        }
    }
}

//! What was read of the nodes in a lock's queue before. A folder gives no name twice, and a change of
//! a node is announced over the session that read it. So what is known of a node holds as long as it
//! stands in the queue, and most readings ask for names alone.

use alloc::string::String;

use lockwatch_judge::time::Mono;

use super::codec::{Answer, Ask, Stat, Zxid};
use super::tree::Answers;
use crate::redis::driver::LinkId;

/// All nodes are read again at least so often, in milliseconds.
const AGAIN_MS: u64 = 10_000;
/// Of a longer queue nothing is kept.
const NAMES_MAX: usize = 1_000;

/// The nodes of one queue.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The connection over which they were read; `None`: nothing is kept.
    link: Option<LinkId>,
    /// When the first of them was.
    at: Mono,
    /// The change that created the folder.
    folder: Zxid,
    nodes: Answers,
    /// One of them changed. The reading that is under way may have it as it was.
    is_spoilt: bool,
}

impl Kept {
    /// Adds what is known of these names to the answers of a reading over `link`.
    pub(super) fn fill(
        &self,
        (link, now): (LinkId, Mono),
        (names, stat): (&[String], &Stat),
        answers: &mut Answers,
    ) {
        let is_valid = self.link == Some(link)
            && self.folder == stat.created
            && now.since_ms(self.at) < AGAIN_MS
            && names.len() <= NAMES_MAX;
        let is_there = |ask: &Ask| {
            let name = ask.path().rsplit('/').next();
            names.iter().any(|other| Some(&**other) == name)
        };
        for (ask, answer) in self.nodes.iter().filter(|(ask, _)| is_valid && is_there(ask)) {
            answers.entry(ask.clone()).or_insert_with(|| answer.clone());
        }
    }

    /// Keeps the nodes of a reading that is complete.
    pub(super) fn keep(&mut self, (link, now): (LinkId, Mono), folder: &str, answers: &Answers) {
        let Some(Some(Answer::Children(_, stat))) = answers.get(&Ask::Children(folder.into()))
        else {
            *self = Kept::default();
            return;
        };
        if self.is_spoilt {
            *self = Kept::default();
            return;
        }
        let goes_on = self.link == Some(link)
            && self.folder == stat.created
            && now.since_ms(self.at) < AGAIN_MS;
        let is_in = |path: &str| path.rsplit_once('/').is_some_and(|(parent, _)| parent == folder);
        let nodes = answers.iter().filter(|(ask, answer)| {
            matches!((ask, answer), (Ask::Data(path), Some(Answer::Data(..))) if is_in(path))
        });
        *self = Kept {
            link: Some(link),
            at: if goes_on { self.at } else { now },
            folder: stat.created,
            nodes: nodes.map(|(ask, answer)| (ask.clone(), answer.clone())).collect(),
            is_spoilt: false,
        };
    }

    /// What is at this path changed.
    pub(super) fn changed(&mut self, path: &str) {
        let before = self.nodes.len();
        self.nodes.retain(|ask, _| ask.path() != path);
        self.is_spoilt |= self.nodes.len() < before;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    const NODE: &str = "/job/a-0000000001";

    fn stat(created: i64) -> Stat {
        Stat { created: Zxid(created), ..Stat::default() }
    }

    fn kept() -> Kept {
        let mut kept = Kept::default();
        keep(&mut kept, 1_000);
        kept
    }

    fn keep(kept: &mut Kept, at: u64) {
        let names = vec!["a-0000000001".into()];
        let answers = Answers::from([
            (Ask::Children("/job".into()), Some(Answer::Children(names, stat(5)))),
            (Ask::Data(NODE.into()), Some(Answer::Data(b"srv-a".to_vec(), stat(6)))),
            (Ask::Data("/job/users/anna".into()), Some(Answer::Data(b"1".to_vec(), stat(4)))),
        ]);
        kept.keep((LinkId(1), Mono::at(at)), "/job", &answers);
    }

    fn filled(kept: &Kept, link: u64, at: u64, names: &[&str], created: i64) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        let mut answers = Answers::new();
        kept.fill((LinkId(link), Mono::at(at)), (&names, &stat(created)), &mut answers);
        answers.keys().map(|ask| ask.path().into()).collect()
    }

    #[test]
    fn what_is_kept_holds_for_one_session_one_folder_and_ten_seconds() {
        let kept = kept();
        let all = ["b-0000000002", "a-0000000001"];
        assert_eq!(filled(&kept, 1, 10_900, &all, 5), [NODE], "and only nodes of the queue");
        let nothing = [""; 0];
        assert_eq!(filled(&kept, 1, 11_000, &all, 5), nothing, "too old");
        assert_eq!(filled(&kept, 2, 2_000, &all, 5), nothing, "another session");
        assert_eq!(filled(&kept, 1, 2_000, &all, 9), nothing, "the folder was made again");
        assert_eq!(filled(&kept, 1, 2_000, &all[..1], 5), nothing, "it is gone");
    }

    #[test]
    fn a_node_that_changed_is_read_again() {
        let mut kept = kept();
        kept.changed("/job/b-0000000002");
        assert_eq!(filled(&kept, 1, 2_000, &["a-0000000001"], 5), [NODE]);
        kept.changed(NODE);
        assert_eq!(filled(&kept, 1, 2_000, &["a-0000000001"], 5), [""; 0]);
        // A reading that began before ends with the node as it was.
        keep(&mut kept, 2_010);
        assert_eq!(filled(&kept, 1, 2_020, &["a-0000000001"], 5), [""; 0]);
        keep(&mut kept, 2_030);
        assert_eq!(filled(&kept, 1, 2_040, &["a-0000000001"], 5), [NODE]);
    }
}

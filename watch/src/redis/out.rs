//! What a watcher wants its driver to do, in order, and what all its parts share.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::input::{Input, NodeNews, NodeNewsKind, Outcome, SaidOf, Sample, Standing};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{StoreIndex, TaskIndex};
use lockwatch_judge::time::Mono;

use super::diagnosis::bounded;
use super::driver::{Action, Dial, Exchange, Failure, LinkId, Note};
use super::reply::Command;
use super::topology::Announced;

/// Maximum number of words that are remembered. It bounds memory.
const REPORTED_MAX: usize = 256;

/// The actions that wait for the driver, and what all parts of a watcher share.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) epoch: u32,
    pub(super) store: StoreIndex,
    /// The tasks whose exchanges are wanted; nearly always none.
    pub(super) traced: Arc<BTreeSet<TaskIndex>>,
    pub(super) actions: VecDeque<Action>,
    /// The words reported last, by server and reason. Forgotten with each configuration.
    pub(super) reported: BTreeMap<(Arc<str>, Unknown), Arc<str>>,
    links: u64,
    random: u64,
}

impl Out {
    /// `seed` is the source of all random numbers.
    pub(super) fn new(epoch: u32, store: StoreIndex, seed: u64) -> Out {
        let (traced, actions) = (Arc::default(), VecDeque::new());
        Out { epoch, store, traced, actions, reported: BTreeMap::new(), links: 0, random: seed }
    }

    /// A server that is not allowed was announced.
    pub(super) fn note_foreign(&mut self, announced: &Announced) {
        self.note(Note::Foreign(announced.to_string()));
    }

    /// A random number (SplitMix64); nothing secret depends on it.
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Opens a connection; returns its number.
    pub(super) fn dial(&mut self, dial: impl FnOnce(LinkId) -> Dial) -> LinkId {
        self.links += 1;
        let link = LinkId(self.links);
        self.actions.push_back(Action::Dial(dial(link)));
        link
    }

    pub(super) fn talk(&mut self, link: LinkId, commands: Vec<Command>) {
        self.actions.push_back(Action::Send { link, commands });
    }

    pub(super) fn hear(&mut self, link: LinkId) {
        self.actions.push_back(Action::Hear(link));
    }

    pub(super) fn close(&mut self, link: LinkId) {
        self.actions.push_back(Action::Close(link));
    }

    pub(super) fn note(&mut self, note: Note) {
        self.actions.push_back(Action::Note(note));
    }

    pub(super) fn exchange(&mut self, exchange: Exchange) {
        self.actions.push_back(Action::Exchange(Box::new(exchange)));
    }

    pub(super) fn evidence(&mut self, input: Input) {
        self.actions.push_back(Action::Evidence(input));
    }

    pub(super) fn sample(
        &mut self,
        node: Option<&Arc<str>>,
        standing: Standing,
        (sent, took_ms): (Mono, u64),
        outcome: Outcome,
    ) {
        let Out { epoch, store, .. } = *self;
        let node = node.cloned();
        self.evidence(Input::Sample(Sample {
            epoch,
            store,
            node,
            standing,
            sent,
            took_ms,
            outcome,
        }));
    }

    /// Reports the words that came with a failure, if they are others than the last ones of this
    /// server for this reason.
    pub(super) fn said(&mut self, server: &Arc<str>, failure: &Failure) -> bool {
        let words: Arc<str> = bounded(&failure.detail).into();
        let last = self.reported.get(&(Arc::clone(server), failure.why));
        if last.map_or(words.is_empty(), |last| *last == words) {
            return false;
        }
        if self.reported.len() >= REPORTED_MAX {
            self.reported.clear();
        }
        self.reported.insert((Arc::clone(server), failure.why), Arc::clone(&words));
        self.news(server, NodeNewsKind::Said { why: failure.why, words });
        true
    }

    /// Reports the words about tasks: from here on they are the newest for their reasons.
    pub(super) fn said_of(&mut self, server: &Arc<str>, said: Vec<SaidOf>) {
        said.iter().for_each(|said| _ = self.reported.remove(&(Arc::clone(server), said.why)));
        self.news(server, NodeNewsKind::SaidOf(said));
    }

    pub(super) fn news(&mut self, node: &Arc<str>, kind: NodeNewsKind) {
        let Out { epoch, store, .. } = *self;
        self.evidence(Input::Node(NodeNews { epoch, store, node: Arc::clone(node), kind }));
    }
}

//! Kazoo's `Lock`, `Election`, `ReadLock` and `WriteLock`: `<32 hex digits>__lock__0000000005` and
//! `…__rlock__…`. Its clients ignore every other child.

use lockwatch_judge::reading::Mode;

use super::recipe::{Place, Recipe, number};

pub(super) struct Kazoo;

const WORDS: [(&str, Mode); 2] = [("__rlock__", Mode::Read), ("__lock__", Mode::Exclusive)];

impl Recipe for Kazoo {
    fn name(&self) -> &'static str {
        "kazoo"
    }

    fn place<'a>(&self, child: &'a str) -> Option<Place<'a>> {
        let order = number(child)?;
        let before = child.strip_suffix(order)?;
        let (_, mode) = WORDS.iter().find(|(word, _)| before.ends_with(word))?;
        Some(Place { order, wants: Some(*mode) })
    }
}

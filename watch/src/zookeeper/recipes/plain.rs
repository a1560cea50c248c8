//! ZooKeeper's own recipe: the child with the lowest number has the lock, whatever stands before
//! the number. Children without one are no contenders.

use lockwatch_judge::reading::Mode;

use super::recipe::{Place, Recipe, number};

pub(super) struct Plain;

impl Recipe for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn is_ephemeral(&self) -> bool {
        false
    }

    fn place<'a>(&self, child: &'a str) -> Option<Place<'a>> {
        number(child).map(|order| Place { order, wants: Some(Mode::Exclusive) })
    }
}

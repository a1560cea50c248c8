//! The lock recipes that are known: one file each, and one line each in [`ALL`]. A recipe says in
//! which order its clients get the lock. That is not always the order of the numbers.

use alloc::vec::Vec;

mod curator;
mod kazoo;
mod plain;
mod recipe;

use lockwatch_judge::reading::Mode;

pub use recipe::{Place, Recipe, number};

/// All recipes.
pub static ALL: [&dyn Recipe; 3] = [&curator::Curator, &kazoo::Kazoo, &plain::Plain];

/// The recipe of a lock for which none is configured.
pub const DEFAULT: &str = "curator";

/// The queue for a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue<'a> {
    /// The contenders in the order in which they get it.
    pub contenders: Vec<&'a str>,
    /// So many of them have it.
    pub holders: usize,
    /// Whether those who have it exclude each other.
    pub mode: Option<Mode>,
    /// A child that is none of the library's, and in front of all of them.
    pub blocked_by: Option<&'a str>,
    /// Two have the same place: the numbers have come to their end, and the order is not known.
    pub is_unordered: bool,
}

/// The recipe of this name.
pub fn named(name: &str) -> Option<&'static dyn Recipe> {
    ALL.iter().find(|recipe| recipe.name() == name).copied()
}

/// Names that end with a number as well, and are no contenders: what clients of a semaphore have,
/// and members of a party.
const NO_CONTENDERS: [&str; 2] = ["-lease-", "__party__"];

/// Whose clients queue in a folder with these children. The plain recipe is the last one, because
/// all names that end with a number might be its.
pub fn recognise(children: &[alloc::string::String]) -> Option<&'static dyn Recipe> {
    let is_other = |child: &str| NO_CONTENDERS.iter().any(|word| child.contains(word));
    let is_of = |recipe: &dyn Recipe, child: &str| {
        !is_other(child) && recipe.place(child).is_some_and(|place| place.wants.is_some())
    };
    ALL.iter().copied().find(|recipe| children.iter().any(|child| is_of(*recipe, child)))
}

/// Who has the lock, and who waits for it.
pub fn queue<'a>(recipe: &dyn Recipe, children: &'a [alloc::string::String]) -> Queue<'a> {
    let mut places: Vec<(Place<'a>, &'a str)> =
        children.iter().filter_map(|child| Some((recipe.place(child)?, &**child))).collect();
    places.sort_unstable();
    let blocked_by =
        places.first().filter(|(place, _)| place.wants.is_none()).map(|(_, name)| *name);
    let ours: Vec<(Place<'a>, Mode, &'a str)> =
        places.iter().filter_map(|(place, name)| Some((*place, place.wants?, *name))).collect();
    let mode = ours.first().map(|(_, mode, _)| *mode);
    let holders = match mode {
        _ if blocked_by.is_some() => 0,
        Some(Mode::Read) => ours.iter().take_while(|(_, mode, _)| *mode == Mode::Read).count(),
        // A thread that has the write lock may take the read lock, with the same number.
        Some(Mode::Exclusive | Mode::Write) => 1,
        None => 0,
    };
    let same = |pair: &[(Place<'a>, Mode, &'a str)]| matches!(pair, [(one, first, _), (other, second, _)] if one.order == other.order && first == second);
    Queue {
        holders,
        mode,
        blocked_by,
        is_unordered: ours.windows(2).any(same),
        contenders: ours.into_iter().map(|(_, _, name)| name).collect(),
    }
}

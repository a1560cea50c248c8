//! What most tasks do not have, and what it costs them: one pointer. A hundred thousand tasks are
//! watched by one process, and most have only a lock.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// What a type is as long as nothing of it is there.
pub trait Absent: Clone + 'static {
    /// Nothing is there.
    const ABSENT: &'static Self;
}

impl<T: Clone + 'static> Absent for Vec<T> {
    const ABSENT: &'static Vec<T> = &Vec::new();
}

/// A `T` that takes memory only once it was changed; until then it reads as [`Absent::ABSENT`].
#[derive(Clone)]
pub struct Seldom<T>(Option<Box<T>>);

impl<T: Absent> Seldom<T> {
    /// Keeps `value`, unless it is what is absent anyway.
    pub fn new(value: T) -> Seldom<T>
    where
        T: PartialEq,
    {
        Seldom((value != *T::ABSENT).then(|| Box::new(value)))
    }
}

impl<T> Seldom<T> {
    /// What takes memory already, to be changed.
    pub fn present(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T> Default for Seldom<T> {
    fn default() -> Seldom<T> {
        Seldom(None)
    }
}

impl<T: Absent> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::ABSENT)
    }
}

/// Taking a mutable reference takes the memory, so only a real change should.
impl<T: Absent> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::ABSENT.clone()))
    }
}

impl<T: Absent + PartialEq> PartialEq for Seldom<T> {
    fn eq(&self, other: &Seldom<T>) -> bool {
        **self == **other
    }
}

impl<T: Absent + Eq> Eq for Seldom<T> {}

impl<T: Absent + fmt::Debug> fmt::Debug for Seldom<T> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(to)
    }
}

impl<T> FromIterator<T> for Seldom<Vec<T>> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Seldom<Vec<T>> {
        let items: Vec<T> = items.into_iter().collect();
        Seldom((!items.is_empty()).then(|| Box::new(items)))
    }
}

impl<T, const N: usize> From<[T; N]> for Seldom<Vec<T>> {
    fn from(items: [T; N]) -> Seldom<Vec<T>> {
        items.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Absent for u8 {
        const ABSENT: &'static u8 = &7;
    }

    #[test]
    fn what_was_never_changed_takes_no_memory_and_is_as_if_absent() {
        let mut it = Seldom::<u8>::default();
        assert_eq!((*it, it.0.is_none()), (7, true));
        assert!(Seldom::new(7_u8).0.is_none());
        *it = 8;
        assert_eq!((*it, it == Seldom::new(8)), (8, true));
        *it = 7;
        assert_eq!(it, Seldom::default());
    }
}

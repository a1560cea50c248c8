//! Whether a task is wanted.

named! {
    /// Whether users want a task.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Wanted {
        /// At least one switch is on.
        Yes = "yes",
        /// All switches are known, and off.
        No = "no",
        /// No switch is known to be on, and some could not be read.
        Unknown = "unknown",
        /// The configuration names no switches.
        Unset = "unset",
    }
}

impl Wanted {
    /// Somebody wants it, or nobody could say so.
    pub(crate) const YES_OR_UNSET: &[Wanted] = &[Wanted::Yes, Wanted::Unset];
}

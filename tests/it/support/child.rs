//! Processes that end with their owner.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};

/// A process that is killed, exactly this one, when it is dropped.
#[derive(Debug)]
pub(crate) struct OwnedChild(Child);

impl OwnedChild {
    #[track_caller]
    pub(crate) fn spawn(command: &mut Command) -> OwnedChild {
        OwnedChild(command.spawn().unwrap())
    }
}

impl Deref for OwnedChild {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for OwnedChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ended_before = self.0.kill();
        let _status = self.0.wait();
    }
}

//! A worker, and the hold that it believes to have.

/// One worker.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(in crate::world) name: (usize, usize),
    /// Number of its processes so far.
    pub(crate) life: u32,
    pub(crate) alive: bool,
    pub(crate) paused_until: u64,
    /// The hold that it believes to have.
    pub(crate) hold: Option<Hold>,
    /// Its script runs.
    pub(crate) working: bool,
    /// Until then, it does not stop when the task is unwanted.
    pub(crate) ignores_off_until: u64,
    /// Its server, if that is not the master that all other clients use.
    pub(crate) sticks_to: Option<usize>,
    pub(in crate::world) claim: u64,
    pub(crate) holds: u64,
}

/// A hold as a worker believes to have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) number: u64,
    pub(crate) entries: u32,
    pub(crate) lease_ms: u64,
    pub(crate) renews: bool,
    #[allow(dead_code, reason = "for looking at a run by hand")]
    pub(crate) since: u64,
}

impl Worker {
    pub(in crate::world) fn new(task: usize, worker: usize) -> Worker {
        Worker {
            name: (task, worker),
            life: 0,
            alive: true,
            paused_until: 0,
            hold: None,
            working: false,
            ignores_off_until: 0,
            sticks_to: None,
            claim: 0,
            holds: 0,
        }
    }

    /// Its identifier in Redisson's locks and in claims.
    pub(crate) fn instance(&self) -> Vec<u8> {
        let (task, worker) = self.name;
        format!("c0ffee00-{task:04x}-4000-8000-{worker:04x}{:08x}", self.life).into_bytes()
    }

    /// Its token in a string lock.
    pub(in crate::world) fn token(&self) -> Vec<u8> {
        self.instance()
    }

    pub(in crate::world) fn field(&self) -> Vec<u8> {
        let mut field = self.instance();
        field.extend_from_slice(b":47");
        field
    }

    pub(crate) fn runs(&self, now: u64) -> bool {
        self.alive && self.paused_until <= now
    }
}

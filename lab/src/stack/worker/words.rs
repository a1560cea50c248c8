//! What a worker reports, and what it is ordered to do: one word per line.

/// A report of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Up,
    Holds,
    Lost,
    Released,
    Ended,
}

impl News {
    pub(super) const ALL: [News; 5] =
        [News::Up, News::Holds, News::Lost, News::Released, News::Ended];

    pub(super) fn word(self) -> &'static str {
        match self {
            News::Up => "up",
            News::Holds => "holds",
            News::Lost => "lost",
            News::Released => "released",
            News::Ended => "ended",
        }
    }
}

/// An order on the worker's standard input, one word per line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Contend,
    Release,
    Hang,
    Work,
    StopRenewing,
}

impl Order {
    pub(super) const ALL: [Order; 5] =
        [Order::Contend, Order::Release, Order::Hang, Order::Work, Order::StopRenewing];

    pub(super) fn word(self) -> &'static str {
        match self {
            Order::Contend => "contend",
            Order::Release => "release",
            Order::Hang => "hang",
            Order::Work => "work",
            Order::StopRenewing => "stop-renewing",
        }
    }
}

//! The table of problems.

use crate::grounds::Problem;

/// Whose problem it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A task's.
    Task,
    /// A store's.
    Store,
}

/// Whom an alert wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A human, now. A task's label `severity` replaces `critical`.
    Page,
    /// Nobody before tomorrow.
    Warning,
}

impl Severity {
    /// Whether it is a page.
    pub fn is_page(self) -> bool {
        self == Severity::Page
    }

    /// Its label without a label of the task's own.
    pub fn label(self) -> &'static str {
        match self {
            Severity::Page => "critical",
            Severity::Warning => "warning",
        }
    }
}

/// How Prometheus puts agents together and what it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// An agent's last word stays until an agent that answers sees that it is not so.
    UntilNegative,
    /// The same, but the word of one agent that sees it wins over all others.
    UntilNegativeOfAll,
    /// An event: its age, for this many milliseconds, whatever becomes of the agent.
    Event(u64),
    /// Nothing beyond `keep_firing_for`.
    Nothing,
}

/// One problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The problem.
    pub problem: Problem,
    /// Whose it is.
    pub of: Of,
    /// Whom it wakes.
    pub severity: Severity,
    /// The alert, and its runbook.
    pub alert: &'static str,
    /// What is true while it is so.
    pub positive: &'static str,
    /// The evidence against it; empty: none is needed.
    pub negative: &'static str,
    /// What its number says.
    pub number: &'static str,
    /// What Prometheus remembers.
    pub memory: Memory,
}

impl Row {
    /// For how long an event is told, in milliseconds.
    pub fn event_ms(&self) -> u64 {
        match self.memory {
            Memory::Event(ms) => ms,
            _ => EVENT_MS,
        }
    }

    /// Whom its alert wakes. A series of `switches_unseen` has the severity of pages, because with
    /// Prometheus' memory of wanting users it is `switches_lost`; alone it wakes nobody.
    pub fn alert_severity(&self) -> Severity {
        if self.problem == Problem::SwitchesUnseen { Severity::Warning } else { self.severity }
    }

    /// Whether fresh evidence against it is wanted for `clear`.
    pub fn is_page_state(&self) -> bool {
        self.severity == Severity::Page && !self.negative.is_empty()
    }
}

/// How long an event is told, in milliseconds.
pub(super) const EVENT_MS: u64 = 900_000;
/// The same for a step of a clock.
pub(super) const CLOCK_STEP_MS: u64 = 600_000;

const fn task(problem: Problem, alert: &'static str, severity: Severity) -> Row {
    let (positive, negative, number) = ("", "", "how long it has been so");
    let (of, memory) = (Of::Task, Memory::Nothing);
    Row { problem, of, severity, alert, positive, negative, number, memory }
}

const fn store(problem: Problem, alert: &'static str, severity: Severity) -> Row {
    Row { of: Of::Store, ..task(problem, alert, severity) }
}

/// All problems, in the order of [`Problem::ALL`].
pub const TABLE: [Row; Problem::ALL.len()] = [
    Row {
        positive: "The task is seen to be wanted, and no hold has lasted for `settle`, for longer \
                   than `grace`.",
        negative: "It has been held without a break for `settle`, by any holder; or it is known to \
                   be unwanted; or nobody can want it.",
        number: "time wanted without a hold that lasted",
        memory: Memory::UntilNegative,
        ..task(Problem::Down, "LockwatchTaskDown", Severity::Page)
    },
    Row {
        positive: "There is evidence of two holders now.",
        negative: "The task is seen, and there is no such evidence.",
        number: "time with two holders; of what is over, its age",
        memory: Memory::UntilNegativeOfAll,
        ..task(Problem::Split, "LockwatchTaskSplit", Severity::Page)
    },
    Row {
        positive: "The task is seen to be held, and its progress did not move, or was gone because \
                   its TTL ran out, for longer than `stale_after`; or a turn, or a due member of a queue, is over `max_late`.",
        negative: "The work moved, or a new hold began; or the lock is free, or nobody wants it; \
                   or no progress is configured; or no turn and no member is over `max_late`.",
        number: "time without a movement",
        memory: Memory::UntilNegative,
        ..task(Problem::Stalled, "LockwatchTaskStalled", Severity::Page)
    },
    Row {
        positive: "The three newest runs of the script, by any guard, ended within the last hour, \
                   each with an error that its guard did not cause, or killed together with its \
                   guard.",
        negative: "One of them exited with 0; or the present run has lasted longer than `settle` \
                   and than twice the longest of them; or the oldest of them ended more than an \
                   hour ago; or it is known to be unwanted; or no guard states its runs.",
        number: "time since the first of these errors",
        memory: Memory::UntilNegative,
        ..task(Problem::Failing, "LockwatchTaskFailing", Severity::Page)
    },
    Row {
        positive: "The task was not read for longer than `blind_after` though its store answered \
                   for that long.",
        negative: "It was read within `blind_after`.",
        number: "time without a trustworthy reading",
        memory: Memory::UntilNegative,
        ..task(Problem::Blind, "LockwatchTaskBlind", Severity::Page)
    },
    Row {
        positive: "Switches that were on vanished together with other data.",
        negative: "The switches' key was seen, and none of them is missing.",
        number: "time since they were lost",
        memory: Memory::UntilNegativeOfAll,
        ..task(Problem::SwitchesLost, "LockwatchSwitchesLost", Severity::Page)
    },
    Row {
        positive: "This process looked for the switches' key, and never saw it.",
        number: "time since it looked first",
        ..task(Problem::SwitchesUnseen, "LockwatchSwitchKeyMissing", Severity::Page)
    },
    Row {
        positive: "A lock was lost while its holder lived.",
        number: "its age",
        memory: Memory::Event(EVENT_MS),
        ..task(Problem::LockLost, "LockwatchLockLost", Severity::Page)
    },
    Row {
        positive: "Held for longer than `wind_down` though nobody wants it.",
        ..task(Problem::Unwanted, "LockwatchTaskUnwanted", Severity::Warning)
    },
    Row {
        positive: "A renewal is late by more than half of its period.",
        number: "how late it is",
        ..task(Problem::RenewalOverdue, "LockwatchRenewalOverdue", Severity::Warning)
    },
    Row {
        positive: "A hold ended by expiry, not by release.",
        number: "its age",
        memory: Memory::Event(EVENT_MS),
        ..task(Problem::LeaseExpired, "LockwatchLeaseExpired", Severity::Warning)
    },
    Row {
        positive: "Held for 5 minutes without a TTL, or with one of more than a year.",
        ..task(Problem::Persistent, "LockwatchLockPersistent", Severity::Warning)
    },
    Row {
        positive: "Held longer than `max_hold`.",
        ..task(Problem::HeldTooLong, "LockwatchHeldTooLong", Severity::Warning)
    },
    Row {
        positive: "Held for 10 minutes while nobody waited for the lock, and the task has the \
                   label `standby: required`.",
        ..task(Problem::NoCandidate, "LockwatchNoCandidate", Severity::Warning)
    },
    Row {
        positive: "Held for longer than `stale_after` while the configured progress was absent \
                   (but not expired) or unreadable.",
        ..task(Problem::ProgressMissing, "LockwatchProgressMissing", Severity::Warning)
    },
    Row {
        positive: "Five gaps ended, or holds were too short to end one, within 15 minutes.",
        number: "the age of the fifth newest",
        ..task(Problem::Flapping, "LockwatchTaskFlapping", Severity::Warning)
    },
    Row {
        positive: "Three times within 15 minutes a holder came back while the lease of its \
                   successor ran, and the lock was never seen free between.",
        number: "the age of the third newest",
        ..task(Problem::Contended, "LockwatchTaskContended", Severity::Warning)
    },
    Row {
        positive: "Held for longer than `blind_after` while a switch could not be read.",
        ..task(Problem::Undecodable, "LockwatchSwitchUndecodable", Severity::Warning)
    },
    Row {
        positive: "A member of a queue kept its score, and another worker took its lock.",
        number: "its age",
        memory: Memory::Event(EVENT_MS),
        ..task(Problem::ExecutedAgain, "LockwatchExecutedAgain", Severity::Warning)
    },
    Row {
        positive: "The lock of a queue's member is held, and its holder fell silent: its claim, or \
                   the renewals of its library.",
        ..task(Problem::DeadHolder, "LockwatchDeadHolder", Severity::Warning)
    },
    Row {
        positive: "The lock of a queue's member has been held for 5 seconds after the member left.",
        ..task(Problem::OrphanLock, "LockwatchOrphanLock", Severity::Warning)
    },
    Row {
        positive: "Due members left a queue and were never seen locked, though at least half of \
                   those before were.",
        number: "its age",
        memory: Memory::Event(EVENT_MS),
        ..task(Problem::Vanished, "LockwatchVanished", Severity::Warning)
    },
    Row {
        positive: "A deciding server was not read for longer than the smallest `blind_after` of \
                   the store's tasks.",
        negative: "Every deciding server was read within that time.",
        number: "time without an answer",
        memory: Memory::UntilNegative,
        ..store(Problem::Unreachable, "LockwatchStoreUnreachable", Severity::Page)
    },
    Row {
        positive: "Two servers have reported for a minute that they are master.",
        ..store(Problem::RivalMaster, "LockwatchRivalMaster", Severity::Warning)
    },
    Row {
        positive: "For 5 minutes not all configured Sentinels named the same master.",
        ..store(Problem::SentinelMissing, "LockwatchSentinelMissing", Severity::Warning)
    },
    Row {
        positive: "For 5 minutes a replica lacked most of the newest holds, or did not answer.",
        ..store(Problem::ReplicaBehind, "LockwatchReplicaBehind", Severity::Warning)
    },
    Row {
        positive: "A server's clock jumped against the agent's.",
        number: "its age",
        memory: Memory::Event(CLOCK_STEP_MS),
        ..store(Problem::ClockStep, "LockwatchClockStep", Severity::Warning)
    },
];

impl Problem {
    /// Its row of the table.
    pub fn row(self) -> &'static Row {
        const { &TABLE }.get(self as usize).unwrap_or(&TABLE[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_has_the_row_of_its_own() {
        for (problem, row) in Problem::ALL.into_iter().zip(TABLE) {
            assert_eq!(problem, row.problem);
            assert_eq!(problem.row().problem, problem);
            assert!(!row.positive.is_empty() && !row.number.is_empty(), "{problem:?}");
            let needs = matches!(row.memory, Memory::UntilNegative | Memory::UntilNegativeOfAll);
            assert_eq!(needs, !row.negative.is_empty(), "{problem:?}");
        }
    }
}

//! The clock that also advances while the machine is suspended, and an alarm on it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use lockwatch_judge::time::Mono;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// The present instant. It means the same in all processes of this machine.
pub fn now() -> Mono {
    let now = clock_gettime(ClockId::Boottime);
    let (s, ns) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    Mono::at(s.unwrap_or(0).saturating_mul(1_000).saturating_add(ns.unwrap_or(0) / 1_000_000))
}

/// Becomes readable at an instant.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
    at: std::cell::Cell<Mono>,
}

impl Alarm {
    /// An alarm that is not set.
    ///
    /// # Errors
    /// The system has no more of them.
    pub fn new() -> std::io::Result<Alarm> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Alarm { timer, at: std::cell::Cell::new(Mono::MAX) })
    }

    /// Sets it, also to an instant that is over: then it is readable at once.
    ///
    /// # Errors
    /// The instant cannot be given to the system.
    pub fn set(&self, at: Mono) -> std::io::Result<()> {
        // Zero would switch it off.
        let ms = at.ms().max(1);
        let it_value = Timespec {
            tv_sec: i64::try_from(ms / 1_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ms % 1_000).unwrap_or(0) * 1_000_000,
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)?;
        self.at.set(at);
        Ok(())
    }

    /// Whether its instant has come.
    pub fn is_over(&self) -> bool {
        now() >= self.at.get()
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn rings_within(alarm: &Alarm, ms: i64) -> bool {
        let limit = Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
        let mut fds = [PollFd::from_borrowed_fd(alarm.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&limit)).unwrap() > 0
    }

    #[test]
    fn an_alarm_rings_at_its_instant_and_can_be_moved() {
        let alarm = Alarm::new().unwrap();
        assert!(!rings_within(&alarm, 1));
        let began = now();
        alarm.set(began.plus_ms(30)).unwrap();
        assert!(rings_within(&alarm, 900) && now().since_ms(began) >= 30 && alarm.is_over());
        alarm.set(now().plus_ms(60_000)).unwrap();
        assert!(!rings_within(&alarm, 1) && !alarm.is_over());
        for past in [Mono::at(0), Mono::at(1), began] {
            alarm.set(past).unwrap();
            assert!(rings_within(&alarm, 900) && alarm.is_over());
        }
    }
}

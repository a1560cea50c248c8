//! What one guard does, instant by instant. The simulator plays guards, keepers and stores together
//! (`sim/src/world/guards.rs`).

use lockwatch_guard::{Action, End, Guard, Input, Outcome, Reply, Restart, Terms, Why};
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Wanted;

const TERMS: Terms = Terms {
    lease_ms: 2_000,
    stop_after_ms: 500,
    backoff_ms: (1_000, 30_000),
    give_up_after: Some(3),
    restart: Restart::Always,
    wait_ms: None,
    at_least_ms: 0,
    shown_ms: 0,
};

/// The instants of one guard alone.
struct Alone {
    guard: Guard,
    now: u64,
}

impl Alone {
    fn new(terms: Terms) -> Alone {
        let mut alone = Alone { guard: Guard::new(terms, Mono::at(1_000), 7), now: 1_000 };
        alone.tell(Input::Wanted(Wanted::Yes));
        alone
    }

    fn tell(&mut self, input: Input) {
        self.guard.handle(Mono::at(self.now), input);
    }

    fn at(&mut self, now: u64) -> Vec<Action> {
        self.now = now;
        std::iter::from_fn(|| self.guard.poll(Mono::at(now))).collect()
    }

    /// Running since 1,010 under a hold requested at 1,000.
    fn running(terms: Terms) -> Alone {
        let mut alone = Alone::new(terms);
        assert_eq!(alone.at(1_000), [Action::Take]);
        alone.now = 1_010;
        alone.tell(Input::Replied(Reply::Taken { token: 5 }));
        let dead_by = Mono::at(1_000 + terms.lease_ms - terms.margin_ms());
        assert_eq!(alone.at(1_010), [Action::Start { token: 5, dead_by }]);
        alone
    }
}

#[test]
fn a_store_that_is_silent_stops_the_script_in_time() {
    let mut alone = Alone::running(TERMS);
    assert_eq!(alone.guard.next_wake(), Some(Mono::at(1_666)));
    assert_eq!(alone.at(1_666), [Action::Renew]);
    assert_eq!(alone.guard.next_wake(), Some(Mono::at(2_000)), "the script must be asked then");
    assert_eq!(alone.at(1_999), []);
    assert_eq!(alone.at(2_000), [Action::Terminate(lockwatch_guard::Why::NotRenewed)]);
    assert_eq!(alone.at(2_500), [Action::Kill(lockwatch_guard::Why::NotRenewed)]);
    alone.tell(Input::Gone { code: Some(137), at: Mono::at(2_510) });
    assert_eq!(alone.at(2_510), [Action::Release], "once the renewal is answered");
}

#[test]
fn a_lock_that_is_lost_kills_at_once() {
    let mut alone = Alone::running(TERMS);
    alone.tell(Input::Changed);
    assert_eq!(alone.at(1_020), [Action::Look]);
    alone.tell(Input::Replied(Reply::NotOurs));
    assert_eq!(alone.at(1_021), [Action::Kill(lockwatch_guard::Why::Lost)]);
    alone.tell(Input::Gone { code: Some(137), at: Mono::at(1_022) });
    assert_eq!(alone.at(1_022), [Action::Take], "it contends again");
}

#[test]
fn a_look_that_fails_is_followed_by_an_early_renewal() {
    let mut alone = Alone::running(Terms { lease_ms: 30_000, ..TERMS });
    alone.tell(Input::Changed);
    assert_eq!(alone.at(1_020), [Action::Look]);
    alone.now = 1_030;
    alone.tell(Input::Replied(Reply::Failed));
    assert_eq!(alone.at(1_279), []);
    assert_eq!(alone.guard.next_wake(), Some(Mono::at(1_280)));
    assert_eq!(alone.at(1_280), [Action::Renew]);
    alone.tell(Input::Replied(Reply::NotOurs));
    assert_eq!(alone.at(1_290), [Action::Kill(lockwatch_guard::Why::Lost)]);
}

#[test]
fn a_pause_beyond_the_lease_is_reported() {
    let mut alone = Alone::running(TERMS);
    assert_eq!(alone.at(9_000), [Action::Kill(lockwatch_guard::Why::NotRenewed)]);
    alone.tell(Input::Gone { code: Some(137), at: Mono::at(9_010) });
    let reported = alone.at(9_010);
    let [Action::Report(overrun), Action::Release] = reported[..] else { panic!("{reported:?}") };
    assert_eq!((overrun.token, overrun.from, overrun.to), (5, Mono::at(3_000), Mono::at(9_010)));
}

#[test]
fn a_guard_that_runs_once_ends_with_its_script() {
    let once = Terms { restart: Restart::Never, ..TERMS };
    let mut alone = Alone::running(once);
    alone.tell(Input::Gone { code: Some(3), at: Mono::at(1_500) });
    assert_eq!(alone.at(1_500), [Action::Release]);
    alone.tell(Input::Replied(Reply::Released));
    let end = End { outcome: Outcome::Done, code: Some(3) };
    assert_eq!(alone.at(1_501), [Action::End(end)]);
    assert_eq!((alone.at(99_000), alone.guard.next_wake()), (vec![], None));

    let mut alone = Alone::running(once);
    assert_eq!(alone.at(1_666), [Action::Renew]);
    alone.tell(Input::Replied(Reply::NotOurs));
    assert_eq!(alone.at(1_670), [Action::Kill(lockwatch_guard::Why::Lost)]);
    alone.tell(Input::Gone { code: None, at: Mono::at(1_680) });
    let end = End { outcome: Outcome::Lost, code: Some(137) };
    assert_eq!(alone.at(1_680), [Action::End(end)]);
}

/// What was known last counts: a silent store ends the hold in time anyway.
#[test]
fn switches_that_cannot_be_read_neither_stop_nor_start_anything() {
    let mut alone = Alone::running(TERMS);
    alone.tell(Input::Wanted(Wanted::Unknown));
    assert_eq!(alone.at(1_020), []);
    alone.tell(Input::Wanted(Wanted::No));
    assert_eq!(alone.at(1_030), [Action::Terminate(Why::Unwanted)]);
    let mut waits = Alone::new(TERMS);
    for wanted in [Wanted::No, Wanted::Unknown] {
        waits.tell(Input::Wanted(wanted));
        assert_eq!(waits.at(1_010), []);
    }
}

#[test]
fn patience_has_an_end() {
    for (reply, outcome) in
        [(Reply::Busy { left_ms: None }, Outcome::NotTaken), (Reply::Failed, Outcome::NoStore)]
    {
        let mut alone = Alone::new(Terms { wait_ms: Some(100), ..TERMS });
        assert_eq!(alone.at(1_000), [Action::Take]);
        alone.tell(Input::Replied(reply));
        assert_eq!(alone.at(1_099), []);
        assert_eq!(alone.guard.next_wake(), Some(Mono::at(1_100)));
        assert_eq!(alone.at(1_100), [Action::End(End { outcome, code: None })]);
    }
}

/// `flock -w 0`: a free lock is taken, and one that somebody has is not waited for.
#[test]
fn without_patience_it_is_tried_once() {
    let once = Terms { wait_ms: Some(0), restart: Restart::Never, ..TERMS };
    Alone::running(once);
    let ends = |outcome| vec![Action::End(End { outcome, code: None })];
    for (reply, outcome) in [
        (Reply::Busy { left_ms: Some(9_000) }, Outcome::NotTaken),
        (Reply::Failed, Outcome::NoStore),
    ] {
        let mut alone = Alone::new(once);
        assert_eq!(alone.at(1_000), [Action::Take]);
        assert_eq!(alone.guard.next_wake(), None, "the answer is waited for");
        alone.tell(Input::Replied(reply));
        assert_eq!(alone.at(1_010), ends(outcome));
    }
    for (wanted, outcome) in [(Wanted::No, Outcome::NotWanted), (Wanted::Unknown, Outcome::NoStore)]
    {
        let mut guard = Guard::new(once, Mono::at(1_000), 7);
        assert_eq!((guard.poll(Mono::at(1_000)), guard.next_wake()), (None, None), "not asked yet");
        guard.handle(Mono::at(1_003), Input::Wanted(wanted));
        assert_eq!(guard.poll(Mono::at(1_003)), ends(outcome).pop());
    }
}

/// Cron on several servers: the work is done before the next server's clock strikes.
#[test]
fn a_lock_that_is_kept_for_a_while_is_left_with_the_rest() {
    let kept = |at_least_ms| Terms { at_least_ms, restart: Restart::Never, ..TERMS };
    let end = |code| Action::End(End { outcome: Outcome::Done, code: Some(code) });
    // The script started at 1,010.
    for code in [0, 1] {
        let mut alone = Alone::running(kept(1_500));
        alone.tell(Input::Gone { code: Some(code), at: Mono::at(1_200) });
        assert_eq!(alone.at(1_200), [Action::Leave { left_ms: 1_310 }]);
        alone.tell(Input::Replied(Reply::Released));
        assert_eq!(alone.at(1_210), [end(code)]);
    }
    let mut alone = Alone::running(Terms { shown_ms: 400, ..kept(1_500) });
    alone.tell(Input::Gone { code: Some(0), at: Mono::at(1_200) });
    assert_eq!((alone.at(1_200), alone.guard.next_wake()), (vec![], Some(Mono::at(1_410))));
    assert_eq!(alone.at(1_410), [Action::Leave { left_ms: 1_100 }], "agents have seen the lease");
    let mut alone = Alone::running(kept(150));
    alone.tell(Input::Gone { code: Some(0), at: Mono::at(1_160) });
    assert_eq!(alone.at(1_160), [Action::Release], "it ran for longer");
}

/// A lease that is lengthened would look like a renewal, and then like a lease that ran out.
#[test]
fn a_lock_that_is_kept_beyond_its_lease_is_renewed_until_the_rest_is_shorter() {
    let terms = Terms { at_least_ms: 3_000, restart: Restart::Never, ..TERMS };
    let end = Action::End(End { outcome: Outcome::Done, code: Some(0) });
    let done = || {
        let mut alone = Alone::running(terms);
        alone.tell(Input::Gone { code: Some(0), at: Mono::at(1_100) });
        assert_eq!(alone.at(1_100), []);
        assert_eq!(alone.guard.next_wake(), Some(Mono::at(1_666)));
        alone
    };
    let mut alone = done();
    assert_eq!(alone.at(1_666), [Action::Renew]);
    alone.tell(Input::Replied(Reply::Renewed));
    assert_eq!(alone.at(1_670), [], "no script is left whose time could be extended");
    assert_eq!(alone.at(2_332), [Action::Renew]);
    alone.tell(Input::Replied(Reply::Renewed));
    // The lease ends at 4,332, and the lock is kept until 4,010.
    assert_eq!(alone.at(2_340), [Action::Leave { left_ms: 1_670 }]);
    alone.tell(Input::Replied(Reply::Failed));
    assert_eq!(alone.at(2_900), [end], "then the lock stays for the rest of the lease");

    // Agents must have seen the last renewal.
    let mut alone = Alone::running(Terms { shown_ms: 400, ..terms });
    alone.tell(Input::Gone { code: Some(0), at: Mono::at(1_100) });
    for renewed in [1_666, 2_332] {
        assert_eq!(alone.at(renewed), [Action::Renew]);
        alone.tell(Input::Replied(Reply::Renewed));
    }
    assert_eq!((alone.at(2_340), alone.guard.next_wake()), (vec![], Some(Mono::at(2_732))));
    assert_eq!(alone.at(2_732), [Action::Leave { left_ms: 1_278 }]);

    let mut alone = done();
    alone.tell(Input::Stop);
    assert_eq!(alone.at(1_200), [Action::Leave { left_ms: 1_550 }], "less, but no renewal");

    let mut alone = done();
    alone.tell(Input::Wanted(Wanted::No));
    assert_eq!(alone.at(1_200), [], "it is done whether or not it is wanted");
    assert_eq!(alone.at(1_666), [Action::Renew]);
    alone.tell(Input::Replied(Reply::NotOurs));
    assert_eq!(alone.at(1_670), [end], "somebody else has it");

    let mut alone = done();
    assert_eq!(alone.at(1_666), [Action::Renew]);
    assert_eq!(alone.guard.next_wake(), Some(Mono::at(3_000)));
    assert_eq!(alone.at(3_000), [Action::Release], "the store is silent, and the lease is over");
}

#[test]
fn after_so_many_failures_the_lock_goes_to_another() {
    let mut alone = Alone::running(TERMS);
    let mut pauses = Vec::new();
    loop {
        alone.tell(Input::Gone { code: Some(1), at: Mono::at(alone.now) });
        let ended = alone.now;
        loop {
            let actions = alone.at(alone.now + 1);
            match actions[..] {
                [Action::Start { .. }] => {
                    pauses.push(alone.now - ended);
                    break;
                }
                [Action::Renew] => alone.tell(Input::Replied(Reply::Renewed)),
                [Action::Release] => {
                    assert_eq!(pauses.len(), 2, "{pauses:?}");
                    assert!((1_000..=1_501).contains(&pauses[0]), "{pauses:?}");
                    assert!((2_000..=3_001).contains(&pauses[1]), "{pauses:?}");
                    alone.tell(Input::Replied(Reply::Released));
                    assert_eq!(alone.at(ended + 29_999), []);
                    assert_eq!(alone.at(ended + 30_000), [Action::Take]);
                    return;
                }
                [] => {}
                _ => panic!("{actions:?}"),
            }
        }
    }
}

#[test]
fn what_is_in_doubt_is_given_back_when_nobody_wants_it() {
    for stop in [Input::Wanted(Wanted::No), Input::Stop] {
        let mut alone = Alone::new(TERMS);
        assert_eq!(alone.at(1_000), [Action::Take]);
        alone.tell(Input::Replied(Reply::Failed));
        alone.tell(stop.clone());
        assert_eq!(alone.at(1_001), [Action::Release]);
        alone.tell(Input::Replied(Reply::NotOurs));
        let ends = alone.at(1_002);
        match stop {
            Input::Stop => assert!(matches!(ends[..], [Action::End(_)]), "{ends:?}"),
            _ => assert_eq!(ends, []),
        }
    }
}

/// A release may be announced before the answer to an attempt that came too early for it.
#[test]
fn what_changes_during_an_attempt_is_not_missed() {
    let mut alone = Alone::new(TERMS);
    assert_eq!(alone.at(1_000), [Action::Take]);
    alone.tell(Input::Changed);
    assert_eq!(alone.at(1_001), []);
    alone.tell(Input::Replied(Reply::Busy { left_ms: Some(1_900) }));
    assert_eq!(alone.at(1_002), [Action::Take]);
    alone.tell(Input::Replied(Reply::Busy { left_ms: Some(1_898) }));
    assert_eq!(alone.at(1_003), []);
    assert_eq!(alone.guard.next_wake(), Some(Mono::at(2_905)));
}

/// The newest runs, as when they began and ended, with their codes and whether they were asked to.
fn runs(alone: &Alone) -> Vec<(u64, u64, u8, bool)> {
    let ended = alone.guard.runs().ended();
    ended.map(|run| (run.from.ms(), run.to.ms(), run.code, run.asked)).collect()
}

#[test]
fn the_newest_three_runs_are_kept() {
    let mut alone = Alone::running(Terms { give_up_after: None, ..TERMS });
    assert_eq!(alone.guard.runs().since, Some(Mono::at(1_010)));
    let mut expected = Vec::new();
    for code in [1, 0, 2, 3] {
        let from = alone.guard.runs().since.unwrap().ms();
        alone.tell(Input::Gone { code: Some(code), at: Mono::at(alone.now + 5) });
        expected.push((from, alone.now + 5, code, false));
        assert_eq!(alone.guard.runs().since, None);
        while alone.guard.runs().since.is_none() {
            if alone.at(alone.now + 50).contains(&Action::Renew) {
                alone.tell(Input::Replied(Reply::Renewed));
            }
        }
    }
    assert_eq!(runs(&alone), expected[1..]);
}

#[test]
fn what_the_guard_ended_is_no_error_of_the_script() {
    let lost = [Input::Changed, Input::Replied(Reply::NotOurs)];
    for (inputs, code) in [
        (vec![Input::Wanted(Wanted::No)], Some(143)),
        (vec![Input::Stop], Some(1)),
        (lost.to_vec(), Some(137)),
        // Its keeper killed it.
        (vec![], None),
    ] {
        let mut alone = Alone::running(TERMS);
        for input in inputs {
            alone.tell(input);
            alone.at(1_020);
        }
        alone.tell(Input::Gone { code, at: Mono::at(1_030) });
        assert_eq!(runs(&alone), [(1_010, 1_030, code.unwrap_or(137), true)]);
    }
}

/// Systemd signals all processes of a service at once, unless it is told otherwise.
#[test]
fn a_script_that_ends_right_before_its_guard_is_stopped_did_not_fail() {
    for (stopped, asked) in [(1_100, true), (2_031, false)] {
        let mut alone = Alone::running(TERMS);
        alone.tell(Input::Gone { code: Some(143), at: Mono::at(1_030) });
        assert_eq!(runs(&alone), [(1_010, 1_030, 143, false)]);
        alone.now = stopped;
        alone.tell(Input::Stop);
        assert_eq!(runs(&alone), [(1_010, 1_030, 143, asked)]);
    }
}

/// A user who switches a task on again has mended it: nothing of its earlier failures counts.
#[test]
fn a_new_wish_begins_with_a_fresh_backoff() {
    for (give_up_after, failures) in [(None, 5), (Some(3), 3)] {
        let mut alone = Alone::running(Terms { give_up_after, ..TERMS });
        let mut failed = 0;
        let released = loop {
            let actions = alone.at(alone.now + 1);
            match actions[..] {
                [Action::Renew] => alone.tell(Input::Replied(Reply::Renewed)),
                [Action::Release] => break true,
                _ => {}
            }
            if alone.guard.runs().since.is_some() {
                alone.tell(Input::Gone { code: Some(1), at: Mono::at(alone.now) });
                failed += 1;
                if failed == failures && give_up_after.is_none() {
                    break false;
                }
            }
        };
        alone.tell(Input::Wanted(Wanted::No));
        if !released {
            assert_eq!(alone.at(alone.now), [Action::Release]);
        }
        alone.tell(Input::Replied(Reply::Released));
        assert_eq!(alone.at(alone.now + 10), []);
        alone.tell(Input::Wanted(Wanted::Yes));
        assert_eq!(alone.at(alone.now), [Action::Take], "{give_up_after:?}: at once");
        alone.tell(Input::Replied(Reply::Taken { token: 6 }));
        assert!(matches!(alone.at(alone.now)[..], [Action::Start { .. }]));
        alone.tell(Input::Gone { code: Some(1), at: Mono::at(alone.now) });
        let ended = alone.now;
        assert_eq!(alone.at(ended), []);
        let next = alone.guard.next_wake().unwrap().ms() - ended;
        assert!(next <= 1_501, "{give_up_after:?}: as after a first failure: {next}");
    }
}

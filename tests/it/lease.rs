//! The protocol by which a worker holds a lock, with a real Redis: the contents of the keys, and
//! the notifications.

use crate::support::PATIENCE;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockwatch::commands::demo::PrivateRedis;
use lockwatch::hold::{Acquired, Attempt, Holder, Lock, Lost, Release, Watchdog, Woken};
use redis::aio::MultiplexedConnection;
use redis::{AsyncTypedCommands, FromRedisValue};
use tokio::time::{Instant, sleep, timeout};

use crate::support::skip;

const KEY: &str = "outbound:lock";
const LEASE: Duration = Duration::from_secs(20);

struct Bench {
    redis: PrivateRedis,
    raw: MultiplexedConnection,
}

impl Bench {
    async fn start(test: &str) -> Option<Bench> {
        if !skip::has(test, &["redis-server"]) {
            return None;
        }
        let redis = PrivateRedis::start(None).await.unwrap();
        let raw = redis.access().unwrap().connect().await.unwrap();
        Some(Bench { redis, raw })
    }

    /// Another instance's view of the lock under `key`.
    fn lock(&self, key: &[u8], lease: Duration) -> (Lock, Holder) {
        let holder = Holder::new(&Holder::new_instance(), 1);
        (Lock::new(self.redis.access().unwrap(), key, holder.clone(), lease), holder)
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &str, key: &[u8]) -> T {
        redis::cmd(command).arg(key).query_async(&mut self.raw).await.unwrap()
    }

    async fn deadline(&mut self) -> i64 {
        self.ask("PEXPIRETIME", KEY.as_bytes()).await
    }
}

async fn acquired(lock: &Lock) -> Acquired {
    match lock.acquire().await.unwrap() {
        Attempt::Acquired(acquired) => acquired,
        busy => panic!("{lock:?} is {busy:?}"),
    }
}

#[tokio::test]
async fn a_hold_is_one_field_that_counts_entries_under_a_key_with_the_lease_as_ttl() {
    let Some(mut bench) = Bench::start("lease: layout").await else { return };
    let (lock, holder) = bench.lock(KEY.as_bytes(), LEASE);
    assert_eq!(acquired(&lock).await.entries, 1);
    assert_eq!(
        bench.raw.hgetall(KEY).await.unwrap(),
        [(holder.field().to_owned(), "1".to_owned())].into()
    );
    let ttl: i64 = bench.ask("PTTL", KEY.as_bytes()).await;
    assert!((15_000..=20_000).contains(&ttl), "{ttl}");

    assert_eq!(acquired(&lock).await.entries, 2);
    assert_eq!(
        bench.raw.hgetall(KEY).await.unwrap(),
        [(holder.field().to_owned(), "2".to_owned())].into()
    );
    assert_eq!(lock.release().await.unwrap(), Release::StillHeld { entries: 1 });
    assert_eq!(lock.release().await.unwrap(), Release::Freed);
    assert!(!bench.raw.exists(KEY).await.unwrap());
    assert_eq!(lock.release().await.unwrap(), Release::NotOurs);
    let keys: i64 = redis::cmd("DBSIZE").query_async(&mut bench.raw).await.unwrap();
    assert_eq!(keys, 0, "something is left");
}

/// Redis starts the lease when it receives the request, however long the reply takes.
#[tokio::test]
async fn a_hold_counts_from_before_it_was_asked_for() {
    let Some(mut bench) = Bench::start("lease: slow answer").await else { return };
    let (lock, _) = bench.lock(KEY.as_bytes(), LEASE);
    let pause = Duration::from_millis(500);
    let paused: String =
        redis::cmd("CLIENT").arg("PAUSE").arg(500).query_async(&mut bench.raw).await.unwrap();
    let asked = Instant::now();
    let held = acquired(&lock).await;
    assert_eq!(paused, "OK");
    assert!(asked.elapsed() > pause / 2, "the answer was not late");
    assert!(
        held.held_until < asked + LEASE + pause / 4,
        "{:?} too long",
        held.held_until - asked - LEASE
    );
}

#[tokio::test]
async fn somebody_elses_hold_is_neither_taken_nor_renewed_nor_released() {
    let Some(mut bench) = Bench::start("lease: somebody else's hold").await else { return };
    let (ours, holder) = bench.lock(KEY.as_bytes(), LEASE);
    let (theirs, _) = bench.lock(KEY.as_bytes(), Duration::from_secs(40));
    acquired(&ours).await;
    let deadline = bench.deadline().await;

    let Attempt::Busy { ttl_ms: Some(ttl_ms) } = theirs.acquire().await.unwrap() else {
        panic!("it was taken")
    };
    assert!((15_000..=20_000).contains(&ttl_ms), "{ttl_ms}");
    assert!(!theirs.renew().await.unwrap());
    assert_eq!(theirs.release().await.unwrap(), Release::NotOurs);
    assert_eq!(bench.deadline().await, deadline);
    assert_eq!(
        bench.raw.hgetall(KEY).await.unwrap(),
        [(holder.field().to_owned(), "1".to_owned())].into()
    );

    assert!(bench.raw.persist(KEY).await.unwrap());
    assert_eq!(theirs.acquire().await.unwrap(), Attempt::Busy { ttl_ms: None });
}

#[tokio::test]
async fn a_renewal_starts_the_lease_anew_but_brings_nothing_back() {
    let Some(mut bench) = Bench::start("lease: renewal").await else { return };
    let (lock, _) = bench.lock(KEY.as_bytes(), LEASE);
    acquired(&lock).await;
    assert!(bench.raw.pexpire(KEY, 5_000).await.unwrap());
    assert!(lock.renew().await.unwrap());
    let ttl: i64 = bench.ask("PTTL", KEY.as_bytes()).await;
    assert!(ttl > 15_000, "{ttl}");

    assert!(bench.raw.pexpire(KEY, 1).await.unwrap());
    while bench.raw.exists(KEY).await.unwrap() {
        sleep(Duration::from_millis(1)).await;
    }
    assert!(!lock.renew().await.unwrap());
    assert!(!bench.raw.exists(KEY).await.unwrap());
}

#[tokio::test]
async fn only_the_last_release_wakes_a_waiter_on_redissons_channel() {
    let Some(mut bench) = Bench::start("lease: waiter").await else { return };
    let (lock, _) = bench.lock(KEY.as_bytes(), LEASE);
    let (next, _) = bench.lock(KEY.as_bytes(), LEASE);
    acquired(&lock).await;
    acquired(&lock).await;

    let mut waiter = next.waiter().await.unwrap();
    let channel = "redisson_lock__channel:{outbound:lock}";
    let subscribers = |mut raw: MultiplexedConnection| async move {
        let reply: (String, u64) =
            redis::cmd("PUBSUB").arg("NUMSUB").arg(channel).query_async(&mut raw).await.unwrap();
        reply.1
    };
    assert_eq!(subscribers(bench.raw.clone()).await, 1);
    assert_eq!(lock.release().await.unwrap(), Release::StillHeld { entries: 1 });
    assert_eq!(waiter.released(Duration::from_millis(300)).await.unwrap(), Woken::TimeUp);
    assert_eq!(lock.release().await.unwrap(), Release::Freed);
    assert_eq!(waiter.released(PATIENCE).await.unwrap(), Woken::Released);
    assert_eq!(acquired(&next).await.entries, 1);

    drop(waiter);
    timeout(PATIENCE, async { while subscribers(bench.raw.clone()).await > 0 {} }).await.unwrap();
    assert_eq!(bench.deadline().await.signum(), 1);
}

#[tokio::test]
async fn what_is_published_is_what_redisson_listens_for() {
    let Some(bench) = Bench::start("lease: message").await else { return };
    let client =
        redis::Client::open(format!("redis://{}/?protocol=resp3", bench.redis.address())).unwrap();
    let (sender, mut pushes) = tokio::sync::mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(sender);
    let mut listener = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    listener.psubscribe("*").await.unwrap();
    let (lock, _) = bench.lock(b"{outbound}:lock", LEASE);
    acquired(&lock).await;
    lock.release().await.unwrap();
    let message = timeout(PATIENCE, async {
        loop {
            let push = pushes.recv().await.unwrap();
            if push.kind == redis::PushKind::PMessage {
                return redis::from_redis_value::<(String, String, String)>(redis::Value::Array(
                    push.data,
                ))
                .unwrap();
            }
        }
    });
    let expected =
        ("*".to_owned(), "redisson_lock__channel:{outbound}:lock".to_owned(), "0".to_owned());
    assert_eq!(message.await.unwrap(), expected);
}

#[tokio::test]
async fn a_waiter_gets_the_lock_of_a_dead_holder_when_its_lease_has_run_out() {
    let Some(bench) = Bench::start("lease: dead holder").await else { return };
    let (dead, _) = bench.lock(KEY.as_bytes(), Duration::from_millis(700));
    let (next, _) = bench.lock(KEY.as_bytes(), LEASE);
    let held_until = acquired(&dead).await.held_until;
    let mut waiter = next.waiter().await.unwrap();
    timeout(PATIENCE, async {
        while let Attempt::Busy { ttl_ms } = next.acquire().await.unwrap() {
            let left = Duration::from_millis(ttl_ms.unwrap().max(1));
            assert_eq!(waiter.released(left).await.unwrap(), Woken::TimeUp);
        }
    })
    .await
    .unwrap();
    assert!(Instant::now() >= held_until);
}

#[tokio::test]
async fn a_watchdog_renews_every_third_of_the_lease_until_it_is_stopped() {
    let Some(mut bench) = Bench::start("lease: watchdog").await else { return };
    let (lock, _) = bench.lock(KEY.as_bytes(), Duration::from_millis(1_500));
    let watchdog = Watchdog::start(lock.clone(), acquired(&lock).await);
    let mut deadlines = vec![bench.deadline().await];
    while deadlines.len() < 7 {
        let deadline = bench.deadline().await;
        assert!(deadline > 0, "the lock was lost: {deadlines:?}");
        if deadlines.last() != Some(&deadline) {
            deadlines.push(deadline);
        }
        sleep(Duration::from_millis(10)).await;
    }
    // Three leases have passed. Each renewal came one period after the previous one; a busy machine
    // may add to that.
    for pair in deadlines.windows(2) {
        assert!((495..1_400).contains(&(pair[1] - pair[0])), "{deadlines:?}");
    }
    watchdog.stop().await;
    let last = bench.deadline().await;
    let gone = -2;
    loop {
        match bench.deadline().await {
            deadline if deadline == gone => break,
            deadline => assert_eq!(deadline, last, "it was renewed after the watchdog was stopped"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_watchdog_says_when_the_lock_is_somebody_elses() {
    let Some(mut bench) = Bench::start("lease: lost").await else { return };
    let (lock, _) = bench.lock(KEY.as_bytes(), Duration::from_millis(600));
    let (thief, _) = bench.lock(KEY.as_bytes(), LEASE);
    let mut watchdog = Watchdog::start(lock.clone(), acquired(&lock).await);
    bench.raw.del(KEY).await.unwrap();
    acquired(&thief).await;
    let deadline = bench.deadline().await;
    assert_eq!(timeout(PATIENCE, watchdog.lost()).await.unwrap(), Lost::NotOurs);
    assert_eq!(bench.deadline().await, deadline);
}

#[tokio::test]
async fn a_watchdog_gives_the_hold_up_when_the_server_is_gone_for_a_lease() {
    let Some(bench) = Bench::start("lease: ran out").await else { return };
    let (lock, _) = bench.lock(KEY.as_bytes(), Duration::from_millis(900));
    let acquired = acquired(&lock).await;
    let mut watchdog = Watchdog::start(lock.clone(), acquired);
    let Bench { redis, .. } = bench;
    redis.stop().await;
    let stopped = Instant::now();
    assert_eq!(timeout(PATIENCE, watchdog.lost()).await.unwrap(), Lost::RanOut);
    assert!(Instant::now() >= acquired.held_until);
    assert!(stopped.elapsed() < Duration::from_secs(3), "{:?}", stopped.elapsed());
}

#[tokio::test]
async fn a_lost_connection_does_not_lose_the_lock() {
    let Some(mut bench) = Bench::start("lease: lost connection").await else { return };
    let (lock, _) = bench.lock(KEY.as_bytes(), Duration::from_millis(1_500));
    let mut watchdog = Watchdog::start(lock.clone(), acquired(&lock).await);
    let before = bench.deadline().await;
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes");
    assert!(kill.query_async::<u64>(&mut bench.raw).await.unwrap() > 0);
    let renewed_later = async {
        while bench.deadline().await < before + 1_500 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = renewed_later => {}
        lost = watchdog.lost() => panic!("{lost:?}"),
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_and_stays_as_it_is() {
    let Some(mut bench) = Bench::start("lease: wrong type").await else { return };
    bench.raw.set(KEY, "x").await.unwrap();
    let (lock, _) = bench.lock(KEY.as_bytes(), LEASE);
    for failure in
        [lock.acquire().await.err(), lock.renew().await.err(), lock.release().await.err()]
    {
        assert!(failure.unwrap().to_string().contains("WRONGTYPE"));
    }
    assert_eq!(bench.raw.get(KEY).await.unwrap().as_deref(), Some("x"));
    assert_eq!(bench.deadline().await, -1);
}

#[tokio::test]
async fn a_key_may_be_any_bytes() {
    let Some(mut bench) = Bench::start("lease: any bytes").await else { return };
    for key in [b"\xff\x00\n\"{".as_slice(), b"", b"KEYS[1]')"] {
        let (lock, holder) = bench.lock(key, LEASE);
        acquired(&lock).await;
        assert_eq!(bench.ask::<Vec<String>>("HKEYS", key).await, [holder.field()]);
        assert_eq!(lock.release().await.unwrap(), Release::Freed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_contenders_are_never_inside_together() {
    let Some(bench) = Bench::start("lease: exclusion").await else { return };
    let inside = Arc::new(AtomicU32::new(0));
    let turns = Arc::new(AtomicU32::new(0));
    let mut contenders = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (lock, _) = bench.lock(KEY.as_bytes(), LEASE);
        contenders.spawn(contend(lock, 20, inside.clone(), turns.clone()));
    }
    timeout(Duration::from_secs(15), contenders.join_all()).await.unwrap();
    assert_eq!(turns.load(Ordering::SeqCst), 120);
}

async fn contend(lock: Lock, times: u32, inside: Arc<AtomicU32>, turns: Arc<AtomicU32>) {
    let mut waiter = lock.waiter().await.unwrap();
    for _ in 0..times {
        while let Attempt::Busy { ttl_ms } = lock.acquire().await.unwrap() {
            waiter.released(Duration::from_millis(ttl_ms.unwrap())).await.unwrap();
        }
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
        tokio::task::yield_now().await;
        turns.fetch_add(1, Ordering::SeqCst);
        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
        assert_eq!(lock.release().await.unwrap(), Release::Freed);
    }
}

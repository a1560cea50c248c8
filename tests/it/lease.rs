//! The protocol by which a guard holds a lock, with a real Redis: the contents of the keys,
//! and the notifications.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use lockwatch::commands::demo::PrivateRedis;
use lockwatch::config::Config;
use lockwatch::hold::store::Store;
use lockwatch::hold::{Client, Holder, Trouble};
use lockwatch_guard::{Action, Reply};
use redis::aio::MultiplexedConnection;
use redis::{AsyncTypedCommands, FromRedisValue};
use tokio::time::{sleep, timeout};

use crate::support::{PATIENCE, skip};

const KEY: &str = "outbound:lock";
const TOKEN: &str = "redisson_lock_token:{outbound:lock}";
const LEASE_MS: u64 = 20_000;

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
        let raw = redis.connect().await.unwrap();
        Some(Bench { redis, raw })
    }

    /// Another instance's client for the lock under `key`.
    fn client(&self, key: &[u8], lease_ms: u64) -> (Client, Holder) {
        let text = format!(
            "redis: {{main: {{url: \"redis://{}\"}}}}\n\
             tasks: [{{name: outbound, lock: {{key: \"{KEY}\"}}, wanted: always}}]\n",
            self.redis.address()
        );
        let redis = Config::parse(&text, Path::new("lockwatch.yml")).unwrap().redises.remove(0);
        let login = redis.login.clone();
        let holder = Holder::new(&Holder::new_instance(), 1);
        let store = Store::new(redis, login, PATIENCE);
        (Client::new(store, key.to_vec(), holder.clone(), lease_ms, false), holder)
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &str, key: &[u8]) -> T {
        redis::cmd(command).arg(key).query_async(&mut self.raw).await.unwrap()
    }

    async fn deadline(&mut self) -> i64 {
        self.ask("PEXPIRETIME", KEY.as_bytes()).await
    }

    async fn holders(&mut self) -> Vec<(String, String)> {
        self.raw.hgetall(KEY).await.unwrap().into_iter().collect()
    }
}

async fn ask(client: &mut Client, request: Action) -> Reply {
    match client.carry_out(request).await {
        (reply, None) => reply,
        (_, Some(trouble)) => panic!("{request:?}: {trouble}"),
    }
}

#[tokio::test]
async fn a_hold_is_one_field_under_a_key_with_the_lease_as_ttl_however_often_it_is_taken() {
    let Some(mut bench) = Bench::start("lease: layout").await else { return };
    let (mut client, holder) = bench.client(KEY.as_bytes(), LEASE_MS);
    let one = vec![(holder.field().to_owned(), "1".to_owned())];
    for token in [1, 2] {
        assert_eq!(ask(&mut client, Action::Take).await, Reply::Taken { token });
        assert_eq!(bench.holders().await, one);
        let ttl: i64 = bench.ask("PTTL", KEY.as_bytes()).await;
        assert!((15_000..=20_000).contains(&ttl), "{ttl}");
    }
    assert_eq!(ask(&mut client, Action::Look).await, Reply::Held);
    assert_eq!(ask(&mut client, Action::Release).await, Reply::Released);
    assert!(!bench.raw.exists(KEY).await.unwrap());
    assert_eq!(ask(&mut client, Action::Release).await, Reply::NotOurs);
    assert_eq!(ask(&mut client, Action::Look).await, Reply::NotOurs);
    // The counter of the tokens stays, as that of an RFencedLock does.
    let keys: Vec<String> = bench.ask("KEYS", b"*").await;
    assert_eq!((keys, bench.raw.get(TOKEN).await.unwrap()), (vec![TOKEN.into()], Some("2".into())));
}

#[tokio::test]
async fn somebody_elses_hold_is_neither_taken_nor_renewed_nor_released() {
    let Some(mut bench) = Bench::start("lease: somebody else's hold").await else { return };
    let (mut ours, holder) = bench.client(KEY.as_bytes(), LEASE_MS);
    let (mut theirs, _) = bench.client(KEY.as_bytes(), 2 * LEASE_MS);
    assert_eq!(ask(&mut ours, Action::Take).await, Reply::Taken { token: 1 });
    let deadline = bench.deadline().await;

    let Reply::Busy { left_ms: Some(left_ms) } = ask(&mut theirs, Action::Take).await else {
        panic!("it was taken")
    };
    assert!((15_000..=20_000).contains(&left_ms), "{left_ms}");
    for request in [Action::Renew, Action::Release, Action::Look] {
        assert_eq!(ask(&mut theirs, request).await, Reply::NotOurs, "{request:?}");
    }
    assert_eq!(bench.deadline().await, deadline);
    assert_eq!(bench.holders().await, [(holder.field().to_owned(), "1".to_owned())]);
    assert_eq!(bench.raw.get(TOKEN).await.unwrap().as_deref(), Some("1"));

    assert!(bench.raw.persist(KEY).await.unwrap());
    assert_eq!(ask(&mut theirs, Action::Take).await, Reply::Busy { left_ms: None });
}

#[tokio::test]
async fn a_renewal_starts_the_lease_anew_but_brings_nothing_back() {
    let Some(mut bench) = Bench::start("lease: renewal").await else { return };
    let (mut client, _) = bench.client(KEY.as_bytes(), LEASE_MS);
    ask(&mut client, Action::Take).await;
    assert!(bench.raw.pexpire(KEY, 5_000).await.unwrap());
    assert_eq!(ask(&mut client, Action::Renew).await, Reply::Renewed);
    let ttl: i64 = bench.ask("PTTL", KEY.as_bytes()).await;
    assert!(ttl > 15_000, "{ttl}");

    assert!(bench.raw.pexpire(KEY, 1).await.unwrap());
    while bench.raw.exists(KEY).await.unwrap() {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(ask(&mut client, Action::Renew).await, Reply::NotOurs);
    assert!(!bench.raw.exists(KEY).await.unwrap());
}

/// A client that saw a token goes on above it, whatever became of the counter.
#[tokio::test]
async fn a_counter_that_was_lost_goes_on_above_what_is_known() {
    let Some(mut bench) = Bench::start("lease: lost counter").await else { return };
    let (mut one, _) = bench.client(KEY.as_bytes(), LEASE_MS);
    let (mut other, _) = bench.client(KEY.as_bytes(), LEASE_MS);
    bench.raw.set(TOKEN, 41).await.unwrap();
    assert_eq!(ask(&mut one, Action::Take).await, Reply::Taken { token: 42 });
    // It learns the token although it does not get the lock.
    assert!(matches!(ask(&mut other, Action::Take).await, Reply::Busy { .. }));
    for token in [43, 44] {
        redis::cmd("FLUSHALL").exec_async(&mut bench.raw).await.unwrap();
        assert_eq!(ask(&mut other, Action::Take).await, Reply::Taken { token });
        assert_eq!(bench.raw.get(TOKEN).await.unwrap(), Some(token.to_string()));
    }
}

#[tokio::test]
async fn a_release_is_published_as_waiters_expect_it_and_nothing_else() {
    let Some(bench) = Bench::start("lease: message").await else { return };
    let client =
        redis::Client::open(format!("redis://{}/?protocol=resp3", bench.redis.address())).unwrap();
    let (sender, mut pushes) = tokio::sync::mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(sender);
    let mut listener = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    listener.psubscribe("*").await.unwrap();
    let (mut client, _) = bench.client(b"{outbound}:lock", LEASE_MS);
    // Only a release is reported.
    for request in [Action::Take, Action::Renew, Action::Look, Action::Release, Action::Release] {
        ask(&mut client, request).await;
    }
    bench.raw.clone().publish("end", "of it").await.unwrap();
    let mut next = async || loop {
        let push = pushes.recv().await.unwrap();
        if push.kind == redis::PushKind::PMessage {
            let message = redis::Value::Array(push.data);
            return redis::from_redis_value::<(String, String, String)>(message).unwrap();
        }
    };
    let said = |channel: &str, text: &str| ("*".to_owned(), channel.to_owned(), text.to_owned());
    let expected = [said("redisson_lock__channel:{outbound}:lock", "0"), said("end", "of it")];
    for message in expected {
        assert_eq!(timeout(PATIENCE, next()).await.unwrap(), message);
    }
}

#[tokio::test]
async fn a_lost_connection_is_replaced_and_does_not_lose_the_lock() {
    let Some(mut bench) = Bench::start("lease: lost connection").await else { return };
    let (mut client, _) = bench.client(KEY.as_bytes(), LEASE_MS);
    ask(&mut client, Action::Take).await;
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes");
    assert!(kill.query_async::<u64>(&mut bench.raw).await.unwrap() > 0);
    let (reply, trouble) = client.carry_out(Action::Renew).await;
    assert!(reply == Reply::Failed && matches!(trouble, Some(Trouble::Unanswered(_))), "{reply:?}");
    assert_eq!(ask(&mut client, Action::Renew).await, Reply::Renewed);
}

#[tokio::test]
async fn a_key_of_another_type_is_refused_and_stays_as_it_is() {
    let Some(mut bench) = Bench::start("lease: wrong type").await else { return };
    bench.raw.set(KEY, "x").await.unwrap();
    let (mut client, _) = bench.client(KEY.as_bytes(), LEASE_MS);
    let (reply, trouble) = client.carry_out(Action::Take).await;
    let said = trouble.unwrap().to_string();
    assert!(reply == Reply::Failed && said.contains(KEY) && said.contains("string"), "{said}");
    // Where something else is, nobody holds a lock.
    for request in [Action::Renew, Action::Look, Action::Release] {
        assert_eq!(ask(&mut client, request).await, Reply::NotOurs, "{request:?}");
    }
    assert_eq!(bench.raw.get(KEY).await.unwrap().as_deref(), Some("x"));
    assert_eq!(bench.deadline().await, -1);
}

#[tokio::test]
async fn a_key_may_be_any_bytes() {
    let Some(mut bench) = Bench::start("lease: any bytes").await else { return };
    for key in [b"\xff\x00\n\"{".as_slice(), b"", b"KEYS[1]')"] {
        let (mut client, holder) = bench.client(key, LEASE_MS);
        assert_eq!(ask(&mut client, Action::Take).await, Reply::Taken { token: 1 });
        assert_eq!(bench.ask::<Vec<String>>("HKEYS", key).await, [holder.field()]);
        assert_eq!(ask(&mut client, Action::Release).await, Reply::Released);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_contenders_are_never_inside_together_and_each_has_a_higher_token() {
    let Some(bench) = Bench::start("lease: exclusion").await else { return };
    let (inside, newest) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
    let mut contenders = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (client, _) = bench.client(KEY.as_bytes(), LEASE_MS);
        contenders.spawn(contend(client, 20, inside.clone(), newest.clone()));
    }
    timeout(PATIENCE, contenders.join_all()).await.unwrap();
    assert_eq!(newest.load(Ordering::SeqCst), 120);
}

async fn contend(mut client: Client, times: u32, inside: Arc<AtomicU32>, newest: Arc<AtomicU64>) {
    for _ in 0..times {
        let taken = loop {
            match ask(&mut client, Action::Take).await {
                Reply::Taken { token } => break token,
                _ => sleep(Duration::from_millis(1)).await,
            }
        };
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
        tokio::task::yield_now().await;
        assert!(newest.swap(taken, Ordering::SeqCst) < taken, "the token did not grow");
        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
        assert_eq!(ask(&mut client, Action::Release).await, Reply::Released);
    }
}

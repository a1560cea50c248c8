//! A worker that holds a lock in Redisson's layout, and believes so whatever happens to the
//! servers.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult, cmd};

/// Reply timeout: a frozen server must not keep the worker from ending.
const ANSWER: Duration = Duration::from_millis(300);
/// Polling period for pending work.
const LOOK: Duration = Duration::from_millis(10);
/// Redisson renews three times per lease.
const RENEWALS: u32 = 3;
const TAKE: &str = "if redis.call('exists', KEYS[1]) == 0 then redis.call('hset', KEYS[1], \
    ARGV[1], 1) \
                    redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end return 0";
const RENEW: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then return \
    redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
const RELEASE: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then return \
    redis.call('del', KEYS[1]) end return 0";

/// A connection to a server of the tests.
pub(super) fn connect(port: u16) -> RedisResult<Connection> {
    let connection =
        redis::Client::open(("127.0.0.1", port))?.get_connection_with_timeout(ANSWER)?;
    connection.set_read_timeout(Some(ANSWER))?;
    Ok(connection)
}

/// Holds a lock and renews it. Dropping it simulates a crash: the lease runs out.
pub(super) struct Worker {
    shared: Arc<Shared>,
    renewing: Option<JoinHandle<()>>,
}

struct Shared {
    /// Port of the server that it considers the master.
    port: AtomicU16,
    lock: String,
    holder: &'static str,
    lease: Duration,
    ended: AtomicBool,
    renewed: Mutex<Instant>,
}

impl Shared {
    fn run(&self, connection: &mut Connection, script: &str) -> RedisResult<i64> {
        run(connection, script, &self.lock, self.holder, self.lease)
    }
}

fn run(
    connection: &mut Connection,
    script: &str,
    lock: &str,
    holder: &str,
    lease: Duration,
) -> RedisResult<i64> {
    let lease_ms = u64::try_from(lease.as_millis()).unwrap();
    cmd("EVAL").arg(script).arg(1).arg(lock).arg(holder).arg(lease_ms).query(connection)
}

/// Requests the lock from a frozen server, which executes that when it thaws, long after its client
/// gave up.
pub(super) fn ask_in_vain(mut connection: Connection, lock: &str, holder: &str, lease: Duration) {
    assert!(run(&mut connection, TAKE, lock, holder, lease).is_err(), "a frozen server answers");
}

/// Releases a lock that a frozen server granted late.
pub(super) fn give_back(port: u16, lock: &str, holder: &str) {
    let mut connection = connect(port).unwrap();
    assert_eq!(
        run(&mut connection, RELEASE, lock, holder, Duration::ZERO),
        Ok(1),
        "{holder} had the lock"
    );
}

impl Worker {
    /// Waits until the lock is free on the server at `port`, and takes it.
    pub(super) fn take(port: u16, lock: &str, holder: &'static str, lease: Duration) -> Worker {
        let shared = Arc::new(Shared {
            port: AtomicU16::new(port),
            lock: lock.to_owned(),
            holder,
            lease,
            ended: AtomicBool::new(false),
            renewed: Mutex::new(Instant::now()),
        });
        crate::support::wait_until(
            Duration::from_secs(60),
            &format!("{holder} gets the lock"),
            || connect(port).and_then(|mut connection| shared.run(&mut connection, TAKE)) == Ok(1),
        );
        *shared.renewed.lock().unwrap() = Instant::now();
        let renewing = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || renew(&shared)
        });
        Worker { shared, renewing: Some(renewing) }
    }

    /// Switches to another master.
    pub(super) fn follow(&self, port: u16) {
        self.shared.port.store(port, Ordering::SeqCst);
    }

    /// When it last took or renewed the lock.
    pub(super) fn renewed(&self) -> Instant {
        *self.shared.renewed.lock().unwrap()
    }

    /// Releases the lock and ends.
    pub(super) fn release(mut self) {
        self.end();
        let mut connection = connect(self.shared.port.load(Ordering::SeqCst)).unwrap();
        assert_eq!(
            self.shared.run(&mut connection, RELEASE),
            Ok(1),
            "{} had the lock",
            self.shared.holder
        );
    }

    fn end(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        if let Some(renewing) = self.renewing.take() {
            renewing.join().unwrap();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

fn renew(shared: &Shared) {
    let mut open: Option<(u16, Connection)> = None;
    while !shared.ended.load(Ordering::SeqCst) {
        std::thread::sleep(LOOK);
        let renewed = *shared.renewed.lock().unwrap();
        if renewed.elapsed() < shared.lease / RENEWALS {
            continue;
        }
        let port = shared.port.load(Ordering::SeqCst);
        let connected = open
            .take()
            .filter(|(at, _)| *at == port)
            .map_or_else(|| connect(port), |(_, open)| Ok(open));
        let Ok(mut connection) = connected else { continue };
        if shared.run(&mut connection, RENEW) == Ok(1) {
            *shared.renewed.lock().unwrap() = Instant::now();
            open = Some((port, connection));
        }
    }
}

//! Locks and switches as libraries write them, made with plain commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use redis::{Connection, cmd};

/// A Redisson client and its thread.
pub(crate) const HOLDER: &str = "6f9a3c1e-8a52-4f5c-9f2e-0d3b7a1c5e42:57";
/// Another one.
pub(crate) const OTHER: &str = "0b1d5c7e-2f4a-4c6e-8a1b-9d8e7f6a5b4c:12";

/// A connection with all rights.
pub(crate) fn connect(port: u16) -> Connection {
    redis::Client::open(("127.0.0.1", port)).unwrap().get_connection().unwrap()
}

/// Takes a lock as Redisson does, for ten minutes.
pub(crate) fn take(connection: &mut Connection, key: &[u8], holder: &[u8]) {
    take_for(connection, key, holder, Duration::from_secs(600));
}

/// The same for `lease`, in one step.
pub(crate) fn take_for(connection: &mut Connection, key: &[u8], holder: &[u8], lease: Duration) {
    let lease_ms = u64::try_from(lease.as_millis()).unwrap();
    let mut pipeline = redis::pipe();
    pipeline.atomic().cmd("DEL").arg(key).cmd("HSET").arg(key).arg(holder).arg(1);
    pipeline.cmd("PEXPIRE").arg(key).arg(lease_ms).exec(connection).unwrap();
}

pub(crate) fn release(connection: &mut Connection, key: &str) {
    cmd("DEL").arg(key).exec(connection).unwrap();
}

/// Writes the switches of `users` (`name`, `value`) to a hash.
pub(crate) fn switch(connection: &mut Connection, key: &str, users: &[(&str, &str)]) {
    cmd("HSET").arg(key).arg(users).exec(connection).unwrap();
}

/// Renews a lock until it is dropped.
pub(crate) struct Watchdog {
    stop: Arc<AtomicBool>,
    renewing: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Takes the lock and renews it as often as Redisson: three times per lease.
    pub(crate) fn start(
        port: u16,
        key: &'static str,
        holder: &'static str,
        lease: Duration,
    ) -> Watchdog {
        let stop = Arc::new(AtomicBool::new(false));
        let mut connection = connect(port);
        take_for(&mut connection, key.as_bytes(), holder.as_bytes(), lease);
        let renewing = std::thread::spawn({
            let stop = Arc::clone(&stop);
            let lease_ms = u64::try_from(lease.as_millis()).unwrap();
            move || {
                let period = lease / 3;
                while !stop.load(Ordering::SeqCst) {
                    std::thread::park_timeout(period);
                    if !stop.load(Ordering::SeqCst) {
                        cmd("PEXPIRE").arg(key).arg(lease_ms).exec(&mut connection).unwrap();
                    }
                }
            }
        });
        Watchdog { stop, renewing: Some(renewing) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(renewing) = self.renewing.take() {
            renewing.thread().unpark();
            let _failed = renewing.join();
        }
    }
}

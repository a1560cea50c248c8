//! Resolves names to addresses. The system's resolver may hang and cannot be cancelled. So each
//! name is looked up by one thread at a time, however often it is dialled, and an answer that is
//! too late for one dial serves the next. Where the first of two name servers is dead, every answer
//! takes five seconds.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::Failure;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::blocking;
use crate::config::HostPort;

/// How long an answer that came too late for its dial stays valid: longer than the longest pause
/// between two dials.
const GOOD_FOR: Duration = Duration::from_secs(10);

/// The addresses of `at`. A lookup that takes longer than `limit` continues for the next call.
pub(super) async fn resolve(at: &HostPort, limit: Duration) -> Result<Vec<SocketAddr>, Failure> {
    static RESOLVER: Resolver = Resolver(Mutex::new(BTreeMap::new()));
    if let Ok(address) = at.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, at.port)]);
    }
    let found = timeout(
        limit,
        RESOLVER.find(&at.host, |host| (host, 0).to_socket_addrs().map(Vec::from_iter)),
    )
    .await;
    let found = found.map_err(|_| {
        Failure::new(Unknown::Dns, format_args!("{}: no answer within {limit:?}", at.host))
    })?;
    let mut addresses =
        found.map_err(|error| Failure::new(Unknown::Dns, format_args!("{}: {error}", at.host)))?;
    addresses.iter_mut().for_each(|address| address.set_port(at.port));
    Ok(addresses)
}

/// The addresses of a name, or why they are unknown.
type Found = Result<Vec<SocketAddr>, String>;

/// A lookup: `None` until it has ended, then when it ended and its result.
type Lookup = watch::Receiver<Option<(Instant, Found)>>;

/// The lookups in flight, and those whose result was not used yet.
#[derive(Debug, Default)]
struct Resolver(Mutex<BTreeMap<Arc<str>, Lookup>>);

impl Resolver {
    /// What `look_up` finds for `host`. Joins a lookup that is in flight, or uses one that ended
    /// after its caller gave up.
    async fn find(&self, host: &str, look_up: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Found {
        let mut lookup = self.join(host, look_up).map_err(|error| error.to_string())?;
        let ended = lookup.wait_for(Option::is_some).await.map(|ended| ended.clone());
        let mut lookups = self.lookups();
        if lookups.get(host).is_some_and(|newest| newest.same_channel(&lookup)) {
            lookups.remove(host);
        }
        ended
            .ok()
            .flatten()
            .map_or_else(|| Err(String::from("the lookup was cut short")), |(_, found)| found)
    }

    fn join(
        &self,
        host: &str,
        look_up: fn(&str) -> io::Result<Vec<SocketAddr>>,
    ) -> io::Result<Lookup> {
        let mut lookups = self.lookups();
        lookups.retain(|_, lookup| match &*lookup.borrow() {
            Some((at, found)) => found.is_ok() && at.elapsed() < GOOD_FOR,
            None => true,
        });
        if let Some(lookup) = lookups.get(host) {
            return Ok(lookup.clone());
        }
        let host: Arc<str> = host.into();
        let (sender, lookup) = watch::channel(None);
        let name = Arc::clone(&host);
        blocking::start(move || {
            let found = look_up(&name).map_err(|error| error.to_string());
            sender.send_replace(Some((Instant::now(), found)));
        })?;
        lookups.insert(host, lookup.clone());
        Ok(lookup)
    }

    fn lookups(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Lookup>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::sleep;

    use super::*;

    /// Longer than a dial waits, in these tests.
    const SLOW: Duration = Duration::from_millis(300);
    const IMPATIENT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_slow_lookup_is_not_begun_twice_and_serves_a_later_dial() {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        fn slow(_: &str) -> io::Result<Vec<SocketAddr>> {
            sleep(SLOW);
            Ok(vec![SocketAddr::from((
                [127, 0, 0, 1],
                u16::try_from(BEGUN.fetch_add(1, Ordering::SeqCst)).unwrap(),
            ))])
        }
        let resolver = Resolver::default();
        for _ in 0..3 {
            assert!(timeout(IMPATIENT, resolver.find("main", slow)).await.is_err());
        }
        tokio::time::sleep(SLOW).await;
        let found = timeout(IMPATIENT, resolver.find("main", slow)).await.unwrap();
        assert_eq!((found.map(|found| found[0].port()), BEGUN.load(Ordering::SeqCst)), (Ok(0), 1));
        // An answer that was used once may be outdated by the next dial.
        assert!(timeout(IMPATIENT, resolver.find("main", slow)).await.is_err());
        assert_eq!(resolver.find("main", slow).await.map(|found| found[0].port()), Ok(1));
        assert_eq!(resolver.lookups().len(), 0);
    }

    #[tokio::test]
    async fn a_late_refusal_is_asked_for_again() {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        fn slowly_refused(_: &str) -> io::Result<Vec<SocketAddr>> {
            if BEGUN.fetch_add(1, Ordering::SeqCst) == 0 {
                sleep(SLOW);
            }
            Err(io::Error::other("no such name"))
        }
        let resolver = Resolver::default();
        assert!(timeout(IMPATIENT, resolver.find("main", slowly_refused)).await.is_err());
        tokio::time::sleep(2 * SLOW).await;
        assert_eq!(resolver.find("main", slowly_refused).await, Err(String::from("no such name")));
        assert_eq!(BEGUN.load(Ordering::SeqCst), 2);
    }
}

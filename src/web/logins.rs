//! The check of passwords. A check with bcrypt is slow on purpose, so what it may take is bounded:
//! one at a time, a few in line for each address, and none for a login that was good before.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::ring;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, Semaphore};

use crate::blocking;
use crate::config::Secret;

/// How many good logins are remembered.
const GOOD_MAX: usize = 256;
/// How many different logins may be in line.
const LINE_MAX: usize = 64;
/// How many different ones of one address and a share of the user names.
const LINE_MAX_OF_ONE: usize = 2;
/// Into how many shares the user names are divided, so that somebody who guesses the password of
/// one user rarely keeps others of the same address from logging in.
const SHARES: u8 = 8;

/// A digest of user, hash and password with a key of this process: nothing of it tells the
/// password. A login with another hash is another one, so a new version of the file forgets none.
type Digest = [u8; 32];

/// The checks of passwords.
pub struct Logins {
    key: Digest,
    good: Mutex<VecDeque<Digest>>,
    line: Mutex<HashMap<Digest, Waiting>>,
    one: Arc<Semaphore>,
    checks: AtomicU64,
}

struct Waiting {
    whose: (IpAddr, u8),
    /// How many requests wait for it.
    requests: usize,
    good: Arc<OnceCell<bool>>,
}

/// What a client sent to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Vec<u8>,
    password: Vec<u8>,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// This user has logged in.
    Granted(String),
    /// User or password are wrong.
    Denied,
    /// Too many logins are being checked.
    Busy,
}

impl Credentials {
    /// What a header `Authorization` says, if it is of the kind `Basic`.
    pub fn of(header: &[u8]) -> Option<Credentials> {
        let (kind, rest) = header.split_at_checked(6)?;
        if !kind.eq_ignore_ascii_case(b"basic ") {
            return None;
        }
        let decoded = STANDARD.decode(rest.trim_ascii()).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let (user, password) = decoded.split_at(colon);
        Some(Credentials { user: user.to_vec(), password: password.get(1..)?.to_vec() })
    }
}

/// Neither of them is shown: somebody may have typed the password as the name.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins").field("checks", &self.checks()).finish_non_exhaustive()
    }
}

impl Default for Logins {
    fn default() -> Logins {
        Logins::new()
    }
}

impl Logins {
    /// No login is remembered.
    pub fn new() -> Logins {
        let mut key = Digest::default();
        // Without random numbers the digests would be plain ones, which still tell no password.
        if ring::default_provider().secure_random.fill(&mut key).is_err() {
            tracing::error!("the system has no random numbers");
        }
        Logins {
            key,
            good: Mutex::default(),
            line: Mutex::default(),
            one: Arc::new(Semaphore::new(1)),
            checks: AtomicU64::new(0),
        }
    }

    /// How many passwords were checked with bcrypt.
    pub fn checks(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }

    /// Whether these credentials, sent from `peer`, are those of one of `users`.
    pub async fn check(
        &self,
        users: &BTreeMap<String, Secret>,
        credentials: &Credentials,
        peer: IpAddr,
    ) -> Access {
        let name = std::str::from_utf8(&credentials.user).ok();
        let known = name.and_then(|name| users.get_key_value(name));
        // Whoever is unknown is checked against the hash of somebody, so that it takes as long.
        // Which one depends on the name, as it does for users that exist.
        let somebody = || {
            let nth = self.digest(&[&credentials.user])[1];
            users.values().nth(usize::from(nth) % users.len().max(1))
        };
        let Some(hash) = known.map(|(_, hash)| hash).or_else(somebody) else {
            return Access::Denied;
        };
        let parts = [&credentials.user, hash.expose().as_bytes(), &credentials.password];
        let digest = self.digest(&parts);
        let granted = |good| match known {
            Some((name, _)) if good => Access::Granted(name.clone()),
            _ => Access::Denied,
        };
        if lock(&self.good).contains(&digest) {
            return granted(true);
        }
        let share = self.digest(&[&credentials.user])[0] % SHARES;
        let Some(place) = self.wait(digest, (peer, share)) else { return Access::Busy };
        let cell = Arc::clone(&place.good);
        let good = *cell.get_or_init(|| self.run(hash, &credentials.password)).await;
        if good && known.is_some() {
            self.remember(digest);
        }
        granted(good)
    }

    /// A place in line; the same login shares one.
    fn wait(&self, digest: Digest, whose: (IpAddr, u8)) -> Option<Place<'_>> {
        let mut line = lock(&self.line);
        let of_one = line.values().filter(|waiting| waiting.whose == whose).count();
        if !line.contains_key(&digest) && (line.len() >= LINE_MAX || of_one >= LINE_MAX_OF_ONE) {
            return None;
        }
        let waiting = line.entry(digest).or_insert_with(|| Waiting {
            whose,
            requests: 0,
            good: Arc::new(OnceCell::new()),
        });
        waiting.requests += 1;
        Some(Place { logins: self, digest, good: Arc::clone(&waiting.good) })
    }

    /// Runs bcrypt when it is this one's turn.
    async fn run(&self, hash: &Secret, password: &[u8]) -> bool {
        let Ok(turn) = Arc::clone(&self.one).acquire_owned().await else { return false };
        self.checks.fetch_add(1, Ordering::Relaxed);
        let (hash, password) = (hash.clone(), password.to_vec());
        let checked = blocking::run(move || {
            let good = bcrypt::verify(&password, hash.expose()).unwrap_or(false);
            // Whoever asked may have gone, and the next one still waits until this has ended.
            drop(turn);
            good
        });
        checked.await.unwrap_or(false)
    }

    fn remember(&self, digest: Digest) {
        let mut good = lock(&self.good);
        if !good.contains(&digest) {
            good.push_back(digest);
        }
        if good.len() > GOOD_MAX {
            good.pop_front();
        }
    }

    fn digest(&self, parts: &[&[u8]]) -> Digest {
        let mut digest = Sha256::new_with_prefix(self.key);
        for part in parts {
            // With their lengths, so that no two lists look the same.
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

/// A place in line, given back when nobody waits there any more.
struct Place<'a> {
    logins: &'a Logins,
    digest: Digest,
    good: Arc<OnceCell<bool>>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut waiting) = lock(&self.logins.line).entry(self.digest) {
            waiting.get_mut().requests -= 1;
            if waiting.get().requests == 0 {
                waiting.remove();
            }
        }
    }
}

/// Each critical section leaves consistent data, even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

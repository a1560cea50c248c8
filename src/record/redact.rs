//! Removes secrets from recorded inputs: each is replaced by a digest, because the state only
//! compares secrets for equality.
//!
//! The digests are salted with a random number that exists only in the memory of this process;
//! otherwise short secrets, such as thread numbers and counters, could be found by brute force. The
//! same secret has the same digest in all files of one run. Its digest differs in the next run, in
//! the web pages and in the log.

use lockwatch_judge::input::{Attestation, Fork, Generation};
use lockwatch_judge::reading::{
    Beside, ClaimsReading, GuardReading, GuardRuns, Held, Holder, HostsReading, Left, LockReading,
    Member, Overrun, ProgressReading, ProgressValue, Queue, QueueReading, RunsReading, Switch,
    SwitchesReading, TaskReading,
};
use lockwatch_judge::spec::Claimants;
use sha2::{Digest, Sha256};

/// Length of a digest in bytes. Two secrets of one run collide once in 10¹⁹ pairs.
const DIGEST_BYTES: usize = 8;

/// The kind of a secret. Equal bytes of different kinds have different digests.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A holder's token, and the ids of instances in claims and hosts, which are compared with each
    /// other.
    Instance = 1,
    Thread,
    Claim,
    Progress,
    Switch,
    Run,
    History,
}

/// Replaces secrets.
#[derive(Debug)]
pub(crate) struct Redactor {
    salt: [u8; 32],
}

impl Redactor {
    pub(crate) fn new(salt: [u8; 32]) -> Redactor {
        Redactor { salt }
    }

    /// A digest of `secret`. Empty stays empty, because the state treats that as a case of its own.
    fn digest(&self, kind: Kind, secret: &[u8]) -> Vec<u8> {
        if secret.is_empty() {
            return Vec::new();
        }
        let mut hash = Sha256::new();
        hash.update(self.salt);
        hash.update([kind as u8]);
        hash.update(secret);
        let mut hex = hex::encode(hash.finalize());
        hex.truncate(2 * DIGEST_BYTES);
        hex.into_bytes()
    }

    /// The digest of a thread, as a decimal number.
    fn number(&self, thread: &[u8]) -> Vec<u8> {
        let digits = self.digest(Kind::Thread, thread);
        let number = std::str::from_utf8(&digits)
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number.unwrap_or_default().to_string().into_bytes()
    }

    /// Redacts a reading. `claimants`: how the holders of the task's lock name themselves.
    pub(crate) fn reading(&self, reading: &TaskReading, claimants: Claimants) -> TaskReading {
        let TaskReading { guard, beside } = reading;
        let guard = match guard {
            GuardReading::Lock { lock, extras } => {
                GuardReading::Lock { lock: self.lock(lock), extras: *extras }
            }
            // The names of tasks are in the configuration.
            GuardReading::Turn(turn) => GuardReading::Turn(turn.clone()),
            GuardReading::Queue(queue) => GuardReading::Queue(self.queue(queue)),
        };
        TaskReading { guard, beside: self.beside(beside, claimants) }
    }

    /// Ids of members stay: they are no secrets, and name locks.
    fn queue(&self, queue: &QueueReading) -> QueueReading {
        let QueueReading::Read(queue) = queue else { return queue.clone() };
        let member = |member: &Member| Member {
            lock: member.lock.as_ref().map(|lock| self.lock(lock)),
            ..member.clone()
        };
        let left = |left: &Left| Left { lock: self.lock(&left.lock), ..left.clone() };
        QueueReading::Read(Queue {
            first: queue.first.iter().map(member).collect(),
            left: queue.left.iter().map(left).collect(),
            ..*queue
        })
    }

    pub(crate) fn beside(&self, beside: &Beside, claimants: Claimants) -> Beside {
        let Beside { switches, progress, claims, overruns, runs, hosts, pause } = beside;
        let overrun = |overrun: &Overrun| Overrun {
            instance: self.instance(&overrun.instance, claimants),
            ..overrun.clone()
        };
        let of_guard = |runs: &GuardRuns| GuardRuns {
            instance: self.instance(&runs.instance, claimants),
            ..runs.clone()
        };
        Beside {
            switches: switches.as_ref().map(|switches| self.switches(switches)),
            progress: progress.as_ref().map(|progress| self.progress(progress)),
            claims: claims.as_ref().map(|claims| self.claims(claims, claimants)),
            overruns: overruns.iter().map(overrun).collect(),
            runs: RunsReading { guards: runs.guards.iter().map(of_guard).collect(), ..*runs },
            hosts: hosts.as_ref().map(|hosts| self.hosts(hosts, claimants)),
            pause: *pause,
        }
    }

    fn lock(&self, lock: &LockReading) -> LockReading {
        match lock {
            LockReading::Held(held) => LockReading::from(Held {
                mode: held.mode,
                // Their order is compared too, so it is kept.
                holders: held.holders.iter().map(|holder| self.holder(holder)).collect(),
                ghosts: held.ghosts,
                deadline: held.deadline,
            }),
            LockReading::Free => LockReading::Free,
            LockReading::Unknown(why) => LockReading::Unknown(*why),
        }
    }

    /// Redacts a holder. The result holds no secret, so it may be displayed unchanged.
    fn holder(&self, holder: &Holder) -> Holder {
        let Holder { client, thread, entries, secret } = holder;
        Holder {
            client: if *secret { self.digest(Kind::Instance, client) } else { client.clone() },
            thread: thread.as_deref().map(|thread| self.digest(Kind::Thread, thread)),
            entries: *entries,
            secret: false,
        }
    }

    /// Redacts only values outside the codec and the closed lists: those could be anything.
    fn switches(&self, switches: &SwitchesReading) -> SwitchesReading {
        let SwitchesReading::Read { switches, key_exists, counted, whole, ends } = switches else {
            return switches.clone();
        };
        let redacted = |(user, switch): &(Vec<u8>, Switch)| {
            let switch = match switch {
                Switch::On => Switch::On,
                Switch::Off => Switch::Off,
                Switch::Undecodable { value, fits } => {
                    Switch::Undecodable { value: self.digest(Kind::Switch, value), fits: *fits }
                }
            };
            (user.clone(), switch)
        };
        SwitchesReading::Read {
            switches: switches.iter().map(redacted).collect(),
            key_exists: *key_exists,
            counted: *counted,
            whole: *whole,
            ends: ends.clone(),
        }
    }

    fn progress(&self, progress: &ProgressReading) -> ProgressReading {
        match progress {
            ProgressReading::Value(value) => {
                let bytes = self.digest(Kind::Progress, &value.bytes);
                ProgressReading::Value(ProgressValue { bytes, ..*value })
            }
            ProgressReading::Absent => ProgressReading::Absent,
            ProgressReading::Unknown(why) => ProgressReading::Unknown(*why),
        }
    }

    fn claims(&self, claims: &ClaimsReading, claimants: Claimants) -> ClaimsReading {
        match claims {
            ClaimsReading::Read(claims) => ClaimsReading::Read(
                claims
                    .iter()
                    .map(|(id, value)| {
                        (self.instance(id, claimants), self.digest(Kind::Claim, value))
                    })
                    .collect(),
            ),
            ClaimsReading::Unknown(why) => ClaimsReading::Unknown(*why),
        }
    }

    fn hosts(&self, hosts: &HostsReading, claimants: Claimants) -> HostsReading {
        let hosts = hosts.as_ref().map_err(|why| *why)?;
        Ok(hosts.iter().map(|(id, host)| (self.instance(id, claimants), host.clone())).collect())
    }

    /// Redacts the id of an instance in claims and hosts as the lock's holder is redacted.
    fn instance(&self, id: &[u8], claimants: Claimants) -> Vec<u8> {
        match claimants {
            Claimants::Threads => match claimants.holder(id) {
                // The id has the lock's form, including the thread that could release it. The
                // replacement keeps that form, so that a reader finds the same client in it.
                Holder { client, thread: Some(thread), .. } => {
                    [client, self.number(&thread)].join(&b':')
                }
                Holder { thread: None, .. } => id.to_vec(),
            },
            Claimants::Named => self.holder(&claimants.holder(id)).client,
            Claimants::Secret => self.digest(Kind::Instance, id),
        }
    }

    pub(crate) fn attestation(&self, attestation: &Attestation) -> Attestation {
        Attestation {
            generation: attestation
                .generation
                .as_ref()
                .map(|generation| self.generation(generation)),
            ..attestation.clone()
        }
    }

    /// Replaces run ids and replication ids: a client that knows one can pose as a replica.
    fn generation(&self, generation: &Generation) -> Generation {
        let Generation {
            process: run_id,
            history: replication_id,
            forked_from,
            flushes,
            slot_flushes,
            evictions,
            evicts_only_with_ttl,
            started_empty,
        } = generation;
        let fork = |Fork { history: replication_id, offset }: &Fork| Fork {
            history: self.digest(Kind::History, replication_id),
            offset: *offset,
        };
        Generation {
            process: self.digest(Kind::Run, run_id),
            history: self.digest(Kind::History, replication_id),
            forked_from: forked_from.as_ref().map(fork),
            flushes: *flushes,
            slot_flushes: *slot_flushes,
            evictions: *evictions,
            evicts_only_with_ttl: *evicts_only_with_ttl,
            started_empty: *started_empty,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_judge::reading::{Deadline, Mode};

    fn redactor() -> Redactor {
        Redactor::new([7; 32])
    }

    fn held(client: &[u8], thread: Option<&[u8]>, secret: bool) -> LockReading {
        let holders = vec![Holder {
            client: client.to_vec(),
            thread: thread.map(<[u8]>::to_vec),
            entries: Some(1),
            secret,
        }];
        LockReading::from(Held {
            mode: Mode::Exclusive,
            holders,
            ghosts: 0,
            deadline: Deadline::Never,
        })
    }

    fn holder(lock: LockReading) -> Holder {
        let LockReading::Held(held) = lock else { panic!("held") };
        held.holders.first().unwrap().clone()
    }

    #[test]
    fn a_token_its_claim_and_its_host_stay_equal() {
        let redactor = redactor();
        let token = holder(redactor.lock(&held(b"token", None, true))).client;
        assert_ne!(token, b"token");
        let stated = vec![(b"token".to_vec(), b"1".to_vec())];
        let ClaimsReading::Read(claims) =
            redactor.claims(&ClaimsReading::Read(stated.clone()), Claimants::Secret)
        else {
            panic!("read");
        };
        assert_eq!(claims[0].0, token);
        assert_eq!(
            redactor.hosts(&Ok(stated.clone()), Claimants::Secret),
            Ok(vec![(token, b"1".to_vec())])
        );
    }

    #[test]
    fn redissons_client_id_stays_and_its_thread_does_not() {
        let redactor = redactor();
        let shown = holder(redactor.lock(&held(b"id", Some(b"31"), false)));
        assert_eq!((shown.client.as_slice(), shown.secret), (b"id".as_slice(), false));
        assert_ne!(shown.thread.as_deref(), Some(b"31".as_slice()));
        let again = holder(redactor.lock(&held(b"id", Some(b"31"), false)));
        let other = holder(redactor.lock(&held(b"id", Some(b"32"), false)));
        assert_eq!(shown, again);
        assert_ne!(shown, other);
        let stated = vec![(b"id".to_vec(), b"1".to_vec())];
        assert_eq!(redactor.hosts(&Ok(stated.clone()), Claimants::Threads), Ok(stated));
    }

    #[test]
    fn equal_stays_equal_only_within_a_kind_and_a_run() {
        let redactor = redactor();
        assert_eq!(redactor.digest(Kind::Claim, b"x"), redactor.digest(Kind::Claim, b"x"));
        assert_ne!(redactor.digest(Kind::Claim, b"x"), redactor.digest(Kind::Progress, b"x"));
        assert_ne!(
            redactor.digest(Kind::Claim, b"x"),
            Redactor::new([8; 32]).digest(Kind::Claim, b"x")
        );
        assert_eq!(
            redactor.digest(Kind::Progress, b""),
            b"",
            "an empty value is like none, to the state"
        );
    }

    #[test]
    fn histories_stay_comparable_with_where_they_fork() {
        let generation = |id: &[u8], fork: &[u8]| Generation {
            process: b"run".to_vec(),
            history: id.to_vec(),
            forked_from: Some(Fork { history: fork.to_vec(), offset: 5 }),
            ..Generation::default()
        };
        let redactor = redactor();
        let (old, new) = (
            redactor.generation(&generation(b"a", b"0")),
            redactor.generation(&generation(b"b", b"a")),
        );
        assert_eq!(new.forked_from.unwrap().history, old.history);
        assert_eq!(redactor.generation(&Generation::default()), Generation::default());
    }
}

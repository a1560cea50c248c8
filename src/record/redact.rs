//! Removes secrets from recorded inputs: each is replaced by a digest, because the state only
//! compares secrets for equality.
//!
//! The digests are salted with a random number that exists only in the memory of this process;
//! otherwise short secrets, such as thread numbers and counters, could be found by brute force. The
//! same secret has the same digest in all files of one run. Its digest differs in the next run, in
//! the web pages and in the log.

use std::sync::Arc;

use lockwatch_judge::input::{Attestation, Generation, Input, Outcome};
use lockwatch_judge::reading::{
    ClaimsReading, GuardReading, Holder, LockReading, Parts, ProgressReading, QueueReading, Switch,
    SwitchesReading, TaskReading,
};
use lockwatch_judge::spec::{Claimants, TaskIndex, WatchSpec};
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

    /// Redacts an input. `config` is in force, and names the tasks in it.
    pub(crate) fn input(&self, input: &mut Input, config: &WatchSpec) {
        let Input::Sample(sample) = input else { return };
        let claimants = |task: TaskIndex| {
            config
                .tasks
                .get(task.0 as usize)
                .map_or(Claimants::Secret, |task| task.kind.claimants())
        };
        match &mut sample.outcome {
            Outcome::Read { attestation, readings } => {
                self.attestation(attestation);
                for (task, TaskReading { guard, parts }) in readings {
                    self.guard(guard);
                    self.parts(parts, claimants(*task));
                }
            }
            Outcome::Parts { attestation, readings } => {
                attestation.iter_mut().for_each(|attestation| self.attestation(attestation));
                for (task, parts) in readings {
                    self.parts(parts, claimants(*task));
                }
            }
            Outcome::Failed { .. } => {}
        }
    }

    /// Names of tasks whose turn it is, and ids of members, stay: the former are in the
    /// configuration, the latter name locks.
    fn guard(&self, guard: &mut GuardReading) {
        match guard {
            GuardReading::Lock { lock, extras: _ } => self.lock(lock),
            GuardReading::Queue(QueueReading::Read(queue)) => {
                let members = queue.first.iter_mut().filter_map(|member| member.lock.as_mut());
                let left = queue.left.iter_mut().map(|left| &mut left.lock);
                members.chain(left).for_each(|lock| self.lock(lock));
            }
            GuardReading::Turn(_) | GuardReading::Queue(QueueReading::Unknown(_)) => {}
        }
    }

    fn parts(&self, parts: &mut Parts, claimants: Claimants) {
        let Parts { switches, progress, claims, overruns, runs, hosts, pause: _ } = parts;
        if let Some(SwitchesReading::Read { switches, .. }) = switches {
            // Only values outside the codec and the closed lists: those could be anything.
            for (_, switch) in switches {
                if let Switch::Undecodable { value, fits: _ } = switch {
                    *value = self.digest(Kind::Switch, value);
                }
            }
        }
        if let Some(ProgressReading::Value(value)) = progress {
            value.bytes = self.digest(Kind::Progress, &value.bytes);
        }
        if let Some(ClaimsReading::Read(claims)) = claims {
            for (id, value) in claims {
                *id = self.instance(id, claimants);
                *value = self.digest(Kind::Claim, value);
            }
        }
        let hosts = hosts.iter_mut().flatten().flatten().map(|(id, _)| id);
        let overruns = overruns.iter_mut().map(|overrun| &mut overrun.instance);
        let guards = runs.guards.iter_mut().map(|guard| &mut guard.instance);
        for id in hosts.chain(overruns).chain(guards) {
            *id = self.instance(id, claimants);
        }
    }

    /// The order of holders is compared too, so it is kept.
    fn lock(&self, lock: &mut LockReading) {
        if let LockReading::Held(held) = lock {
            Arc::make_mut(held).holders.iter_mut().for_each(|holder| self.holder(holder));
        }
    }

    /// Redacts a holder. The result holds no secret, so it may be displayed unchanged.
    fn holder(&self, holder: &mut Holder) {
        let Holder { client, thread, entries: _, secret } = holder;
        if std::mem::take(secret) {
            *client = self.digest(Kind::Instance, client);
        }
        if let Some(thread) = thread {
            *thread = self.digest(Kind::Thread, thread);
        }
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
            Claimants::Named => {
                let mut holder = claimants.holder(id);
                self.holder(&mut holder);
                holder.client
            }
            Claimants::Secret => self.digest(Kind::Instance, id),
        }
    }

    /// Replaces run ids and replication ids: a client that knows one can pose as a replica.
    fn attestation(&self, attestation: &mut Attestation) {
        let Some(generation) = &mut attestation.generation else { return };
        let Generation {
            process,
            history,
            forked_from,
            flushes: _,
            slot_flushes: _,
            evictions: _,
            evicts_only_with_ttl: _,
            started_empty: _,
        } = generation;
        *process = self.digest(Kind::Run, process);
        for history in [history].into_iter().chain(forked_from.iter_mut().map(|it| &mut it.history))
        {
            *history = self.digest(Kind::History, history);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_judge::input::Fork;
    use lockwatch_judge::reading::{Deadline, Held, Mode};
    use lockwatch_judge::time::ServerTime;

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

    fn redacted(client: &[u8], thread: Option<&[u8]>, secret: bool) -> Holder {
        let mut lock = held(client, thread, secret);
        redactor().lock(&mut lock);
        let LockReading::Held(held) = lock else { panic!("held") };
        held.holders.first().unwrap().clone()
    }

    fn parts(claims: &[(Vec<u8>, Vec<u8>)], claimants: Claimants) -> Parts {
        let mut parts = Parts {
            claims: Some(ClaimsReading::Read(claims.to_vec())),
            hosts: Some(Ok(claims.to_vec())),
            ..Parts::default()
        };
        redactor().parts(&mut parts, claimants);
        parts
    }

    #[test]
    fn a_token_its_claim_and_its_host_stay_equal() {
        let token = redacted(b"token", None, true).client;
        assert_ne!(token, b"token");
        let parts = parts(&[(b"token".to_vec(), b"1".to_vec())], Claimants::Secret);
        let Some(ClaimsReading::Read(claims)) = parts.claims else { panic!("read") };
        assert_eq!(claims[0].0, token);
        assert_ne!(claims[0].1, b"1");
        assert_eq!(parts.hosts, Some(Ok(vec![(token, b"1".to_vec())])));
    }

    #[test]
    fn redissons_client_id_stays_and_its_thread_does_not() {
        let shown = redacted(b"id", Some(b"31"), false);
        assert_eq!((shown.client.as_slice(), shown.secret), (b"id".as_slice(), false));
        assert_ne!(shown.thread.as_deref(), Some(b"31".as_slice()));
        assert_eq!(shown, redacted(b"id", Some(b"31"), false));
        assert_ne!(shown, redacted(b"id", Some(b"32"), false));
        let stated = vec![(b"id".to_vec(), b"1".to_vec())];
        assert_eq!(parts(&stated, Claimants::Threads).hosts, Some(Ok(stated)));
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
        let redacted = |generation: Generation| {
            let mut attestation = Attestation::master(ServerTime::at(0), ServerTime::at(0));
            attestation.generation = Some(generation);
            redactor().attestation(&mut attestation);
            attestation.generation.unwrap()
        };
        let generation = |id: &[u8], fork: &[u8]| Generation {
            process: b"run".to_vec(),
            history: id.to_vec(),
            forked_from: Some(Fork { history: fork.to_vec(), offset: 5 }),
            ..Generation::default()
        };
        let (old, new) = (redacted(generation(b"a", b"0")), redacted(generation(b"b", b"a")));
        assert_eq!(new.forked_from.unwrap().history, old.history);
        assert!(old.history != b"a" && old.process != b"run");
        assert_eq!(redacted(Generation::default()), Generation::default());
    }
}

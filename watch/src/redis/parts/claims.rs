//! The workers' own statements that they run the task: a hash with a field per instance.

use alloc::vec::Vec;

use super::Part;
use super::fingerprint::fingerprint;
use crate::redis::ask::{Ask, Class};
use crate::redis::libraries;
use crate::redis::replies::{Replies, scan_hash, scanned_pairs};
use lockwatch_judge::reading::{Beside, ClaimsReading, Unknown};
use lockwatch_judge::spec::TaskSpec;

pub(super) struct Claims;

impl Part for Claims {
    fn asks(&self, spec: &TaskSpec, out: &mut Vec<Ask>) {
        out.extend(spec.claims.as_ref().map(|claims| scan_hash(Class::Claims, &claims.key)));
    }

    fn decode(&self, spec: &TaskSpec, replies: &mut Replies<'_>, into: &mut Beside) -> Option<Ask> {
        spec.claims.as_ref()?;
        let library = libraries::of(&spec.lock().library);
        into.claims = Some(match scanned_pairs(replies.next()) {
            Ok(pairs) => {
                let claim = |(id, value)| (library.instance(id), fingerprint(value));
                let mut claims: Vec<_> = pairs.into_iter().map(claim).collect();
                claims.sort_unstable();
                claims.dedup_by(|a, b| a.0 == b.0);
                ClaimsReading::Read(claims)
            }
            Err(why) => ClaimsReading::Unknown(why),
        });
        None
    }

    fn unreadable(&self, why: Unknown, into: &mut Beside) {
        into.claims = Some(ClaimsReading::Unknown(why));
    }
}

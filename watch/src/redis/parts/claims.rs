//! The workers' own statements that they run the task: a hash with a field per instance.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::fingerprint::fingerprint;
use super::part::Part;
use super::runs;
use crate::redis::accept::Caps;
use crate::redis::ask::{Ask, Class};
use crate::redis::libraries;
use crate::redis::replies::{Replies, scan_hash, scanned_pairs};
use lockwatch_judge::reading::{ClaimsReading, Overrun, Parts, Unknown};
use lockwatch_judge::spec::TaskSpec;

/// How a guard says instead of a claim that its script ran on after its lease may have ended.
pub fn overrun_claim(token: u64, ms: u64) -> String {
    format!("{OVERRUN} token={token} ms={ms}")
}

/// What [`overrun_claim`] says.
fn overrun(value: &[u8]) -> Option<(u64, u64)> {
    let words = core::str::from_utf8(value).ok()?.strip_prefix(OVERRUN)?.strip_prefix(" token=")?;
    let (token, ms) = words.split_once(" ms=")?;
    Some((token.parse().ok()?, ms.parse().ok()?))
}

const OVERRUN: &str = "overrun";

pub(super) struct Claims;

impl Part for Claims {
    fn asks(&self, spec: &TaskSpec, _caps: Caps, out: &mut Vec<Ask>) {
        out.extend(spec.claims.as_ref().map(|claims| scan_hash(Class::Claims, &claims.key)));
    }

    fn decode(
        &self,
        spec: &TaskSpec,
        _caps: Caps,
        replies: &mut Replies<'_>,
        into: &mut Parts,
    ) -> Option<Ask> {
        spec.claims.as_ref()?;
        let library = libraries::of_task(spec);
        into.claims = Some(match scanned_pairs(replies.next()) {
            Ok(pairs) => {
                let mut claims = Vec::new();
                for (id, value) in pairs {
                    if let Some(of) = runs::instance(id) {
                        match runs::read(library.instance(of), value) {
                            Some(runs) => into.runs.guards.push(runs),
                            None => into.runs.unreadable += 1,
                        }
                        continue;
                    }
                    let instance = library.instance(id);
                    match overrun(value) {
                        Some((token, ms)) => into.overruns.push(Overrun { instance, token, ms }),
                        None => claims.push((instance, fingerprint(value))),
                    }
                }
                into.overruns.sort_unstable();
                into.runs.guards.sort_unstable();
                claims.sort_unstable();
                claims.dedup_by(|a, b| a.0 == b.0);
                ClaimsReading::Read(claims)
            }
            Err(why) => ClaimsReading::Unknown(why),
        });
        None
    }

    fn unreadable(&self, why: Unknown, into: &mut Parts) {
        into.claims = Some(ClaimsReading::Unknown(why));
    }
}

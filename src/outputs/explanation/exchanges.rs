//! The commands and replies of a trace in the form of the API, or why there are none.

use super::seen::{Seen, not_known, server, span};
use super::trace::{PATIENCE_MAX, patience};
use super::{ExchangeShown, TraceShown};
use crate::text::identity::escape;
use crate::text::instants::seconds;
use crate::trace::Exchange;

/// The trace in the form of the API.
pub(super) fn shown(seen: Seen<'_>) -> TraceShown {
    TraceShown {
        waited_seconds: seconds(u64::try_from(seen.trace.waited.as_millis()).unwrap_or(u64::MAX)),
        nothing_because: seen.trace.exchanges.is_empty().then(|| why_nothing(seen)),
        exchanges: seen
            .trace
            .exchanges
            .iter()
            .map(|exchange| exchange_shown(exchange, seen))
            .collect(),
    }
}

fn why_nothing(seen: Seen<'_>) -> String {
    let newest = format!("The last good reading was {}.", seen.newest());
    if seen.trace.refused {
        return format!("Too many tasks are being explained at this moment; ask again. {newest}");
    }
    let redis = seen.redis();
    match (seen.view.unknown.or_else(|| redis?.unknown), redis) {
        (Some(why), _) => {
            format!(
                "The store could not be read: {}. {} {newest}",
                why.name(),
                lockwatch_watch::remedy(why)
            )
        }
        (None, Some(redis)) if patience(Some(redis)) == PATIENCE_MAX => format!(
            "It was not due: this store is read every {}, and an explanation waits for {} at \
             most. {newest}",
            span(redis.spec.interval_ms),
            span(u64::try_from(PATIENCE_MAX.as_millis()).unwrap_or(u64::MAX)),
        ),
        (None, _) => format!("It was not read meanwhile. {newest}"),
    }
}

fn exchange_shown(exchange: &Exchange, seen: Seen<'_>) -> ExchangeShown {
    let worth = exchange.outcome.as_ref().ok();
    let says = worth.and_then(|worth| worth.attested);
    ExchangeShown {
        node: escape(exchange.node.as_bytes()).into_owned(),
        asked: exchange.asked.name().to_owned(),
        round: exchange.round,
        age_seconds: seen.age_seconds(exchange.sent),
        took_seconds: seconds(exchange.took_ms),
        commands: exchange.said.clone(),
        role: says.map(|says| {
            let attested =
                if says.role_verified { "" } else { ", which the configuration attests" };
            format!("{}{attested}", says.role.name())
        }),
        server_time: says.map(|says| server(says.clock)),
        refused: exchange.outcome.as_ref().err().map(|why| not_known(*why, seen.view.words(*why))),
        reading: worth.and_then(|worth| worth.reading.clone()),
    }
}

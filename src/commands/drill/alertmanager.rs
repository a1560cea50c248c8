//! What the Alertmanagers show of the drill: whether they have it, what holds it back, and whether
//! a notification was delivered.

use std::collections::{BTreeMap, BTreeSet};

use super::hop::{Step, listed};
use super::looks::Looks;
use super::prometheus::Drilled;
use crate::chain::config::{AlertmanagerConfig, RouteConfig};
use crate::chain::{
    AlertGroup, Alertmanagers, Labels, ReceivedAlert, Sent, Silence, Trouble, without_api_path,
};

/// What is counted of each kind of integration, and each receiver where it is counted by these.
pub(super) type Counted = BTreeMap<(String, String), Sent>;

/// What one Alertmanager answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AlertmanagerLook {
    /// Its alerts, in the groups in which it notifies them.
    pub(super) groups: Vec<AlertGroup>,
    /// What it has counted; `None`: that cannot be read.
    pub(super) counted: Option<Counted>,
    /// The silences of the drill.
    pub(super) silences: Vec<Silence>,
}

/// One Alertmanager: what is known of it, and what it answered last.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Where.
    pub(super) url: String,
    /// Its configuration, if it can be read.
    pub(super) config: Option<AlertmanagerConfig>,
    /// What it had counted before the alert was there; `None`: that cannot be read.
    pub(super) before: Option<Counted>,
    /// What it had counted when the `group_wait` of the alert's routes was over.
    pub(super) waited: Option<Counted>,
    /// When that was.
    pub(super) opened_ms: u64,
    /// Until when what repeats often is not repeated: it was notified just before the drill.
    pub(super) quiet_ms: u64,
    /// When the alert can have arrived at the earliest; `None`: it was not seen yet.
    pub(super) arrived_ms: Option<u64>,
    /// When the longest `group_wait` of its routes can be over at the earliest.
    pub(super) due_ms: u64,
    /// How long it takes to answer.
    pub(super) looks: Looks,
    /// When the last two looks without the alert ended.
    pub(super) without_ms: [u64; 2],
    /// What it answered last; `None`: nothing.
    pub(super) look: Option<AlertmanagerLook>,
    /// Why it does not answer, if so.
    pub(super) trouble: Option<Trouble>,
}

impl Known {
    /// Takes in what it answers. What was counted before the alert was there is of other alerts; so
    /// is what was counted within the shortest `group_wait` of its routes, unless its group is
    /// older.
    pub(super) fn take(&mut self, drilled: &Drilled, at_ms: u64, look: AlertmanagerLook) {
        self.looks.answered(at_ms);
        let waits: Vec<u64> = look
            .found(drilled)
            .flat_map(|(group, alert)| routes_of(self.config.as_ref(), group, alert))
            .map(|route| route.group_wait_ms)
            .collect();
        if look.found(drilled).next().is_none() {
            let [_, last] = self.without_ms;
            self.without_ms = [last, at_ms];
        } else if self.arrived_ms.is_none() {
            // It may have arrived while the last look without it was on its way.
            let [earliest, _] = self.without_ms;
            self.arrived_ms = Some(earliest);
            self.due_ms = earliest + waits.iter().max().unwrap_or(&0);
        }
        let wait_ms = waits.iter().min().copied().unwrap_or(0);
        if self.before.is_some() && look.counted.is_some() {
            match self.arrived_ms {
                None => (self.before, self.opened_ms) = (look.counted.clone(), at_ms),
                Some(arrived) if at_ms < arrived + wait_ms => {
                    (self.waited, self.opened_ms) = (look.counted.clone(), at_ms);
                }
                Some(_) => {}
            }
        }
        (self.look, self.trouble) = (Some(look), None);
    }

    /// What it had counted when it could notify the drill.
    fn waited(&self) -> Option<&Counted> {
        self.waited.as_ref().or(self.before.as_ref())
    }
}

/// A group of the drill: where, and the alert in it.
type Found<'a> = (&'a Known, &'a AlertGroup, &'a ReceivedAlert);

impl AlertmanagerLook {
    /// The drill's alert, once for each receiver.
    pub(super) fn found<'a>(
        &'a self,
        drilled: &'a Drilled,
    ) -> impl Iterator<Item = (&'a AlertGroup, &'a ReceivedAlert)> {
        let in_group = |group: &'a AlertGroup| group.alerts.iter().map(move |alert| (group, alert));
        let all = self.groups.iter().flat_map(in_group);
        all.filter(|(_, alert)| drilled.is_alert(&alert.labels))
    }

    fn alert_of(&self, fingerprint: &str) -> Option<&ReceivedAlert> {
        let mut alerts = self.groups.iter().flat_map(|group| &group.alerts);
        alerts.find(|alert| alert.fingerprint == fingerprint)
    }
}

fn found<'a>(drilled: &'a Drilled, all: &'a [Known]) -> Vec<Found<'a>> {
    let of = |known: &'a Known| {
        let found = known.look.iter().flat_map(|look| look.found(drilled));
        found.map(move |(group, alert)| (known, group, alert))
    };
    all.iter().flat_map(of).collect()
}

/// Whether any of them has it. `notified`: whom Prometheus notifies, if it says so. `refused`: who
/// did not take alerts from Prometheus since the drill began.
pub(super) fn arrived(
    drilled: &Drilled,
    all: &[Known],
    notified: Option<&Alertmanagers>,
    refused: &[String],
    late: bool,
) -> Step {
    let found = found(drilled, all);
    if let Some(step) = held_back(&found) {
        return step;
    }
    if !found.is_empty() {
        return Step::Passed(listed(found.iter().map(|(known, ..)| &known.url)));
    }
    if let Some(alert) = altered(drilled, all) {
        let labels = alert.labels.iter().map(|(name, value)| format!("{name}={value:?}"));
        return Step::failed(
            format!("Prometheus changes its labels on the way: {}", listed(labels)),
            "see `alert_relabel_configs` in `alerting` of Prometheus: alertname and drill must \
             stay",
        );
    }
    match notified {
        Some(notified) if notified.active_alertmanagers.is_empty() => {
            return no_alertmanager(notified);
        }
        // None took it: that is certain.
        Some(notified)
            if notified.active_alertmanagers.iter().all(|it| refused.contains(&it.url)) => {}
        _ if !late => return Step::Wait,
        _ => {}
    }
    if let [Some(first), ..] = &all.iter().map(|known| &known.trouble).collect::<Vec<_>>()[..]
        && all.iter().all(|known| known.look.is_none())
    {
        let troubles = all.iter().filter_map(|known| known.trouble.as_ref());
        return Step::failed(listed(troubles.map(|it| &it.saw)), first.remedy.clone());
    }
    if !refused.is_empty() {
        return Step::failed(
            format!(
                "Prometheus could not deliver alerts to {}",
                listed(refused.iter().map(|url| without_api_path(url)))
            ),
            "see that it runs, and that `alerting` in Prometheus' configuration has the address at \
             which Prometheus reaches it; Prometheus' log has the error",
        );
    }
    let asked: BTreeSet<&str> = all.iter().map(|known| known.url.trim_end_matches('/')).collect();
    let notifies = notified.iter().flat_map(|it| &it.active_alertmanagers);
    let notifies: BTreeSet<&str> = notifies.map(|it| without_api_path(&it.url)).collect();
    let elsewhere = match notifies.is_disjoint(&asked) && !notifies.is_empty() {
        true => format!("; Prometheus notifies {}, perhaps another one", listed(&notifies)),
        false => String::new(),
    };
    Step::failed(
        format!("it fires in Prometheus, and {} does not have it{elsewhere}", listed(asked)),
        "see `alert_relabel_configs` in `alerting` of Prometheus, which must not drop it, whether \
         --alertmanager.url is the one that Prometheus notifies, and whether their clocks agree",
    )
}

/// The drill under other labels: Prometheus leaves texts alone.
fn altered<'a>(drilled: &Drilled, all: &'a [Known]) -> Option<&'a ReceivedAlert> {
    let groups = all.iter().filter_map(|known| known.look.as_ref()).flat_map(|look| &look.groups);
    let is_drill = |alert: &&ReceivedAlert| {
        let text = alert.annotations.get("summary").map_or("", String::as_str);
        text.starts_with("Drill:")
            && text.contains(drilled.task())
            && alert.labels.get("drill").is_none_or(|drill| drill == drilled.task())
    };
    groups.flat_map(|group| &group.alerts).find(is_drill)
}

/// Prometheus notifies nobody.
pub(super) fn no_alertmanager(notified: &Alertmanagers) -> Step {
    let dropped = notified.dropped_alertmanagers.iter().map(|it| without_api_path(&it.url));
    match notified.dropped_alertmanagers.is_empty() {
        true => Step::failed(
            "Prometheus knows no Alertmanager",
            "name it in `alerting: {alertmanagers: …}` of Prometheus' configuration",
        ),
        false => Step::failed(
            format!("Prometheus drops every Alertmanager that it finds: {}", listed(dropped)),
            "see `relabel_configs` of `alerting: {alertmanagers: …}` in its configuration",
        ),
    }
}

/// Whether nothing holds it back, and somebody is notified.
pub(super) fn received(drilled: &Drilled, all: &[Known], late: bool) -> Step {
    let found = found(drilled, all);
    if let Some(step) = gone(&found, all) {
        return step;
    }
    if found.iter().all(|(_, _, alert)| alert.status.state == "unprocessed") && !late {
        return Step::Wait;
    }
    let receivers: BTreeSet<&str> =
        found.iter().map(|(_, group, _)| &*group.receiver.name).collect();
    let kinds: BTreeMap<&str, Option<Vec<&str>>> =
        receivers.iter().map(|name| (*name, kinds(all, name))).collect();
    if kinds.values().all(|kinds| kinds.as_ref().is_some_and(Vec::is_empty)) {
        return Step::failed(
            format!("its route leads to {}, which has no integration", listed(receivers)),
            "give that receiver an integration, or correct the route (`amtool config routes test` \
             shows which one an alert takes)",
        );
    }
    Step::Passed(listed(kinds.iter().map(|(name, kinds)| match kinds {
        Some(kinds) if kinds.is_empty() => format!("{name} (no integration)"),
        Some(kinds) => format!("{name} ({})", kinds.join(", ")),
        None => (*name).to_owned(),
    })))
}

/// It was there, and has ended before it was notified.
fn gone(found: &[Found<'_>], all: &[Known]) -> Option<Step> {
    let has_look = all.iter().any(|known| known.look.is_some());
    (found.is_empty() && has_look).then(|| {
        Step::failed(
            "its alert is no longer in Alertmanager",
            "see whether Prometheus still runs, and whether the clocks of both agree",
        )
    })
}

/// The kinds of a receiver's integrations, each as often as it has one; `None` if its configuration
/// cannot be read.
fn kinds<'a>(all: &'a [Known], receiver: &str) -> Option<Vec<&'a str>> {
    let mut configs = all.iter().filter_map(|known| known.config.as_ref());
    let receiver = configs.find_map(|config| config.receiver(receiver))?;
    Some(receiver.integrations.iter().map(|integration| &*integration.kind).collect())
}

/// What holds it back, for all receivers alike.
fn held_back(found: &[Found<'_>]) -> Option<Step> {
    let (known, _, alert) = found.first()?;
    let look = known.look.as_ref()?;
    if let Some(id) = alert.status.silenced_by.first() {
        return Some(silenced(id, look));
    }
    if let Some(fingerprint) = alert.status.inhibited_by.first() {
        let by = look.alert_of(fingerprint).map(|by| shown_alert(&by.labels));
        return Some(Step::failed(
            format!("inhibited: muted by {}", by.unwrap_or_else(|| format!("alert {fingerprint}"))),
            "an alert with these labels would not arrive while that one fires: if it should, see \
             `inhibit_rules` of Alertmanager; to drill all the same, wait until that one ends",
        ));
    }
    None
}

/// Time intervals that mute all groups of it. Not every version says so, and some only afterwards.
fn muted(found: &[Found<'_>]) -> Option<Step> {
    let muted = found.iter().map(|(_, _, alert)| alert.status.muted_by.as_deref());
    let muted: Vec<&[String]> = muted.map(Option::unwrap_or_default).collect();
    let is_muted = !muted.is_empty() && muted.iter().all(|by| !by.is_empty());
    is_muted.then(|| {
        Step::failed(
            format!("muted now by the time intervals {}", listed(muted.concat())),
            "drill at another time, or see `mute_time_intervals` and `active_time_intervals` of \
             its route: it would wake nobody now",
        )
    })
}

fn silenced(id: &str, look: &AlertmanagerLook) -> Step {
    let silence = look.silences.iter().find(|silence| silence.id == id);
    let words = silence.map(|silence| {
        format!(" of {} until {}: {:?}", silence.created_by, silence.ends_at, silence.comment)
    });
    Step::failed(
        format!("silenced by {id}{}", words.unwrap_or_default()),
        format!("`amtool silence expire {id}` ends it; a real alert would be silent, too"),
    )
}

/// An alert by its name and those of its labels that say which one it is.
pub(super) fn shown_alert(labels: &crate::chain::Labels) -> String {
    let name = labels.get("alertname").map_or("an alert", String::as_str);
    let more = labels.iter().filter(|(label, _)| *label != "alertname");
    let more: Vec<_> = more.map(|(label, value)| format!("{label}={value:?}")).collect();
    format!("{name}{{{}}}", more.join(", "))
}

/// Which routes led to the receivers of the drill.
pub(super) fn routes<'a>(
    drilled: &'a Drilled,
    all: &'a [Known],
) -> impl Iterator<Item = &'a RouteConfig> {
    let found = found(drilled, all).into_iter();
    found.flat_map(|(known, group, alert)| routes_of(known.config.as_ref(), group, alert))
}

/// Which routes led an alert to the receiver of its group.
fn routes_of<'a>(
    config: Option<&'a AlertmanagerConfig>,
    group: &AlertGroup,
    alert: &ReceivedAlert,
) -> Vec<&'a RouteConfig> {
    let value = |name: &str| alert.labels.get(name).map_or("", String::as_str);
    let routes = config.iter().flat_map(|config| &config.routes);
    let named = routes.filter(|route| route.receiver == group.receiver.name);
    named.filter(|route| route.may_take(value)).collect()
}

/// Alerts that were in its group before, so that it waits for `group_interval`.
pub(super) fn joined(drilled: &Drilled, all: &[Known]) -> Option<String> {
    let found = found(drilled, all);
    let others = found.iter().flat_map(|(_, group, _)| &group.alerts);
    let other = others.into_iter().find(|alert| !drilled.is_alert(&alert.labels))?;
    Some(shown_alert(&other.labels))
}

/// Within this time nothing else is notified, except what repeats often.
const SHORT_MS: u64 = 10_000;

/// What one kind of integration did since before the drill, in all Alertmanagers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Since {
    /// How many requests must succeed: one of each integration.
    needed: f64,
    begun: f64,
    answered: f64,
    requests_failed: f64,
    given_up: f64,
}

/// Whether a notification was delivered.
pub(super) fn notified(drilled: &Drilled, all: &[Known], at_ms: u64, late: bool) -> Step {
    let found = found(drilled, all);
    let step = gone(&found, all).or_else(|| held_back(&found)).or_else(|| muted(&found));
    if let Some(step) = step {
        return step;
    }
    let receivers: BTreeSet<&str> =
        found.iter().map(|(_, group, _)| &*group.receiver.name).collect();
    let mut needed: BTreeMap<&str, f64> = BTreeMap::new();
    for receiver in &receivers {
        let Some(kinds) = kinds(all, receiver) else {
            return unseen(late, "Alertmanager's configuration cannot be read");
        };
        kinds.into_iter().for_each(|kind| *needed.entry(kind).or_default() += 1.0);
    }
    let readable = all.iter().filter(|known| {
        known.before.is_some() && known.look.as_ref().is_some_and(|look| look.counted.is_some())
    });
    let readable: Vec<&Known> = readable.collect();
    if readable.is_empty() {
        return unseen(late, "its counters (/metrics) cannot be read");
    }
    let since = needed.iter().map(|(kind, needed)| {
        (*kind, Since { needed: *needed, ..of_kind(&readable, kind, &receivers, Known::waited) })
    });
    let since: BTreeMap<&str, Since> = since.collect();
    // A notification ends with the first request that succeeds; so none is in flight or failed.
    let is_sent = |since: &Since| since.begun >= since.needed && since.answered >= since.begun;
    let is_due = readable.iter().all(|known| at_ms >= known.due_ms);
    if is_due && !since.is_empty() && since.values().all(is_sent) {
        // In a short time only what repeats often comes between.
        let is_long = readable.iter().any(|it| at_ms > it.opened_ms + SHORT_MS);
        let is_quiet = readable.iter().all(|it| at_ms <= it.quiet_ms);
        let counts =
            |all: &[Known], receiver: &str| is_long || !is_quiet && repeats_often(all, receiver);
        if let Some(other) = counted_together(drilled, all, counts) {
            return Step::Unseen(format!(
                "requests of {} are counted together with those for {other}. See the receiver \
                 itself, or start Alertmanager with --enable-feature=receiver-name-in-metrics \
                 (0.27 and later)",
                listed(since.keys())
            ));
        }
        let kinds = since.keys().map(|kind| format!("{kind} of {}", listed(&receivers)));
        return Step::Passed(listed(kinds));
    }
    let failing = since.iter().find(|(_, since)| since.requests_failed > 0.0);
    match failing {
        Some((kind, since)) if late || since.given_up > 0.0 && since.answered < since.needed => {
            Step::failed(
                format!(
                    "{} requests of {kind} failed, {} succeeded; the drill's receiver is {}",
                    since.requests_failed,
                    since.answered,
                    listed(&receivers)
                ),
                "Alertmanager's log has the error (`Notify for alerts failed`): see the address \
             and the secret of that integration",
            )
        }
        None if late && readable.len() < all.len() => {
            unseen(late, "the counters of one Alertmanager cannot be read, and it may have sent it")
        }
        _ if late => {
            let is_early = |kind: &&str| {
                let before: fn(&Known) -> Option<&Counted> = |known| known.before.as_ref();
                of_kind(&readable, kind, &receivers, before).begun >= 1.0
            };
            match since.keys().find(|kind| is_early(kind)) {
                Some(kind) if since.values().all(|since| since.begun < 1.0) => {
                    Step::Unseen(format!(
                        "a request of {kind} was counted before `group_wait` was over: it was of \
                         another alert, or of a group that was there from a drill before"
                    ))
                }
                _ => not_sent(drilled, all, &since),
            }
        }
        _ => Step::Wait,
    }
}

fn unseen(late: bool, why: &str) -> Step {
    if late { Step::Unseen(why.to_owned()) } else { Step::Wait }
}

/// No request was made, or none was answered.
fn not_sent(drilled: &Drilled, all: &[Known], since: &BTreeMap<&str, Since>) -> Step {
    if let Some((kind, _)) = since.iter().find(|(_, since)| since.begun > since.answered) {
        return Step::failed(
            format!("{kind} began a notification and has no answer yet"),
            "see that what it sends to answers; Alertmanager's log has the error later",
        );
    }
    let silent: Vec<&str> =
        routes(drilled, all).flat_map(|route| &route.silent_at).map(String::as_str).collect();
    let says_muted =
        found(drilled, all).iter().any(|(_, _, alert)| alert.status.muted_by.is_some());
    match (silent.is_empty(), joined(drilled, all)) {
        (false, _) if !says_muted => Step::failed(
            format!(
                "no request was made; its route has the time intervals {}, and this version of \
                 Alertmanager does not say whether they mute it now",
                listed(silent)
            ),
            "see these `mute_time_intervals` and `active_time_intervals`, or drill at another time",
        ),
        (_, Some(other)) => Step::failed(
            format!("no request was made; it is in one group with {other}"),
            "add `drill` to `group_by` of its route, as alertmanager-example.yml has it",
        ),
        _ => Step::failed(
            "no request was made, though nothing holds it back",
            "see Alertmanager's log; one that was killed, or had the same drill less than \
             `group_interval` ago, may swallow what it sent before: run two, or wait",
        ),
    }
}

fn of_kind(
    readable: &[&Known],
    kind: &str,
    receivers: &BTreeSet<&str>,
    before: fn(&Known) -> Option<&Counted>,
) -> Since {
    let mut all = Since::default();
    for known in readable {
        let (Some(before), Some(now)) =
            (before(known), known.look.as_ref().and_then(|look| look.counted.as_ref()))
        else {
            continue;
        };
        let is_of = |(of, receiver): &(String, String)| {
            of == kind && (receiver.is_empty() || receivers.contains(&**receiver))
        };
        for (key, now) in now.iter().filter(|(key, _)| is_of(key)) {
            let before = before.get(key).copied().unwrap_or_default();
            // It was restarted.
            let before = if now.begun < before.begun { Sent::default() } else { before };
            let failed = now.requests_failed - before.requests_failed;
            all.begun += now.begun - before.begun;
            all.answered += now.requests - before.requests - failed;
            all.requests_failed += failed;
            all.given_up += now.failed - before.failed;
        }
    }
    all
}

/// Whether notifications of a receiver are repeated so often that one may be among those that were
/// counted since the drill began, as those of a dead man's switch.
fn repeats_often(all: &[Known], receiver: &str) -> bool {
    const OFTEN_MS: u64 = 3_600_000;
    let routes = all.iter().filter_map(|known| known.config.as_ref());
    let mut own = routes.flat_map(|config| config.routes_to(receiver));
    own.any(|route| route.repeat_interval_ms.is_some_and(|ms| ms <= OFTEN_MS))
}

/// An alert that is repeated often, and counted together with a drill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Often {
    /// Which one.
    pub(super) shown: String,
    kinds: Vec<String>,
    /// After a notification there is none for so long.
    pub(super) quiet_ms: u64,
    /// The longest time between two.
    pub(super) each_ms: u64,
}

impl Often {
    /// Longer than this nobody waits for it.
    const EACH_MS_MAX: u64 = 120_000;

    /// The only one that may be taken for a drill with the labels `alert`.
    pub(super) fn find(alert: &Labels, all: &[Known]) -> Option<Often> {
        let value = |name: &str| alert.get(name).map_or("", String::as_str);
        let configs = || all.iter().filter_map(|known| known.config.as_ref());
        let own = configs().flat_map(AlertmanagerConfig::notifying);
        let own = own.filter(|route| route.may_take(value));
        let own: Vec<&str> =
            own.filter_map(|route| kinds(all, &route.receiver)).flatten().collect();
        let groups =
            all.iter().filter(|it| !counts_by_receiver(it)).filter_map(|it| it.look.as_ref());
        let groups = groups.flat_map(|look| &look.groups);
        let mut often: BTreeMap<String, (&str, Vec<&str>)> = BTreeMap::new();
        for group in groups.filter(|group| repeats_often(all, &group.receiver.name)) {
            let mut kinds = kinds(all, &group.receiver.name).unwrap_or_default();
            kinds.retain(|kind| own.contains(kind));
            let active = group.alerts.iter().find(|alert| alert.status.state == "active");
            if let (Some(active), false) = (active, kinds.is_empty()) {
                often.insert(shown_alert(&active.labels), (&*group.receiver.name, kinds));
            }
        }
        let (shown, (receiver, kinds)) = often.pop_first().filter(|_| often.is_empty())?;
        let routes = || configs().flat_map(|config| config.routes_to(receiver));
        let quiet_ms = routes().map(|route| route.group_interval_ms).min()?;
        let repeat_ms = routes().filter_map(|route| route.repeat_interval_ms).max()?;
        let each_ms = repeat_ms.saturating_add(quiet_ms);
        let kinds = kinds.into_iter().map(str::to_owned).collect();
        (each_ms <= Often::EACH_MS_MAX).then_some(Often { shown, kinds, quiet_ms, each_ms })
    }

    /// Whether it may be what was notified between two counts.
    pub(super) fn was_notified(&self, before: &Counted, now: &Counted) -> bool {
        let begun = |counted: &Counted| -> f64 {
            let own = counted.iter().filter(|((kind, _), _)| self.kinds.contains(kind));
            own.map(|(_, sent)| sent.begun).sum()
        };
        begun(now) > begun(before)
    }
}

/// Whether it counts what it sent by receivers.
fn counts_by_receiver(known: &Known) -> bool {
    let counted = known.look.as_ref().and_then(|look| look.counted.as_ref());
    counted.is_some_and(|counted| counted.keys().any(|(_, receiver)| !receiver.is_empty()))
}

/// Alerts of such receivers whose notifications are counted together with those of the drill, by
/// the same kind of integration: then they may have been theirs.
pub(super) fn counted_together(
    drilled: &Drilled,
    all: &[Known],
    receiver: impl Fn(&[Known], &str) -> bool,
) -> Option<String> {
    let found = found(drilled, all);
    let receivers: BTreeSet<&str> =
        found.iter().map(|(_, group, _)| &*group.receiver.name).collect();
    let ours: BTreeSet<&str> =
        receivers.iter().filter_map(|receiver| kinds(all, receiver)).flatten().collect();
    let groups = all.iter().filter(|it| !counts_by_receiver(it)).filter_map(|it| it.look.as_ref());
    let mut others = groups.flat_map(|look| &look.groups).filter(|group| {
        let kinds = kinds(all, &group.receiver.name).unwrap_or_default();
        kinds.iter().any(|kind| ours.contains(kind)) && receiver(all, &group.receiver.name)
    });
    let other = others.find_map(|group| {
        let mut alerts = group.alerts.iter();
        alerts.find(|alert| !drilled.is_alert(&alert.labels) && alert.status.state == "active")
    })?;
    Some(shown_alert(&other.labels))
}

/// Receivers of the drill that do not say that it is over.
pub(super) fn silent_at_the_end(drilled: &Drilled, all: &[Known]) -> Option<String> {
    let found = found(drilled, all);
    let is_silent = |name: &&str| {
        let mut configs = all.iter().filter_map(|known| known.config.as_ref());
        configs.find_map(|config| config.receiver(name)).is_some_and(|receiver| {
            receiver.integrations.iter().any(|it| it.send_resolved == Some(false))
        })
    };
    let names = found.iter().map(|(_, group, _)| &*group.receiver.name).filter(is_silent);
    let names = listed(names);
    (!names.is_empty()).then_some(names)
}

/// Whether none of those that answer has it.
pub(super) fn is_over(drilled: &Drilled, all: &[Known]) -> bool {
    found(drilled, all).is_empty()
}

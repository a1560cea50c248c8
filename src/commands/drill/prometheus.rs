//! What one Prometheus shows of the drill: whether it scrapes it, records it, and lets it fire.

use super::hop::{Step, listed};
use crate::chain::{Alert, Alertmanagers, Group, Labels, Rule, Sample, Target};

pub(super) use crate::alerts::DOWN as ALERT;
/// The series that the agent publishes.
pub(super) const PUBLISHED: &str = "lockwatch_task_problem_seconds";
/// What the alert is made of.
const RECORDED: &str = "lockwatch:problem_seconds";
/// What that is made of.
const RECORDED_BEFORE: &str = "agent:lockwatch_problem_seconds";
/// The rules that the alert needs.
const NEEDED: [&str; 4] = ["instance:lockwatch_up", RECORDED_BEFORE, RECORDED, ALERT];
/// All agents that Prometheus knows.
pub(super) const AGENTS: &str = "timestamp(lockwatch_build_info)";
pub(super) use crate::alerts::RULES_INFO as RULES;

/// The drill, as Prometheus may see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Drilled {
    /// The labels of its series.
    pub(super) labels: Labels,
    /// When the agent's process started.
    pub(super) agent_started: Option<f64>,
    /// Where the agent is.
    pub(super) agent_url: String,
}

impl Drilled {
    pub(super) fn task(&self) -> &str {
        self.labels.get("drill").map_or("", String::as_str)
    }

    /// Whether labels are those of the drill's alert.
    pub(super) fn is_alert(&self, labels: &Labels) -> bool {
        let is = |name: &str, value: &str| labels.get(name).is_some_and(|it| it == value);
        is("alertname", ALERT) && is("drill", self.task())
    }

    /// The query for all series of the drill, also where labels of the target took the places of
    /// its own.
    pub(super) fn series_query(&self) -> String {
        let own = |name: &str| {
            let value = self.labels.get(name).map_or("", String::as_str);
            let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            format!("{{{name}=\"{value}\"}} or {{exported_{name}=\"{value}\"}}")
        };
        format!("{} or {}", own("drill"), own("task"))
    }

    /// The query for when the agent was scraped last, for each target that is this agent.
    pub(super) fn agent_query(&self) -> String {
        match self.agent_started {
            // Of a comparison, the timestamp would be that of the query.
            Some(started) => format!(
                "timestamp(process_start_time_seconds) and process_start_time_seconds == {started}"
            ),
            None => AGENTS.to_owned(),
        }
    }
}

/// What one Prometheus answered. What was not asked for is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PrometheusLook {
    /// The targets that are this agent; the value is when each was scraped last.
    pub(super) mine: Vec<Sample>,
    /// The same of all agents.
    pub(super) agents: Vec<Sample>,
    /// Every series of the drill.
    pub(super) series: Vec<Sample>,
    /// What is scraped; `None`: it does not say.
    pub(super) targets: Option<Vec<Target>>,
    /// Which rules are evaluated; `None`: it does not say.
    pub(super) groups: Option<Vec<Group>>,
    /// Which alerts fire; `None`: it does not say.
    pub(super) alerts: Option<Vec<Alert>>,
    /// Whom it notifies; `None`: it does not say.
    pub(super) notified: Option<Alertmanagers>,
    /// How many notifications each Alertmanager did not take.
    pub(super) refused: Vec<(String, f64)>,
}

impl PrometheusLook {
    /// The target that is this agent.
    pub(super) fn target(&self) -> Option<&Target> {
        let is_same = |sample: &Sample, target: &Target| {
            ["job", "instance"].iter().all(|name| {
                target.labels.get(*name).map_or("", String::as_str) == sample.label(name)
            })
        };
        let mut targets = self.targets.iter().flatten();
        targets.find(|target| self.mine.iter().any(|sample| is_same(sample, target)))
    }

    /// The group that has the alert.
    pub(super) fn group(&self) -> Option<&Group> {
        let has = |group: &&Group| group.rules.iter().any(is_the_alert);
        self.groups.iter().flatten().find(has)
    }
}

pub(super) fn is_the_alert(rule: &Rule) -> bool {
    rule.kind == "alerting" && rule.name == ALERT
}

/// Whether it was scraped. `scrapes`: how many scrapes of this agent ended well since the series
/// is on /metrics.
pub(super) fn scraped(drilled: &Drilled, look: &PrometheusLook, scrapes: u32, late: bool) -> Step {
    let is_mine = |sample: &&Sample| {
        let same = |mine: &Sample| {
            ["job", "instance"].iter().all(|name| mine.label(name) == sample.label(name))
        };
        look.mine.is_empty() || look.mine.iter().any(same)
    };
    // Another drill's, which ended since its last scrape, is not this one.
    let is_of_another = |sample: &&Sample| {
        !["", drilled.task()].contains(&sample.label("drill"))
            && sample.label("exported_drill") != drilled.task()
    };
    let published = || {
        let named = look.series.iter().filter(|sample| sample.name() == PUBLISHED);
        named.filter(is_mine).filter(move |sample| !is_of_another(sample))
    };
    let lacking = |sample: &Sample| {
        let labels = drilled.labels.iter();
        let lacking = labels.filter(|(name, value)| sample.label(name) != *value);
        lacking.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    if let Some(sample) = published().find(|sample| lacking(sample).is_empty()) {
        let each = look.target().map(|target| format!(", each {}", target.scrape_interval));
        return Step::Passed(format!(
            "job {}, instance {}{}",
            sample.label("job"),
            sample.label("instance"),
            each.unwrap_or_default()
        ));
    }
    if let Some(sample) = published().next() {
        return changed(drilled, sample, &lacking(sample));
    }
    let is_foreign = |name: &str| !name.contains(':') && !name.starts_with("ALERTS");
    let known = [PUBLISHED, "lockwatch_task_clear"];
    let mut others = look.series.iter().filter(is_mine).map(Sample::name);
    if let Some(name) = others.find(|name| is_foreign(name) && !known.contains(name)) {
        return Step::failed(
            format!("the series {PUBLISHED} has another name there: {name}"),
            "take what renames it out of `metric_relabel_configs` of the job",
        );
    }
    match look.mine.first() {
        Some(mine) => not_there(mine, look, scrapes, late),
        None => not_known(drilled, look, late),
    }
}

/// The series is there, and some of its labels are not.
fn changed(drilled: &Drilled, sample: &Sample, lacking: &[String]) -> Step {
    let job = sample.label("job");
    let is_taken = |name: &&String| {
        Some(sample.label(&format!("exported_{name}")))
            == drilled.labels.get(*name).map(String::as_str)
    };
    let taken: Vec<_> = lacking.iter().filter(is_taken).collect();
    match taken.is_empty() {
        false => Step::failed(
            format!(
                "labels of the target {} took the places of lockwatch's own: {}",
                sample.label("instance"),
                listed(taken.iter().map(|name| {
                    format!("{name} is {:?}, lockwatch's is exported_{name}", sample.label(name))
                }))
            ),
            format!("set `honor_labels: true` in the scrape job {job}"),
        ),
        true => Step::failed(
            format!("the series {PUBLISHED} came with other labels: {} differ", listed(lacking)),
            format!("see `metric_relabel_configs` of the scrape job {job}, which must keep them"),
        ),
    }
}

/// The agent is a target, and the series is not there.
fn not_there(mine: &Sample, look: &PrometheusLook, scrapes: u32, late: bool) -> Step {
    let (job, instance) = (mine.label("job"), mine.label("instance"));
    let target = look.target();
    let failing = target.filter(|target| target.health == "down");
    match failing {
        Some(target) if late => down(target),
        Some(_) => Step::Wait,
        None if scrapes >= 2 => Step::failed(
            format!(
                "it scraped {instance} twice since the drill is on its /metrics, without an error, \
                 and has no {PUBLISHED} of the drill"
            ),
            format!("see `metric_relabel_configs` of the scrape job {job}, which must keep it"),
        ),
        None if late => Step::failed(
            format!("it did not scrape {instance} in that time"),
            match target {
                Some(target) => format!(
                    "the scrape job {} does so each {}: 5s are enough",
                    target.scrape_pool, target.scrape_interval
                ),
                None => "see its page of targets: it scrapes this agent no more".to_owned(),
            },
        ),
        None => Step::Wait,
    }
}

fn down(target: &Target) -> Step {
    Step::failed(
        format!("its scrape of {} fails: {}", target.scrape_url, target.last_error),
        format!("mend that: the scrape job is {}", target.scrape_pool),
    )
}

/// No target is this agent.
fn not_known(drilled: &Drilled, look: &PrometheusLook, late: bool) -> Step {
    let is_likely = |target: &&Target| {
        let agent = drilled.agent_url.trim_end_matches('/');
        [&target.scrape_pool, &target.scrape_url].iter().any(|text| text.contains("lockwatch"))
            || target.scrape_url.contains(":10379/")
            || target.scrape_url.strip_suffix("/metrics") == Some(agent)
    };
    let targets = || look.targets.iter().flatten();
    let likely_down = targets().filter(|target| target.health == "down").find(is_likely);
    let all_known = targets().all(|target| target.health != "unknown") && targets().count() > 0;
    let add = format!("add this agent ({}) to the targets of a job", drilled.agent_url);
    match (look.agents.is_empty(), likely_down) {
        (true, Some(target)) if late => down(target),
        (true, None) if all_known || late => Step::failed(
            "it scrapes no lockwatch at all",
            add + " in `scrape_configs`, whose `relabel_configs` must keep it; \
                       prometheus-example.yml shows one",
        ),
        (false, likely_down) if late => {
            let agents = listed(look.agents.iter().map(|agent| agent.label("instance")));
            let down = likely_down.map(|target| {
                format!("; its scrape of {} fails: {}", target.scrape_url, target.last_error)
            });
            let down = down.unwrap_or_default();
            Step::failed(
                format!("it scrapes other agents only: {agents}{down}"),
                add + ", or name one of those with --agent.url",
            )
        }
        _ => Step::Wait,
    }
}

/// Whether the recording rules have it.
pub(super) fn recorded(drilled: &Drilled, look: &PrometheusLook, late: bool) -> Step {
    let load = "load lockwatch.rules.yml of this version: `rule_files` must name it, and \
                `promtool check config` shows whether it does";
    let of_drill = |sample: &&Sample| sample.label("drill") == drilled.task();
    let has = |name: &str| look.series.iter().filter(of_drill).any(|it| it.name() == name);
    let group = look.group();
    if let Some(groups) = &look.groups {
        let Some(group) = group else {
            return Step::failed(
                format!("it evaluates no alert {ALERT} (groups of rules: {})", groups.len()),
                load,
            );
        };
        let is_needed = |rule: &&Rule| NEEDED.contains(&&*rule.name) && rule.health == "err";
        if let Some(rule) = group.rules.iter().find(is_needed) {
            return Step::failed(
                format!("the rule {} fails: {}", rule.name, rule.last_error),
                format!("mend {}, of the group {}", group.file, group.name),
            );
        }
    }
    if has(RECORDED) {
        let of = group.map(|group| format!(", group {}, each {}s", group.name, group.interval));
        return Step::Passed(format!("{RECORDED}{}", of.unwrap_or_default()));
    }
    match late {
        false => Step::Wait,
        true if has(RECORDED_BEFORE) => {
            Step::failed(format!("{RECORDED_BEFORE} has the drill, and {RECORDED} does not"), load)
        }
        true => Step::failed(
            format!(
                "the rules were not evaluated in that time, or {RECORDED} leaves the drill out"
            ),
            format!("see whether `instance:lockwatch_up` is 1 for this agent; {load}"),
        ),
    }
}

/// Whether its alert fires.
pub(super) fn firing(drilled: &Drilled, look: &PrometheusLook, late: bool) -> Step {
    let alerts = look.alerts.iter().flatten().filter(|alert| drilled.is_alert(&alert.labels));
    let states: Vec<&str> = alerts.map(|alert| &*alert.state).collect();
    let is_shown = |sample: &Sample| {
        sample.name() == "ALERTS"
            && sample.label("alertstate") == "firing"
            && drilled.is_alert(&sample.labels)
    };
    if states.contains(&"firing") || look.alerts.is_none() && look.series.iter().any(is_shown) {
        let severity = drilled.labels.get("severity").map_or("", String::as_str);
        return Step::Passed(format!("{ALERT}, severity {severity}"));
    }
    let rule = look.group().and_then(|group| group.rules.iter().find(|rule| is_the_alert(rule)));
    match (late, states.is_empty()) {
        (false, _) => Step::Wait,
        (true, false) => Step::failed(
            format!(
                "{ALERT} is pending, not firing: its rule has `for: {}s`",
                rule.map_or(0.0, |rule| rule.duration)
            ),
            "leave `for` out: agents have waited for `grace` already",
        ),
        (true, true) => Step::failed(
            format!("{RECORDED} has the drill, and {ALERT} does not fire"),
            "see the expression of that rule: lockwatch.rules.yml needs no changes",
        ),
    }
}

/// Whether it fires no more, and cannot fire again.
pub(super) fn is_over(drilled: &Drilled, look: &PrometheusLook) -> bool {
    let is_left = |sample: &Sample| match sample.name() {
        "ALERTS" => drilled.is_alert(&sample.labels),
        PUBLISHED => {
            ["drill", "exported_drill"].iter().any(|name| sample.label(name) == drilled.task())
        }
        _ => false,
    };
    !look.alerts.iter().flatten().any(|alert| drilled.is_alert(&alert.labels))
        && !look.series.iter().any(is_left)
}

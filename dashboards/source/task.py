"""One task: who held its lock, how well, and what went wrong."""

from grafana_foundation_sdk.models import common as kinds, units

import house
from house import graph, heat, note, now, query, stat_panel, timeline
from other_kinds import queue, runs, turns
from queries import (
    AGENTS,
    OF_SITE,
    ONE_TASK,
    ONE_TASK_RECORDED,
    SITE,
    mean,
    series,
    tasks,
    ttl,
    verdict,
    worst,
    worst_increase,
    worst_rate,
)

# What is about the task, or about its store as a whole.
ABOUT_IT = f'{SITE}, store="$store", task="$task"'
ABOUT_ITS_STORE = f'{SITE}, store="$store", task=""'

HOW_TO_SEE_MORE = f"""\
The panels below show what an agent tells only of tasks with `metrics: full`. Write that at the top
of its configuration for all tasks, or in the block of one:

```yaml
metrics: full       # of all tasks
tasks:
  - name: outbound
    metrics: full   # of this one
```

All other panels need no more than the default. [What it adds]({house.FILES}/docs/metrics.md)."""


def gauge(metric: str) -> str:
    return worst(metric, ONE_TASK)


def build(uid: str) -> str:
    variables = [
        *house.SITE_VARIABLES,
        house.JOB_VARIABLE,
        house.one_of("task", "Task", tasks(AGENTS)),
        # The task decides which store it can be, so that choosing a task is enough.
        house.one_of("store", "Store", tasks(AGENTS, task="$task")),
    ]
    sections = [
        ("Now", present()),
        ("What was wrong, and who held it", timelines()),
        ("The lease", lease()),
        ("Gaps and holds", holds()),
        ("Work and switches", work()),
    ]
    folded = [
        ("Turns, of tasks that take turns", turns()),
        ("Queue, of delayed tasks", queue()),
        ("Runs, of periodic tasks", runs()),
        ("More, of tasks with `metrics: full`", full()),
    ]
    description = (
        "One singleton task: who held its lock, how the lease was renewed, and every gap, outage"
        " and split."
    )
    return house.dashboard_json(
        uid, description, variables, annotations(), sections, "now-3h", folded=folded
    )


def annotations():
    def events(name, color, metric, title):
        expr = f"{worst_increase(metric, ONE_TASK)} > 0"
        return house.mark(name, color, expr, title, "{{task}}")

    return [
        house.alert_marks(ABOUT_IT, ABOUT_ITS_STORE),
        events("Acquisitions", "blue", "lockwatch_lock_acquisitions_total", "Lock acquired"),
        events("Expiries", "orange", "lockwatch_lock_expired_total", "Lease expired"),
        events("Losses", "semi-dark-red", "lockwatch_lock_lost_total", "Lost by a living holder"),
        events("Splits", "dark-red", "lockwatch_task_splits_total", "Two holders"),
        house.generation_marks(f'{AGENTS}, store="$store"'),
        house.restart_marks(AGENTS),
    ]


def present():
    holder = worst("lockwatch_lock_holder", ONE_TASK, by="holder, holder_host")
    outage = "task:lockwatch_task_time_seconds:increase30d"
    return [
        stat_panel(
            "Verdict",
            "What lockwatch says of the task; of several agents the worst.",
            now(verdict(ONE_TASK)),
            mappings=house.VERDICT,
        ),
        stat_panel(
            "Wanted",
            "Whether any user wants the task to run.",
            now(gauge("lockwatch_task_wanted")),
            mappings=house.YES_NO,
            nothing="unknown or no switches",
        ),
        stat_panel(
            "Holder",
            "Who holds the lock, with the host where that is known.",
            now(holder, "{{holder}} {{holder_host}}"),
            text=kinds.BigValueTextMode.NAME,
            width=8,
            nothing="nobody or unknown",
        ),
        stat_panel(
            "Held for",
            "How old the present hold is, at least; 0 while the lock is free.",
            now(gauge("lockwatch_lock_held_seconds")),
            unit=units.Seconds,
            nothing="unknown",
        ),
        stat_panel(
            "TTL left",
            "What was left of the lease at the newest reading.",
            now(ttl(ONE_TASK)),
            unit=units.Seconds,
            steps=[(None, "orange"), (1, "blue")],
            nothing="free or without a TTL",
        ),
        stat_panel(
            "Pages",
            "Whether pages of this task go out, or wait because a deploy paused them.",
            now(gauge("lockwatch_task_paused")),
            mappings=house.PAGES,
            width=6,
            nothing="no pause configured",
        ),
        stat_panel(
            "Lease",
            "Full lifetime of a hold, configured or learned.",
            now(gauge("lockwatch_lock_lease_seconds")),
            unit=units.Seconds,
            width=6,
            nothing="not known yet",
        ),
        stat_panel(
            "Availability 30 d",
            "Share of the wanted time during which the lock had a holder, over 30 days (recording"
            " rule).",
            now(worst("task:lockwatch_task_availability:ratio30d", ONE_TASK_RECORDED)),
            unit=units.PercentUnit,
            steps=house.AVAILABILITY,
            width=6,
        ),
        stat_panel(
            "Outage 30 d",
            "What holders that expired cost over 30 days: from their last sign of life to the"
            " take-over (recording rule).",
            now(worst(outage, ONE_TASK_RECORDED, of="outage")),
            unit=units.Seconds,
            steps=house.LOST_SECONDS,
            width=6,
        ),
        house.problems_table(ABOUT_IT, ABOUT_ITS_STORE, height=5),
        house.alerts_table(
            "Alerts about this task that fire now. A click on an alert opens its runbook.",
            ABOUT_IT,
            [],
        ),
    ]


def timelines():
    holder = worst("lockwatch_lock_holder", ONE_TASK, by="holder, holder_host")
    return [
        house.problems_timeline(ABOUT_IT, ABOUT_ITS_STORE, height=6),
        timeline(
            "Holders over time",
            "One row per holder: when it held the lock. Two rows at once are a split, or two agents"
            " that read at different moments.",
            query(holder, "{{holder}} {{holder_host}}"),
            mappings=house.HOLDS,
            height=7,
        ),
        timeline(
            "Wanted against held",
            "Whether users want the task, and whether somebody holds its lock. Wanted and not held"
            " is a gap; the other way round it is unwanted.",
            query(gauge("lockwatch_task_wanted"), "wanted"),
            query(gauge("lockwatch_lock_held"), "held"),
            query(gauge("lockwatch_task_paused"), "pages paused"),
            mappings=house.YES_NO,
            height=5,
        ),
        timeline(
            "Verdict by agent",
            "What each agent says. Agents that differ for long do not see the same store.",
            query(worst("lockwatch_task_state_rank", ONE_TASK, by="instance"), "{{instance}}"),
            mappings=house.VERDICT,
            height=5,
        ),
    ]


def lease():
    latency = "lockwatch_lock_renewal_latency_seconds_total"
    return [
        graph(
            "TTL",
            "The saw-tooth of a healthy lease climbs back to the lease at each renewal. Empty for a"
            " lock without a TTL.",
            query(ttl(ONE_TASK), "TTL left"),
            query(gauge("lockwatch_lock_lease_seconds"), "lease"),
            unit=units.Seconds,
            limits=["lease"],
        ),
        graph(
            "Renewal latency",
            "How much later than its schedule the newest renewal landed, and the mean of all.",
            query(gauge("lockwatch_lock_last_renewal_latency_seconds"), "newest"),
            query(mean(latency, "lockwatch_lock_renewals_total", ONE_TASK), "mean"),
            unit=units.Seconds,
        ),
        graph(
            "Renewals",
            "Renewals per second. None while the lock is held: its holder does not renew, and will"
            " lose it.",
            query(worst_rate("lockwatch_lock_renewals_total", ONE_TASK), "renewals"),
            unit=units.CountsPerSecond,
        ),
        graph(
            "Age of the hold",
            "How old the present hold is, at least; 0 while the lock is free.",
            query(gauge("lockwatch_lock_held_seconds"), "held"),
            unit=units.Seconds,
        ),
    ]


def holds():
    def events(metric, legend):
        return query(worst_increase(metric, ONE_TASK), legend)

    time = worst_rate("lockwatch_task_time_seconds_total", ONE_TASK, by="of")
    length = "lockwatch_task_handover_seconds_total"
    return [
        graph(
            "Acquisitions and ends",
            "How often somebody got the lock, how often a lease expired, and how often a living"
            " holder lost it, and may have gone on working. An event shows for one rate interval.",
            events("lockwatch_lock_acquisitions_total", "acquired"),
            events("lockwatch_lock_expired_total", "expired"),
            events("lockwatch_lock_lost_total", "lost alive"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "Handovers and splits",
            "Gaps that ended, and times that evidence of two holders appeared.",
            events("lockwatch_task_handovers_total", "handovers"),
            events("lockwatch_task_splits_total", "splits"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "How long handovers took",
            "Mean length of the gaps that ended, from the release to a hold that settled.",
            query(mean(length, "lockwatch_task_handovers_total", ONE_TASK), "handover"),
            unit=units.Seconds,
        ),
        graph(
            "Share of time",
            "How much of the time the task was wanted, down, and in an outage. An outage begins"
            " with the last sign of life of a holder that expired, long before the lock is free.",
            query(time, "{{of}}"),
            unit=units.PercentUnit,
        ),
    ]


def work():
    moved = gauge("lockwatch_task_progress_timestamp_seconds")
    return [
        graph(
            "Progress",
            "Time since the progress was seen to move (server's clock against Prometheus').",
            query(f"time() - {moved}", "since it moved"),
            unit=units.Seconds,
            width=8,
            low=None,
        ),
        graph(
            "Switches that are on",
            "Users whose switch is on.",
            query(gauge("lockwatch_task_wanting_users"), "on"),
            unit=units.Short,
            width=8,
        ),
        graph(
            "Waiters",
            "How many wait for the lock, where the library tells.",
            query(gauge("lockwatch_lock_waiters"), "waiters"),
            unit=units.Short,
            width=8,
        ),
    ]


def full():
    """What only tasks with `metrics: full` show."""
    panels = [
        stat_panel(
            "Lock",
            "The lock's key, and whose layout it has.",
            now(worst("lockwatch_task_info", ONE_TASK, by="key, library"), "{{key}} ({{library}})"),
            text=kinds.BigValueTextMode.NAME,
            width=24,
        ),
        *full_lease(),
        *full_gaps(),
        *full_holds(),
    ]
    words = note("How to see more", "How to switch on the metrics of this row.", HOW_TO_SEE_MORE)
    return [words, *(panel.no_value("needs metrics: full") for panel in panels)]


def full_lease():
    lifetime = gauge("lockwatch_lock_lease_seconds")
    due = f"{lifetime} - {gauge('lockwatch_lock_renewal_period_seconds')}"
    latency = "lockwatch_lock_renewal_latency_seconds_bucket"
    slow = f"histogram_quantile(0.99, {worst_rate(latency, ONE_TASK, by='le, task, store')})"
    deadline = gauge("lockwatch_lock_deadline_timestamp_seconds")
    renewed = gauge("lockwatch_lock_last_renewal_timestamp_seconds")
    return [
        graph(
            "Renewal margin",
            "TTL that was left when the newest renewal landed. A holder that is paused for longer"
            " than this loses the lock.",
            query(gauge("lockwatch_lock_last_renewal_margin_seconds"), "margin"),
            query(due, "expected"),
            unit=units.Seconds,
            limits=["expected"],
        ),
        graph(
            "Deadline",
            "How far away the end of the lease is, and how long ago the last renewal: the server's"
            " instants against Prometheus' clock. Where these clocks differ, both lines are off by"
            " as much.",
            query(f"{deadline} - time()", "until the deadline"),
            query(f"time() - {renewed}", "since the last renewal"),
            unit=units.Seconds,
            low=None,
        ),
        graph(
            "Late renewals",
            "How late the next renewal is by now, and how late 99 % of all were at most. Overdue"
            " that grows: the renewals have stopped.",
            query(gauge("lockwatch_lock_renewal_overdue_seconds"), "overdue"),
            query(slow, "99 %"),
            unit=units.Seconds,
        ),
        heat(
            "Renewal latency, all renewals",
            "How many renewals were how late.",
            worst_increase(latency, ONE_TASK, by="le"),
        ),
    ]


def full_gaps():
    def half(histogram):
        buckets = worst_rate(f"{histogram}_bucket", ONE_TASK, by="le, task, store")
        return f"histogram_quantile(0.5, {buckets})"

    # How blind the agent is that sees best.
    blind = f"min by (task, store, {OF_SITE}) ({series('lockwatch_task_blind_seconds', ONE_TASK)})"
    clocks = ["down", "split", "stalled", "unwanted", "switches_lost"]
    return [
        graph(
            "How long by now",
            "How long the task has been down, split, stalled or unwanted, or its switches lost:"
            " kept while no reading can be trusted. Blind: since the newest one, of the agent that"
            " sees best.",
            *(query(gauge(f"lockwatch_task_{name}_seconds"), name) for name in clocks),
            query(blind, "blind"),
            unit=units.Seconds,
        ),
        graph(
            "Share of time split or blind",
            "How much of the time there was evidence of two holders, or no trustworthy reading.",
            query(worst_rate("lockwatch_task_split_time_seconds_total", ONE_TASK), "split"),
            query(worst_rate("lockwatch_task_blind_time_seconds_total", ONE_TASK), "blind"),
            unit=units.PercentUnit,
        ),
        graph(
            "Half of the handovers and outages",
            "Half of the handovers and outages that ended took no longer than this.",
            query(half("lockwatch_task_handover_seconds"), "handover"),
            query(half("lockwatch_task_outage_seconds"), "outage"),
            unit=units.Seconds,
        ),
        graph(
            "Splits by kind",
            "Times that evidence of two holders appeared, by its kind.",
            query(
                worst_increase("lockwatch_task_splits_by_kind_total", ONE_TASK, by="kind"),
                "{{kind}}",
            ),
            unit=units.Short,
            bars=True,
        ),
    ]


def full_holds():
    def events(metric, legend, **by):
        return query(worst_increase(metric, ONE_TASK, **by), legend)

    return [
        graph(
            "Ends by reason",
            "How holds ended. Expired and lost are bad ends; ended early is a release, replaced a"
            " handover.",
            events("lockwatch_lock_ends_total", "{{reason}}", by="reason"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "Odd events",
            "Holds that were too short to end a gap, deadlines that moved back while the holder"
            " stayed, and fencing tokens that went backwards.",
            events("lockwatch_task_phantom_holds_total", "too short holds"),
            events("lockwatch_lock_shortened_total", "shortened"),
            events("lockwatch_lock_token_resets_total", "token went backwards"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "Holders, re-entries and switches",
            "How many hold the lock, how often its holder entered it again, where the library"
            " tells, and switches that exist, on or off.",
            query(gauge("lockwatch_lock_holders"), "holders"),
            query(gauge("lockwatch_lock_reentries"), "re-entries"),
            query(gauge("lockwatch_task_switches"), "switches"),
            unit=units.Short,
        ),
        graph(
            "Fencing token",
            "The fencing token last given out, where the library has one.",
            query(gauge("lockwatch_lock_fencing_token"), "token"),
            unit=units.Short,
        ),
    ]

"""One task: who held its lock, how well, and what went wrong."""

from grafana_foundation_sdk.models import common as kinds, units

import house
from house import graph, heat, now, query, stat_panel, timeline
from queries import ONE_TASK, ONE_TASK_RECORDED, series, verdict, worst, worst_increase, worst_rate

# Alerts about the task, or about its store as a whole.
ITS_ALERTS = 'store="$store", task="$task"'
ITS_REDIS_ALERTS = 'store="$store", task=""'


def gauge(metric: str) -> str:
    return worst(metric, ONE_TASK)


def blind() -> str:
    """How blind the agent is that sees best."""
    return f"min by (task, store) ({series('lockwatch_task_blind_seconds', ONE_TASK)})"


def build(uid: str) -> str:
    variables = [
        house.JOB_VARIABLE,
        house.one_of("task", "Task", 'lockwatch_task_info{job=~"$job"}'),
        # The task decides which store it can be, so that choosing a task is enough.
        house.one_of("store", "Store", 'lockwatch_task_info{job=~"$job", task="$task"}'),
    ]
    sections = [
        ("Now", present()),
        ("Who holds it, and does it run", timelines()),
        ("The lease", lease()),
        ("Gaps and outages", gaps()),
        ("Holds", holds()),
        ("Work and switches", work()),
    ]
    description = "One singleton task: who held its lock, how the lease was renewed, and every gap, outage and split."
    return house.dashboard_json(uid, description, variables, annotations(), sections, since="now-3h")


def annotations():
    def events(metric, by):
        return f"{worst_increase(metric, ONE_TASK, by=by)} > 0"

    return [
        house.alert_marks(ITS_ALERTS, ITS_REDIS_ALERTS),
        house.mark(
            "Acquisitions", "blue", events("lockwatch_lock_acquisitions_total", "task, store"), "Lock acquired", "{{task}}"
        ),
        house.mark(
            "Ends", "orange", events("lockwatch_lock_ends_total", "task, store, reason"), "Hold ended: {{reason}}", tags="reason"
        ),
        house.mark(
            "Losses", "semi-dark-red", events("lockwatch_lock_lost_total", "task, store"), "Lost by a living holder", "{{task}}"
        ),
        house.mark(
            "Splits", "dark-red", events("lockwatch_task_splits_total", "task, store, kind"), "Two holders: {{kind}}", tags="kind"
        ),
        house.generation_marks('job=~"$job", store="$store"'),
        house.restart_marks('job=~"$job"'),
    ]


def present():
    holder = worst("lockwatch_lock_holder", ONE_TASK, by="holder, holder_host")
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
            now(gauge("lockwatch_task_held_seconds")),
            unit=units.Seconds,
            nothing="unknown",
        ),
        stat_panel(
            "TTL left",
            "What was left of the lease at the newest reading.",
            now(gauge("lockwatch_lock_ttl_seconds")),
            unit=units.Seconds,
            steps=[(None, "orange"), (1, "blue")],
            nothing="free or without a deadline",
        ),
        stat_panel(
            "Down for",
            "How long the task has been wanted without a holder; kept while no reading can be trusted.",
            now(gauge("lockwatch_task_down_seconds")),
            unit=units.Seconds,
            steps=house.LOST_SECONDS,
        ),
        stat_panel(
            "Blind for",
            "How long there has been no trustworthy reading, according to the agent that sees best.",
            now(blind()),
            unit=units.Seconds,
            steps=[(None, "green"), (10, "purple")],
        ),
        stat_panel(
            "Availability 30 d",
            "Share of the wanted time during which the lock had a holder, over 30 days (recording rule).",
            now(worst("task:lockwatch_task_availability:ratio30d", ONE_TASK_RECORDED)),
            unit=units.PercentUnit,
            steps=house.AVAILABILITY,
        ),
        stat_panel(
            "Outage 30 d",
            "What holders that expired cost over 30 days: from their last sign of life to the take-over (recording rule).",
            now(worst("task:lockwatch_task_outage_time_seconds:increase30d", ONE_TASK_RECORDED)),
            unit=units.Seconds,
            steps=house.LOST_SECONDS,
        ),
        stat_panel(
            "Lease",
            "Full lifetime of a hold, configured or learned.",
            now(gauge("lockwatch_lock_lease_seconds")),
            unit=units.Seconds,
            nothing="not known yet",
        ),
        stat_panel(
            "Pages",
            "Whether pages of this task go out, or wait because a deploy paused them.",
            now(gauge("lockwatch_task_paused")),
            mappings=house.PAGES,
            nothing="no pause configured",
        ),
        house.alerts_table("Alerts about this task that fire now. A click on an alert opens its runbook.", ITS_ALERTS, []),
    ]


def timelines():
    return [
        timeline(
            "Holders over time",
            "One row per holder: when it held the lock. Two rows at once are a split, or two agents that read at different"
            " moments.",
            query(worst("lockwatch_lock_holder", ONE_TASK, by="holder, holder_host"), "{{holder}} {{holder_host}}"),
            mappings=house.HOLDS,
            height=7,
        ),
        timeline(
            "Wanted against held",
            "Whether users want the task, and whether somebody holds its lock. Wanted and not held is a gap; the other way round"
            " it is unwanted.",
            query(gauge("lockwatch_task_wanted"), "wanted"),
            query(gauge("lockwatch_lock_held"), "held"),
            query(gauge("lockwatch_task_paused"), "pages paused"),
            mappings=house.YES_NO,
            height=5,
        ),
        timeline(
            "Verdict by agent",
            "What each agent says. Agents that differ for long do not see the same Redis.",
            query(verdict(ONE_TASK, by="instance"), "{{instance}}"),
            mappings=house.VERDICT,
            height=5,
        ),
    ]


def lease():
    due = f"{gauge('lockwatch_lock_lease_seconds')} - {gauge('lockwatch_lock_renewal_period_seconds')}"
    latency = "histogram_quantile(0.99, {})".format(
        worst_rate("lockwatch_lock_renewal_latency_seconds_bucket", ONE_TASK, by="le, task, store")
    )
    return [
        graph(
            "TTL",
            "The saw-tooth of a healthy lease climbs back to the lease at each renewal and never falls far below the line at"
            " which a renewal is due.",
            query(gauge("lockwatch_lock_ttl_seconds"), "TTL left"),
            query(gauge("lockwatch_lock_lease_seconds"), "lease"),
            query(due, "renewal due"),
            unit=units.Seconds,
            limits=["lease", "renewal due"],
        ),
        graph(
            "Deadline",
            "How far away the end of the lease is, and how long ago the last renewal: the server's instants against Prometheus'"
            " clock. Where these clocks differ, both lines are off by as much.",
            query(f"{gauge('lockwatch_lock_deadline_timestamp_seconds')} - time()", "until the deadline"),
            query(f"time() - {gauge('lockwatch_lock_last_renewal_timestamp_seconds')}", "since the last renewal"),
            unit=units.Seconds,
            low=None,
        ),
        graph(
            "Renewal latency",
            "How much later than its schedule the newest renewal landed, and how late the next one is by now. Overdue that grows:"
            " the renewals have stopped.",
            query(gauge("lockwatch_lock_last_renewal_latency_seconds"), "newest"),
            query(gauge("lockwatch_lock_renewal_overdue_seconds"), "overdue"),
            query(latency, "99 %"),
            unit=units.Seconds,
        ),
        graph(
            "Renewal margin",
            "TTL that was left when the newest renewal landed. A holder that is paused for longer than this loses the lock.",
            query(gauge("lockwatch_lock_last_renewal_margin_seconds"), "margin"),
            query(due, "expected"),
            unit=units.Seconds,
            limits=["expected"],
        ),
        graph(
            "Renewals",
            "Renewals per second. Shortened: a deadline moved back while the holder stayed.",
            query(worst_rate("lockwatch_lock_renewals_total", ONE_TASK), "renewals"),
            query(worst_rate("lockwatch_lock_shortened_total", ONE_TASK), "shortened"),
            unit=units.CountsPerSecond,
        ),
        heat(
            "Renewal latency, all renewals",
            "How many renewals were how late.",
            worst_increase("lockwatch_lock_renewal_latency_seconds_bucket", ONE_TASK, by="le"),
        ),
    ]


def gaps():
    def mean(histogram):
        return f"{worst_rate(histogram + '_sum', ONE_TASK)} / {worst_rate(histogram + '_count', ONE_TASK)}"

    return [
        graph(
            "Gap",
            "How long the task has been wanted without a holder. Shorter than grace is a handover, longer is down. A hold shorter"
            " than settle does not end it.",
            query(gauge("lockwatch_task_down_seconds"), "gap"),
            query(gauge("lockwatch_task_grace_seconds"), "grace"),
            query(gauge("lockwatch_task_settle_seconds"), "settle"),
            unit=units.Seconds,
            limits=["grace", "settle"],
        ),
        graph(
            "Handovers and outages",
            "Gaps that ended, holders that expired, and holds that were too short to end a gap. An event shows for one rate"
            " interval.",
            query(worst_increase("lockwatch_task_handover_seconds_count", ONE_TASK), "handovers"),
            query(worst_increase("lockwatch_task_outage_seconds_count", ONE_TASK), "outages"),
            query(worst_increase("lockwatch_task_phantom_holds_total", ONE_TASK), "too short holds"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "How long they took",
            "Mean length of the handovers and outages that ended. An outage begins with the last sign of life of a holder that"
            " expired, long before the lock is free.",
            query(mean("lockwatch_task_handover_seconds"), "handover"),
            query(mean("lockwatch_task_outage_seconds"), "outage"),
            unit=units.Seconds,
        ),
        graph(
            "Share of time",
            "How much of the time the task was wanted, down, split, in an outage or not readable.",
            query(worst_rate("lockwatch_task_wanted_time_seconds_total", ONE_TASK), "wanted"),
            query(worst_rate("lockwatch_task_down_time_seconds_total", ONE_TASK), "down"),
            query(worst_rate("lockwatch_task_outage_time_seconds_total", ONE_TASK), "outage"),
            query(worst_rate("lockwatch_task_split_time_seconds_total", ONE_TASK), "split"),
            query(worst_rate("lockwatch_task_blind_time_seconds_total", ONE_TASK), "blind"),
            unit=units.PercentUnit,
        ),
        graph(
            "Blind",
            "How long there has been no trustworthy reading, according to the agent that sees best. Longer than blind_after is"
            " unknown.",
            query(blind(), "blind"),
            query(gauge("lockwatch_task_blind_after_seconds"), "blind_after"),
            unit=units.Seconds,
            limits=["blind_after"],
        ),
        graph(
            "Splits",
            "Times that evidence of two holders appeared, by its kind.",
            query(worst_increase("lockwatch_task_splits_total", ONE_TASK, by="kind"), "{{kind}}"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "How long split",
            "How long there has been evidence of two holders; kept while no reading can be trusted.",
            query(gauge("lockwatch_task_split_seconds"), "split"),
            unit=units.Seconds,
            width=24,
            height=6,
        ),
    ]


def holds():
    return [
        graph(
            "Acquisitions and ends",
            "How holds began and ended. Expired and lost are bad ends; ended early is a release, replaced a handover. "
            "Lost alive: the holder lived on, and may have gone on working.",
            query(worst_increase("lockwatch_lock_acquisitions_total", ONE_TASK), "acquired"),
            query(worst_increase("lockwatch_lock_ends_total", ONE_TASK, by="reason"), "{{reason}}"),
            query(worst_increase("lockwatch_lock_lost_total", ONE_TASK), "lost alive"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "Age of the hold",
            "How old the present hold is, at least; 0 while the lock is free.",
            query(gauge("lockwatch_task_held_seconds"), "held"),
            query(gauge("lockwatch_task_max_hold_seconds"), "max_hold"),
            unit=units.Seconds,
            limits=["max_hold"],
        ),
        graph(
            "Holders, re-entries and waiters",
            "How many hold the lock, how often its holder entered it again, and how many wait for it, where the library tells.",
            query(gauge("lockwatch_lock_holders"), "holders"),
            query(gauge("lockwatch_lock_reentries"), "re-entries"),
            query(gauge("lockwatch_lock_waiters"), "waiters"),
            unit=units.Short,
        ),
        graph(
            "Fencing token",
            "The fencing token last given out, and how often it went backwards, where the library has one.",
            query(gauge("lockwatch_lock_fencing_token"), "token"),
            query(worst_increase("lockwatch_lock_token_resets_total", ONE_TASK), "went backwards"),
            unit=units.Short,
        ),
    ]


def work():
    return [
        graph(
            "Progress",
            "Time since the progress was seen to move (server's clock against Prometheus'), and how long it has been stalled,"
            " once that is longer than stale_after.",
            query(f"time() - {gauge('lockwatch_task_progress_timestamp_seconds')}", "since it moved"),
            query(gauge("lockwatch_task_stalled_seconds"), "stalled"),
            query(gauge("lockwatch_task_stale_after_seconds"), "stale_after"),
            unit=units.Seconds,
            limits=["stale_after"],
        ),
        graph(
            "Unwanted",
            "How long the lock has been held though nobody wants the task.",
            query(gauge("lockwatch_task_unwanted_seconds"), "unwanted"),
            query(gauge("lockwatch_task_wind_down_seconds"), "wind_down"),
            unit=units.Seconds,
            limits=["wind_down"],
        ),
        graph(
            "Switches",
            "Users whose switch is on, and switches that exist.",
            query(gauge("lockwatch_task_wanting_users"), "on"),
            query(gauge("lockwatch_task_switches"), "exist"),
            unit=units.Short,
        ),
        graph(
            "Switches lost",
            "How long switches that were on have been missing because Redis lost data.",
            query(gauge("lockwatch_task_switches_lost_seconds"), "lost"),
            unit=units.Seconds,
        ),
    ]

"""What is wrong now, over all tasks?"""

from grafana_foundation_sdk.models import units

import house
from house import OF_TASK, Column, graph, grid, now, query, ranking, rows, stat_panel, timeline
from queries import (
    MANY_TASKS,
    MANY_TASKS_RECORDED,
    firing,
    series,
    verdict,
    worst,
    worst_increase,
    worst_rate,
)

AGENT = 'job=~"$job"'
REDIS = 'job=~"$job", store=~"$store"'
# Alerts about a store or an agent carry no task, those about an agent no store either.
ALERTS = 'store=~"$store|", task=~"$task|"'


def build(uid: str) -> str:
    variables = [
        house.JOB_VARIABLE,
        house.any_of("store", "Store", 'lockwatch_store_readable{job=~"$job"}'),
        house.any_of("task", "Task", 'lockwatch_task_info{job=~"$job", store=~"$store"}'),
    ]
    annotations = [
        house.alert_marks(ALERTS),
        house.generation_marks(REDIS),
        house.restart_marks(AGENT),
    ]
    sections = [
        ("What is wrong now", wrong_now()),
        ("All tasks", [tasks_table(), alerts(), verdicts()]),
        ("Availability", availability()),
        ("Who has trouble, over the time range shown", rankings()),
    ]
    description = "All tasks that lockwatch watches: what is wrong now, who has trouble often, and how available they are."
    return house.dashboard_json(uid, description, variables, annotations, sections, since="now-6h")


def wrong_now():
    return [
        tasks_stat("Down", "down", "Tasks that users want and that nobody has held for longer than their grace.", "red"),
        tasks_stat("Split", "split", "Tasks with positive evidence of more than one holder.", "dark-red"),
        tasks_stat("Stalled", "stalled", "Tasks whose lock is held though their work does not move.", "orange"),
        tasks_stat("Unwanted", "unwanted", "Tasks that somebody still runs though everybody switched them off.", "yellow"),
        stat_panel(
            "Blind",
            "Tasks of which no agent has had a trustworthy reading for too long. What is not known is not fine.",
            now(f"sum(min by (task, store) ({series('lockwatch_task_state', MANY_TASKS, state='unknown')}))"),
            steps=[(None, "green"), (1, "purple")],
        ),
        stat_panel(
            "Switches lost",
            "Tasks whose switches vanished together with Redis' data while they were on: they look switched off, but nobody did"
            " that.",
            now(f"sum({worst('lockwatch_task_switches_lost_seconds', MANY_TASKS)} > bool 0)"),
            steps=house.BAD_FROM_1,
        ),
        stat_panel(
            "Alerts",
            "Alerts of lockwatch's rules that fire now. Needs the rules file to be loaded.",
            now(f"count({firing(ALERTS)}) or vector(0)"),
            steps=house.BAD_FROM_1,
        ),
        stat_panel(
            "Redis",
            "Whether any agent gets trustworthy answers from all servers of each Redis that decide. Replicas do not count.",
            now(worst("lockwatch_store_readable", REDIS, by="store"), "{{store}}"),
            steps=house.GOOD_FROM_1,
            mappings=house.READABLE,
            width=8,
            link=house.to_agent("var-store=${__field.labels.store:percentencode}"),
        ),
        stat_panel(
            "Agents",
            "Whether Prometheus reaches each agent.",
            now(worst("up", AGENT, by="instance"), "{{instance}}"),
            steps=house.GOOD_FROM_1,
            mappings=house.UP_DOWN,
            width=8,
            link=house.to_agent("var-instance=${__field.labels.instance:percentencode}"),
        ),
        stat_panel(
            "Watched",
            "Tasks that are watched, as selected above.",
            now(f"count({worst('lockwatch_task_info', MANY_TASKS)})"),
        ),
    ]


def tasks_stat(title, state, description, color):
    return stat_panel(
        title,
        description,
        now(f"sum(max by (task, store) ({series('lockwatch_task_state', MANY_TASKS, state=state)}))"),
        steps=[(None, "green"), (1, color)],
    )


def tasks_table():
    """One row per task. The letters are those of the queries, in their order."""
    columns = [
        Column("Value #A", "Verdict", mappings=house.VERDICT, width=100),
        Column("task", "Task", link=house.TO_ROWS_TASK),
        Column("store", "Store", link=house.to_agent("var-store=${__data.fields.store:percentencode}")),
        Column("Value #B", "Wanted", mappings=house.YES_NO, width=80),
        Column("Value #C", "Held for", unit=units.Seconds, decimals=0, width=110),
        Column("Value #D", "TTL left", unit=units.Seconds, decimals=1, width=90),
        Column("holder_host", "Host"),
        Column("holder", "Holder"),
        Column("Value #F", "Down 24 h", unit=units.Seconds, steps=house.LOST_SECONDS, decimals=0, width=100),
        Column("Value #G", "Outage 24 h", unit=units.Seconds, steps=house.LOST_SECONDS, decimals=0, width=110),
        Column("Value #H", "Availability 30 d", unit=units.PercentUnit, steps=house.AVAILABILITY, decimals=3, width=140),
        Column("Value #I", "Handovers 24 h", unit=units.Short, decimals=0, width=130),
    ]
    holder = worst("lockwatch_lock_holder", MANY_TASKS, by="task, store, holder, holder_host")
    return grid(
        "Tasks",
        "One row per task, the worst first; a click on a task opens it. Of several agents the worst view counts. Where a lock has"
        " several holders one of them is named. Held for: at least so long. The last 24 hours and 30 days come from recording"
        " rules.",
        columns,
        rows(verdict(MANY_TASKS)),
        rows(worst("lockwatch_task_wanted", MANY_TASKS)),
        rows(worst("lockwatch_task_held_seconds", MANY_TASKS)),
        rows(worst("lockwatch_lock_ttl_seconds", MANY_TASKS)),
        rows(f"topk by (task, store) (1, {holder})"),
        rows(worst("task:lockwatch_task_down_time_seconds:increase1d", MANY_TASKS_RECORDED)),
        rows(worst("task:lockwatch_task_outage_time_seconds:increase1d", MANY_TASKS_RECORDED)),
        rows(worst("task:lockwatch_task_availability:ratio30d", MANY_TASKS_RECORDED)),
        rows(worst_increase("lockwatch_task_handover_seconds_count", MANY_TASKS, window="1d")),
        sort="Verdict",
    )


def alerts():
    return house.alerts_table(
        "Alerts of lockwatch's rules that fire now. A click on an alert opens its runbook, a click on a task the task.",
        ALERTS,
        ["task", "store", "job", "instance"],
        height=6,
    )


def verdicts():
    return timeline(
        "Verdicts",
        "What lockwatch said of each task over time; of several agents the worst verdict. A gap means that no agent was scraped.",
        query(verdict(MANY_TASKS), OF_TASK),
        mappings=house.VERDICT,
        height=10,
        link=house.TO_SERIES_TASK,
    )


def availability():
    return [
        graph(
            "Availability over 30 days",
            "Share of the wanted time during which the lock had a holder, over the 30 days before each instant (recording rule).",
            query(worst("task:lockwatch_task_availability:ratio30d", MANY_TASKS_RECORDED), OF_TASK),
            unit=units.PercentUnit,
            low=None,
            link=house.TO_SERIES_TASK,
        ),
        graph(
            "Availability over a day",
            "Share of the wanted time during which the lock had a holder, over the day before each instant (recording rule).",
            query(worst("task:lockwatch_task_availability:ratio1d", MANY_TASKS_RECORDED), OF_TASK),
            unit=units.PercentUnit,
            low=None,
            link=house.TO_SERIES_TASK,
        ),
        graph(
            "Share of time down",
            "How much of the time each task was wanted without a holder, in confirmed gaps. 100 % is down all the time.",
            query(worst_rate("lockwatch_task_down_time_seconds_total", MANY_TASKS), OF_TASK),
            unit=units.PercentUnit,
            link=house.TO_SERIES_TASK,
        ),
        graph(
            "Outages",
            "What holders that expired cost, over the day before each instant: from their last sign of life to the take-over. "
            "The lock looks held most of that time (recording rule).",
            query(worst("task:lockwatch_task_outage_time_seconds:increase1d", MANY_TASKS_RECORDED), OF_TASK),
            unit=units.Seconds,
            link=house.TO_SERIES_TASK,
        ),
    ]


def rankings():
    def top(title, description, metric, unit, steps):
        expr = f'topk(10, {worst_increase(metric, MANY_TASKS, window="$__range")})'
        return ranking(title, description, expr, unit=unit, steps=steps)

    return [
        top(
            "Top flappers",
            "The tasks whose lock was acquired most often. Many acquisitions of a lock that is meant to be kept: a crash loop, or"
            " a lease that is too short.",
            "lockwatch_lock_acquisitions_total",
            units.Short,
            [(None, "blue"), (10, "orange")],
        ),
        top(
            "Longest down",
            "The tasks that were wanted without a holder for the longest time in all.",
            "lockwatch_task_down_time_seconds_total",
            units.Seconds,
            house.LOST_SECONDS,
        ),
        top(
            "Costliest outages",
            "The tasks that lost the most time to holders that expired.",
            "lockwatch_task_outage_time_seconds_total",
            units.Seconds,
            house.LOST_SECONDS,
        ),
    ]

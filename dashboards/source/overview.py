"""What is wrong now, over all tasks?"""

from grafana_foundation_sdk.models import units

import house
from house import OF_TASK, Column, graph, grid, now, query, ranking, rows, stat_panel, timeline
from queries import (
    AGENTS,
    MANY_TASKS,
    MANY_TASKS_RECORDED,
    NO_DRILL,
    OF_SITE,
    SITE,
    firing,
    series,
    tasks,
    ttl,
    verdict,
    worst,
    worst_increase,
    worst_rate,
)

AGENT = AGENTS
STORE = f'{AGENTS}, store=~"$store"'
# Problems of a store, and alerts about a store or an agent, carry no task; those about an agent no
# store either.
PROBLEMS = f'{SITE}, store=~"$store", task=~"$task|"'
ALERTS = f'{SITE}, store=~"$store|", task=~"$task|"'


def build(uid: str) -> str:
    variables = [
        *house.SITE_VARIABLES,
        house.JOB_VARIABLE,
        house.any_of("store", "Store", series("lockwatch_store_clear", AGENT)),
        house.any_of("task", "Task", tasks(STORE)),
    ]
    annotations = [
        house.alert_marks(ALERTS),
        house.generation_marks(STORE),
        house.restart_marks(AGENT),
    ]
    sections = [
        ("What is wrong now", wrong_now()),
        ("All tasks", [tasks_table(), verdicts()]),
        ("Availability", availability()),
        ("Who has trouble, over the time range shown", rankings()),
    ]
    description = (
        "All tasks that lockwatch watches: what is wrong now, who has trouble often, and how"
        " available they are."
    )
    return house.dashboard_json(uid, description, variables, annotations, sections, "now-6h")


def wrong_now():
    # Without it the rules are not loaded, and nothing is known.
    no_alert = "0 * count(instance:lockwatch_up)"
    return [
        house.problems_table(PROBLEMS, height=7),
        stat_panel(
            "Not seen to be well",
            "Tasks of which no agent has fresh evidence that they are neither down, split, stalled"
            " nor anything else that pages. What is not known is not fine.",
            now(f"sum({worst('lockwatch_task_clear', f'{MANY_TASKS}, {NO_DRILL}')} == bool 0)"),
            steps=[(None, "green"), (1, "orange")],
        ),
        stat_panel(
            "Watched",
            "Tasks that are watched, as selected above.",
            now(f"count({worst('lockwatch_task_clear', f'{MANY_TASKS}, {NO_DRILL}')})"),
        ),
        stat_panel(
            "Alerts",
            "Alerts of lockwatch's rules that fire now.",
            now(f"count({firing(ALERTS)}) or {no_alert}"),
            steps=house.BAD_FROM_1,
            nothing="no rules",
        ),
        stat_panel(
            "Stores",
            "Whether any agent gets trustworthy answers from all servers of each store that decide."
            " Replicas do not count.",
            now(worst("lockwatch_store_readable", STORE, by="store"), "{{store}}" + house.AT_SITE),
            steps=house.GOOD_FROM_1,
            mappings=house.READABLE,
            width=6,
            link=house.to_agent("var-store=${__field.labels.store:percentencode}"),
        ),
        stat_panel(
            "Agents",
            "Whether Prometheus reaches each agent.",
            now(worst("up", AGENT, by="instance"), "{{instance}}" + house.AT_SITE),
            steps=house.GOOD_FROM_1,
            mappings=house.UP_DOWN,
            width=6,
            link=house.to_agent("var-instance=${__field.labels.instance:percentencode}"),
        ),
        house.alerts_table(
            "Alerts of lockwatch's rules that fire now. A click on an alert opens its runbook, a"
            " click on a task the task.",
            ALERTS,
            ["task", "store", "job", "instance"],
            height=6,
        ),
        house.problems_timeline(PROBLEMS, height=7),
    ]


def tasks_table():
    """One row per task. The letters are those of the queries, in their order."""
    lost = {"unit": units.Seconds, "steps": house.LOST_SECONDS, "decimals": 0}
    share = {"unit": units.PercentUnit, "steps": house.AVAILABILITY, "decimals": 3}
    columns = [
        Column("Value #A", "Verdict", mappings=house.VERDICT, width=100),
        Column("task", "Task", link=house.TO_ROWS_TASK),
        Column("store", "Store", link=house.TO_ROWS_STORE),
        *house.site_columns(),
        Column("Value #B", "Wanted", mappings=house.YES_NO, width=80),
        Column("Value #C", "Held for", unit=units.Seconds, decimals=0, width=110),
        Column("Value #D", "TTL left", unit=units.Seconds, decimals=1, width=90),
        Column("holder_host", "Host"),
        Column("holder", "Holder"),
        Column("Value #F", "Down 24 h", width=100, **lost),
        Column("Value #G", "Outage 24 h", width=110, **lost),
        Column("Value #H", "Availability 30 d", width=140, **share),
        Column("Value #I", "Handovers 24 h", unit=units.Short, decimals=0, width=130),
    ]
    holder = worst("lockwatch_lock_holder", MANY_TASKS, by="task, store, holder, holder_host")
    return grid(
        "Tasks",
        "One row per task and site, the worst first; a click on a task opens it. Of several agents the worst"
        " view counts. Where a lock has several holders one of them is named. Held for: at least so"
        " long. The last 24 hours and 30 days come from recording rules.",
        columns,
        rows(verdict(MANY_TASKS)),
        rows(worst("lockwatch_task_wanted", MANY_TASKS)),
        rows(worst("lockwatch_lock_held_seconds", MANY_TASKS)),
        rows(ttl(MANY_TASKS)),
        rows(f"topk by (task, store, {OF_SITE}) (1, {holder})"),
        rows(lost_in_a_day("down")),
        rows(lost_in_a_day("outage")),
        rows(worst("task:lockwatch_task_availability:ratio30d", MANY_TASKS_RECORDED)),
        rows(worst_increase("lockwatch_task_handovers_total", MANY_TASKS, window="1d")),
        sort="Verdict",
    )


def lost_in_a_day(of):
    return worst("task:lockwatch_task_time_seconds:increase1d", MANY_TASKS_RECORDED, of=of)


def verdicts():
    return timeline(
        "Verdicts",
        "What lockwatch said of each task over time; of several agents the worst verdict. A gap"
        " means that no agent was scraped.",
        query(verdict(MANY_TASKS), OF_TASK),
        mappings=house.VERDICT,
        height=10,
        link=house.TO_SERIES_TASK,
    )


def availability():
    return [
        graph(
            "Availability over 30 days",
            "Share of the wanted time during which the lock had a holder, over the 30 days before"
            " each instant (recording rule).",
            query(worst("task:lockwatch_task_availability:ratio30d", MANY_TASKS_RECORDED), OF_TASK),
            unit=units.PercentUnit,
            low=None,
            link=house.TO_SERIES_TASK,
        ),
        graph(
            "Availability over a day",
            "Share of the wanted time during which the lock had a holder, over the day before each"
            " instant (recording rule).",
            query(worst("task:lockwatch_task_availability:ratio1d", MANY_TASKS_RECORDED), OF_TASK),
            unit=units.PercentUnit,
            low=None,
            link=house.TO_SERIES_TASK,
        ),
        graph(
            "Share of time down",
            "How much of the time each task was wanted without a holder, in confirmed gaps. 100 %"
            " is down all the time.",
            query(worst_rate("lockwatch_task_time_seconds_total", MANY_TASKS, of="down"), OF_TASK),
            unit=units.PercentUnit,
            link=house.TO_SERIES_TASK,
        ),
        graph(
            "Outages",
            "What holders that expired cost, over the day before each instant: from their last sign"
            " of life to the take-over. The lock looks held most of that time (recording rule).",
            query(lost_in_a_day("outage"), OF_TASK),
            unit=units.Seconds,
            link=house.TO_SERIES_TASK,
        ),
    ]


def rankings():
    def top(title, description, metric, unit, steps, **labels):
        most = worst_increase(metric, MANY_TASKS, window="$__range", **labels)
        return ranking(title, description, f"topk(10, {most})", unit=unit, steps=steps)

    time = "lockwatch_task_time_seconds_total"
    return [
        top(
            "Top flappers",
            "The tasks whose lock was acquired most often. Many acquisitions of a lock that is"
            " meant to be kept: a crash loop, or a lease that is too short.",
            "lockwatch_lock_acquisitions_total",
            units.Short,
            [(None, "blue"), (10, "orange")],
        ),
        top(
            "Longest down",
            "The tasks that were wanted without a holder for the longest time in all.",
            time,
            units.Seconds,
            house.LOST_SECONDS,
            of="down",
        ),
        top(
            "Costliest outages",
            "The tasks that lost the most time to holders that expired.",
            time,
            units.Seconds,
            house.LOST_SECONDS,
            of="outage",
        ),
    ]

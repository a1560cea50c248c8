"""What only other kinds of tasks show than locks: turns, queues and periodic tasks."""

from grafana_foundation_sdk.models import common as kinds, units

from house import graph, now, query, stat_panel
from queries import ONE_TASK, ONE_TASK_RECORDED, worst, worst_increase


def gauge(metric: str) -> str:
    return worst(metric, ONE_TASK)


def events(metric: str, legend: str, by: str = "task, store"):
    return query(worst_increase(metric, ONE_TASK, by=by), legend)


def turns():
    holder = worst("lockwatch_turn_holder", ONE_TASK, by="participant")
    due = gauge("lockwatch_turn_due_timestamp_seconds")
    panels = [
        stat_panel(
            "Turn of",
            "Whose turn it is.",
            now(holder, "{{participant}}"),
            text=kinds.BigValueTextMode.NAME,
            width=8,
        ),
        graph(
            "Overdue",
            "How long the present turn has waited to be taken, or lasted, and how long ago it was"
            " due by Prometheus' clock.",
            query(gauge("lockwatch_turn_overdue_seconds"), "overdue"),
            query(f"time() - {due}", "since it was due"),
            unit=units.Seconds,
            width=16,
            low=None,
        ),
        graph(
            "Turns",
            "Turns that each participant passed on, as far as they were seen.",
            events("lockwatch_turn_taken_total", "{{participant}}", by="participant"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "What is odd",
            "Fields of the hash (more than one is a passing, or a split), turns out of order, and"
            " names that are no participant.",
            query(gauge("lockwatch_turn_fields"), "fields"),
            events("lockwatch_turn_out_of_order_total", "out of order"),
            events("lockwatch_turn_unknown_names_total", "unknown names"),
            unit=units.Short,
        ),
    ]
    return [panel.no_value("only of tasks that take turns") for panel in panels]


def queue():
    moved = gauge("lockwatch_queue_moved_timestamp_seconds")
    coming = gauge("lockwatch_queue_next_due_timestamp_seconds")
    panels = [
        graph(
            "Members",
            "Members of the queue, those that are due, and those that are executed now.",
            query(gauge("lockwatch_queue_members"), "members"),
            query(gauge("lockwatch_queue_due"), "due"),
            query(gauge("lockwatch_queue_executing"), "executing"),
            unit=units.Short,
        ),
        graph(
            "Lateness",
            "How long the oldest member has been due that nobody executes, and how long ago a due"
            " member left last.",
            query(gauge("lockwatch_queue_oldest_due_seconds"), "oldest"),
            query(f"time() - {moved}", "since one left"),
            unit=units.Seconds,
            low=None,
        ),
        graph(
            "Members that left",
            "Due members that left, those of them that were seen locked, and those that vanished:"
            " never seen locked.",
            events("lockwatch_queue_departed_total", "left"),
            events("lockwatch_queue_departed_locked_total", "seen locked"),
            events("lockwatch_queue_vanished_total", "vanished"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "What went wrong",
            "Members that were executed again, locks that expired before their member left, and"
            " locks that outlived it.",
            events("lockwatch_queue_executed_again_total", "executed again"),
            events("lockwatch_queue_expired_total", "expired"),
            events("lockwatch_queue_orphan_locks_total", "orphan locks"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "Next",
            "Until the next member is due, by Prometheus' clock; and whether more are due than are"
            " looked at.",
            query(f"{coming} - time()", "until the next"),
            query(gauge("lockwatch_queue_executing_more"), "more are due"),
            unit=units.Seconds,
            low=None,
        ),
    ]
    return [panel.no_value("only of a queue") for panel in panels]


def runs():
    began = gauge("lockwatch_task_last_run_timestamp_seconds")
    due = worst("task:lockwatch_task_run_due:last", ONE_TASK_RECORDED)
    panels = [
        graph(
            "Until the next run is late",
            "Until `every` and `late_after` have passed since a run began, by any agent, by"
            " Prometheus' clock; below 0 it is late.",
            query(f"{due} - time()", "until it is late"),
            query(f"time() - {began}", "since the last run began"),
            unit=units.Seconds,
            low=None,
        ),
        graph(
            "Duration of runs",
            "How long the work of the last run took.",
            query(gauge("lockwatch_task_last_run_duration_seconds"), "last run"),
            unit=units.Seconds,
        ),
    ]
    return [panel.no_value("only of a task with `runs`") for panel in panels]

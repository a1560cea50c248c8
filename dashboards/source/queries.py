"""PromQL that more than one dashboard uses.

Several agents may watch the same tasks, so what belongs to a task is never summed over agents:
`worst` takes the largest.
"""

# Which series a dashboard is about. A variable with one value is compared as text, one with many as
# a pattern.
# Empty where no target has such labels: "All" fits then.
SITE = 'cluster=~"$cluster", namespace=~"$namespace"'
AGENTS = f'{SITE}, job=~"$job"'
MANY_TASKS = f'{AGENTS}, store=~"$store", task=~"$task"'
ONE_TASK = f'{AGENTS}, store="$store", task="$task"'
# The same for what recording rules made, which has no job.
MANY_TASKS_RECORDED = f'{SITE}, store=~"$store", task=~"$task"'
ONE_TASK_RECORDED = f'{SITE}, store="$store", task="$task"'

# The ranks that `lockwatch_task_state_rank` has as its value, worst first.
VERDICTS = {
    7: ("split", "dark-red"),
    6: ("down", "red"),
    5: ("stalled", "orange"),
    4: ("unwanted", "yellow"),
    3: ("unknown", "purple"),
    2: ("pending", "light-blue"),
    1: ("running", "green"),
    0: ("stopped", "dark-blue"),
}

BY_TASK = "task, store"
# Stores and tasks of other sites may have the same names: nothing is put together across sites.
OF_SITE = "cluster, namespace, env"
# What is of no drill: no task, no trouble.
NO_DRILL = 'drill=""'
# The watchdog always fires.
OUR_ALERTS = f'alertname=~"Lockwatch.+", alertname!="LockwatchWatchdog", {NO_DRILL}'


def series(metric: str, select: str, **labels: str) -> str:
    """A metric's selector."""
    matchers = [select, *(f'{name}="{value}"' for name, value in labels.items())]
    return f"{metric}{{{', '.join(matchers)}}}"


def tasks(select: str, **labels: str) -> str:
    """A series of each task that an agent knows: 1 if it sees that nothing pages."""
    return series("lockwatch_task_clear", f"{select}, {NO_DRILL}", **labels)


def worst(metric: str, select: str, by: str = BY_TASK, **labels: str) -> str:
    """The largest value of any agent of a site."""
    return f"max by ({by}, {OF_SITE}) ({series(metric, select, **labels)})"


def rate(metric: str, select: str, **labels: str) -> str:
    """Per second, each agent by itself."""
    return f"rate({series(metric, select, **labels)}[$__rate_interval])"


def increase(metric: str, select: str, window: str = "$__rate_interval", **labels: str) -> str:
    """How much more, each agent by itself."""
    return f"increase({series(metric, select, **labels)}[{window}])"


def worst_rate(metric: str, select: str, by: str = BY_TASK, **labels: str) -> str:
    return f"max by ({by}, {OF_SITE}) ({rate(metric, select, **labels)})"


def worst_increase(
    metric: str, select: str, by: str = BY_TASK, window: str = "$__rate_interval", **labels: str
) -> str:
    return f"max by ({by}, {OF_SITE}) ({increase(metric, select, window, **labels)})"


def mean(total: str, count: str, select: str) -> str:
    """What one event added to a total, on average; of several agents the largest."""
    return f"max by ({BY_TASK}, {OF_SITE}) ({rate(total, select)} / {rate(count, select)})"


def ttl(select: str) -> str:
    """What is left of the lease; nothing of a lock without a TTL, whose value is +Inf."""
    return f"{worst('lockwatch_lock_ttl_seconds', select)} < Inf"


def verdict(select: str, by: str = BY_TASK) -> str:
    """The worst verdict of any agent, by its rank; `unknown` only where no agent knows better."""
    known = series("lockwatch_task_state_rank", f'{select}, state!="unknown"')
    return f"max by ({by}, {OF_SITE}) ({known}) or {worst('lockwatch_task_state_rank', select, by)}"


def problems(by: str, *selects: str) -> str:
    """What the rules say is wrong: for how long, or how long ago. Alerts say the same."""
    of = [series("lockwatch:problem_seconds", f"{select}, {NO_DRILL}") for select in selects]
    found = " or ".join(of)
    return f"max by ({by}, {OF_SITE}) ({found})"


def firing(select: str) -> str:
    """The alerts of our rules that fire."""
    return series("ALERTS", f"{OUR_ALERTS}, {select}", alertstate="firing")

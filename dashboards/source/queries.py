"""PromQL that more than one dashboard uses.

Several agents may watch the same tasks, so what belongs to a task is never summed over agents: `worst` takes the largest.
"""

# Which series a dashboard is about. A variable with one value is compared as text, one with many as a pattern.
MANY_TASKS = 'job=~"$job", store=~"$store", task=~"$task"'
ONE_TASK = 'job=~"$job", store="$store", task="$task"'
# The same for what recording rules made, which has no job.
MANY_TASKS_RECORDED = 'store=~"$store", task=~"$task"'
ONE_TASK_RECORDED = 'store="$store", task="$task"'

# Worst first; the numbers are only for sorting and colouring.
VERDICTS = {
    "split": (8, "dark-red"),
    "down": (7, "red"),
    "stalled": (6, "orange"),
    "unwanted": (5, "yellow"),
    "unknown": (4, "purple"),
    "pending": (3, "light-blue"),
    "running": (2, "green"),
    "stopped": (1, "dark-blue"),
}

BY_TASK = "task, store"
# The watchdog always fires.
OUR_ALERTS = 'alertname=~"Lockwatch.+", alertname!="LockwatchWatchdog"'


def series(metric: str, select: str, **labels: str) -> str:
    """A metric's selector."""
    matchers = [select, *(f'{name}="{value}"' for name, value in labels.items())]
    return f"{metric}{{{', '.join(matchers)}}}"


def worst(metric: str, select: str, by: str = BY_TASK) -> str:
    """The largest value of any agent."""
    return f"max by ({by}) ({series(metric, select)})"


def rate(metric: str, select: str) -> str:
    """Per second, each agent by itself."""
    return f"rate({series(metric, select)}[$__rate_interval])"


def increase(metric: str, select: str, window: str = "$__rate_interval") -> str:
    """How much more, each agent by itself."""
    return f"increase({series(metric, select)}[{window}])"


def worst_rate(metric: str, select: str, by: str = BY_TASK) -> str:
    return f"max by ({by}) ({rate(metric, select)})"


def worst_increase(metric: str, select: str, by: str = BY_TASK, window: str = "$__rate_interval") -> str:
    return f"max by ({by}) ({increase(metric, select, window)})"


def verdict(select: str, by: str = BY_TASK) -> str:
    """The worst verdict of any agent as a number; `unknown` only where no agent knows better."""

    def numbered(name: str) -> str:
        return f"{VERDICTS[name][0]} * {series('lockwatch_task_state', select, state=name)}"

    known = " or ".join(numbered(name) for name in VERDICTS if name != "unknown")
    return f"max by ({by}) ({known}) > 0 or max by ({by}) ({numbered('unknown')})"


def firing(select: str) -> str:
    """The alerts of our rules that fire."""
    return series("ALERTS", f"{OUR_ALERTS}, {select}", alertstate="firing")

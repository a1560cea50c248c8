"""Are the agents well, and the Redis servers that they read?"""

from grafana_foundation_sdk.models import common as kinds, units

import house
from house import Column, graph, grid, heat, now, query, rows, stat_panel, timeline
from queries import increase, rate, series, worst

AGENT = 'job=~"$job", instance=~"$instance"'
REDIS = f'{AGENT}, redis=~"$redis"'
# Alerts about an agent name no redis.
ALERTS = 'redis=~"$redis|", task=""'
OF_REDIS = "{{redis}} by {{instance}}"


def build(uid: str) -> str:
    variables = [
        house.JOB_VARIABLE,
        house.any_of("instance", "Agent", 'lockwatch_build_info{job=~"$job"}'),
        house.any_of("redis", "Redis", 'lockwatch_redis_up{job=~"$job", instance=~"$instance"}'),
    ]
    annotations = [
        house.alert_marks(ALERTS),
        house.generation_marks(REDIS),
        house.restart_marks(AGENT),
    ]
    sections = [
        ("Agents", agents()),
        ("Redis", redis()),
        ("Sampling", sampling()),
        ("What the agent costs", cost()),
        ("Scrapes", scrapes()),
    ]
    description = "The agents themselves and the Redis servers they read: each agent by itself, nothing added up."
    return house.dashboard_json(uid, description, variables, annotations, sections, since="now-3h")


def agents():
    started = f"1000 * {series('process_start_time_seconds', AGENT)}"
    loaded = f"1000 * {series('lockwatch_config_last_reload_success_timestamp_seconds', AGENT)}"
    return [
        stat_panel(
            "Up",
            "Whether Prometheus reaches the agent. A wedged agent answers 503 and counts as down.",
            now(series("up", AGENT), "{{instance}}"),
            steps=house.GOOD_FROM_1,
            mappings=house.UP_DOWN,
            width=6,
        ),
        stat_panel(
            "Version",
            "The version of each agent.",
            now(worst("lockwatch_build_info", AGENT, by="instance, version"), "{{instance}}: {{version}}"),
            text=kinds.BigValueTextMode.NAME,
            width=6,
        ),
        stat_panel("Started", "When each agent was started.", now(started, "{{instance}}"), unit=units.DateTimeFromNow, width=6),
        stat_panel(
            "Configuration loaded",
            "When the configuration in force was loaded.",
            now(loaded, "{{instance}}"),
            unit=units.DateTimeFromNow,
            width=6,
        ),
        house.alerts_table(
            "Alerts about agents and Redis servers that fire now. A click on an alert opens its runbook.",
            ALERTS,
            ["redis", "job", "instance"],
        ),
        timeline(
            "Reload of the configuration",
            "Whether the last attempt to load the configuration succeeded. If it failed, the one before stays in force.",
            query(series("lockwatch_config_last_reload_successful", AGENT), "{{instance}}"),
            mappings=house.SUCCEEDED,
            height=5,
            width=12,
        ),
        timeline(
            "Agent reachable",
            "Whether Prometheus' scrape of the agent succeeded.",
            query(series("up", AGENT), "{{instance}}"),
            mappings=house.UP_DOWN,
            height=5,
            width=12,
        ),
    ]


def redis():
    columns = [
        Column("redis", "Redis"),
        Column("address", "Address"),
        Column("instance", "Agent"),
        Column("role", "Role", width=100),
        Column("Value #A", "State", mappings=house.UP_DOWN, width=90),
        Column("Value #B", "Role verified", mappings=house.YES_NO, width=120),
        Column("Value #C", "Masters", unit=units.Short, decimals=0, width=90),
        Column("Value #D", "Last success", unit=units.DateTimeFromNow, width=160),
        Column("Value #E", "Clock offset", unit=units.Seconds, decimals=3, width=120),
    ]

    def value(metric, by="redis, instance"):
        return worst(metric, REDIS, by)

    return [
        grid(
            "Redis as each agent sees it",
            "Address, role and state of each Redis. Role verified: no means that the configuration vouches for the role. "
            "Last success is the server's clock.",
            columns,
            rows(value("lockwatch_redis_up", "redis, instance, address, role")),
            rows(value("lockwatch_redis_role_verified")),
            rows(value("lockwatch_redis_masters")),
            rows(f"1000 * {value('lockwatch_redis_last_success_timestamp_seconds')}"),
            rows(value("lockwatch_redis_clock_offset_seconds")),
            height=7,
        ),
        timeline(
            "Redis reachable",
            "Whether the newest batch of questions was answered trustworthily.",
            query(value("lockwatch_redis_up"), OF_REDIS),
            mappings=house.UP_DOWN,
            height=6,
        ),
        graph(
            "Age of the newest trustworthy answer",
            "Time since the newest trustworthy batch, by the server's clock as Prometheus' clock sees it. It grows while Redis"
            " cannot be read.",
            query(f"time() - {value('lockwatch_redis_last_success_timestamp_seconds')}", OF_REDIS),
            unit=units.Seconds,
            low=None,
        ),
        graph(
            "Clock offset",
            "The server's clock minus the agent's. No rule compares the two; a step is worth knowing.",
            query(series("lockwatch_redis_clock_offset_seconds", REDIS), OF_REDIS),
            unit=units.Seconds,
            low=None,
        ),
        graph(
            "Masters",
            "Servers that said they are master. More than one is a split at its root.",
            query(series("lockwatch_redis_masters", REDIS), OF_REDIS),
            unit=units.Short,
        ),
        graph(
            "Generation changes",
            "Times the server may have lost data: a restart, a new replication history, a flush. Those of the fingerprint are"
            " also seen when the agent was restarted in between.",
            query(increase("lockwatch_redis_generation_changes_total", REDIS), OF_REDIS),
            query(f"changes({series('lockwatch_redis_generation', REDIS)}[$__rate_interval])", f"fingerprint of {OF_REDIS}"),
            unit=units.Short,
            bars=True,
        ),
    ]


def sampling():
    bucket = rate("lockwatch_redis_sample_duration_seconds_bucket", REDIS)
    return [
        graph(
            "Duration of a batch",
            "Round trips of batches: half and 99 % of them were faster than this.",
            query(f"histogram_quantile(0.5, {bucket})", f"50 % {OF_REDIS}"),
            query(f"histogram_quantile(0.99, {bucket})", f"99 % {OF_REDIS}"),
            unit=units.Seconds,
        ),
        heat(
            "Duration of all batches",
            "How many batches per second took how long; with several agents the busiest.",
            f"max by (le) ({bucket})",
        ),
        graph(
            "Batches",
            "Batches of questions per second.",
            query(rate("lockwatch_redis_sample_duration_seconds_count", REDIS), OF_REDIS),
            unit=units.OpsPerSecond,
        ),
        graph(
            "Errors",
            "Failed batches and refused tasks per second, by reason. Reasons that did not occur are left out.",
            query(f"{rate('lockwatch_redis_errors_total', REDIS)} > 0", f"{{{{reason}}}}: {OF_REDIS}"),
            unit=units.CountsPerSecond,
        ),
        graph(
            "Reconnects",
            "Connections made after the first. After any timeout the connection is closed and dialled anew.",
            query(increase("lockwatch_redis_reconnects_total", REDIS), OF_REDIS),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "Skipped ticks",
            "Ticks that found the sweep before still under way: Redis is slow, or there are too many tasks for the interval.",
            query(rate("lockwatch_redis_skipped_ticks_total", REDIS), OF_REDIS),
            unit=units.CountsPerSecond,
        ),
    ]


def cost():
    return [
        graph(
            "CPU",
            "Cores that the agent uses.",
            query(rate("process_cpu_seconds_total", AGENT), "{{instance}}"),
            unit=units.PercentUnit,
        ),
        graph(
            "Memory",
            "Resident memory of the agent.",
            query(series("process_resident_memory_bytes", AGENT), "{{instance}}"),
            unit=units.BytesIEC,
        ),
        graph(
            "File descriptors",
            "Open file descriptors, and how many there may be.",
            query(series("process_open_fds", AGENT), "{{instance}}"),
            query(f"min by (job) ({series('process_max_fds', AGENT)})", "limit"),
            unit=units.Short,
            limits=["limit"],
        ),
        graph(
            "Threads",
            "Threads of the agent.",
            query(series("process_threads", AGENT), "{{instance}}"),
            unit=units.Short,
        ),
    ]


def scrapes():
    return [
        graph(
            "Duration of a scrape",
            "How long Prometheus took to scrape the agent. A scrape never touches Redis.",
            query(series("scrape_duration_seconds", AGENT), "{{instance}}"),
            unit=units.Seconds,
        ),
        graph(
            "Series",
            "Samples of one scrape: what the agent costs Prometheus. At most 95 for each task.",
            query(series("scrape_samples_scraped", AGENT), "{{instance}}"),
            query(series("scrape_samples_post_metric_relabeling", AGENT), "{{instance}} kept"),
            unit=units.Short,
        ),
        graph(
            "New series",
            "Series that were new in a scrape: holders that changed, tasks that were added.",
            query(series("scrape_series_added", AGENT), "{{instance}}"),
            unit=units.Short,
        ),
        graph(
            "Share of successful scrapes",
            "Below 100 % Prometheus misses scrapes; alerts look over several of them.",
            query(f"avg_over_time({series('up', AGENT)}[$__rate_interval])", "{{instance}}"),
            unit=units.PercentUnit,
        ),
    ]

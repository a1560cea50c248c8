"""Are the agents well, and the stores that they read?"""

from grafana_foundation_sdk.models import common as kinds, units

import house
from house import Column, graph, grid, heat, now, query, rows, stat_panel, timeline
from queries import AGENTS, OF_SITE, SITE, increase, rate, series, worst, worst_increase

AGENT = f'{AGENTS}, instance=~"$instance"'
STORE = f'{AGENT}, store=~"$store"'
# Problems of a store carry no task. Alerts about an agent name no store.
PROBLEMS = f'{SITE}, store=~"$store", task=""'
ALERTS = f'{SITE}, store=~"$store|", task=""'
OF_STORE = "{{store}} by {{instance}}" + house.AT_SITE
OF_PATTERN = "{{pattern}} at {{store}} by {{instance}}" + house.AT_SITE
OF_SERVER = "{{store}} at {{server}} by {{instance}}" + house.AT_SITE


def build(uid: str) -> str:
    stores_of = series("lockwatch_store_clear", AGENT)
    variables = [
        *house.SITE_VARIABLES,
        house.JOB_VARIABLE,
        house.any_of("instance", "Agent", series("lockwatch_build_info", AGENTS)),
        house.any_of("store", "Store", stores_of),
    ]
    annotations = [
        house.alert_marks(ALERTS),
        house.generation_marks(STORE),
        house.restart_marks(AGENT),
    ]
    sections = [
        ("Agents", agents()),
        ("Stores", stores()),
        ("Failover", failover()),
        ("Sampling", sampling()),
        ("What the agent costs", cost()),
        ("Scrapes", scrapes()),
    ]
    description = (
        "The agents themselves and the stores that they read: each agent by itself, nothing added"
        " up."
    )
    return house.dashboard_json(uid, description, variables, annotations, sections, "now-3h")


def agents():
    started = f"1000 * {series('process_start_time_seconds', AGENT)}"
    loaded = f"1000 * {series('lockwatch_config_last_reload_success_timestamp_seconds', AGENT)}"
    version = worst("lockwatch_build_info", AGENT, by="instance, version")
    watches = worst("lockwatch_config_info", AGENT, by="instance, tasks")
    return [
        stat_panel(
            "Up",
            "Whether Prometheus reaches the agent. A wedged agent answers 503 and counts as down.",
            now(series("up", AGENT), "{{instance}}"),
            steps=house.GOOD_FROM_1,
            mappings=house.UP_DOWN,
            width=5,
        ),
        stat_panel(
            "Version",
            "The version of each agent.",
            now(version, "{{instance}}: {{version}}"),
            text=kinds.BigValueTextMode.NAME,
            width=5,
        ),
        stat_panel(
            "Watches",
            "A fingerprint of the tasks of each agent: agents that watch the same have the same.",
            now(watches, "{{instance}}: {{tasks}}"),
            text=kinds.BigValueTextMode.NAME,
            width=6,
        ),
        stat_panel(
            "Started",
            "When each agent was started.",
            now(started, "{{instance}}"),
            unit=units.DateTimeFromNow,
        ),
        stat_panel(
            "Configuration loaded",
            "When the configuration in force was loaded.",
            now(loaded, "{{instance}}"),
            unit=units.DateTimeFromNow,
        ),
        house.alerts_table(
            "Alerts about agents and stores that fire now. A click on an alert opens its runbook.",
            ALERTS,
            ["store", "job", "instance"],
        ),
        timeline(
            "Reload of the configuration",
            "Whether the last attempt to load the configuration succeeded. If it failed, the one"
            " before stays in force.",
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


def stores():
    as_seen = [
        Column("store", "Store"),
        Column("instance", "Agent"),
        *house.site_columns(),
        Column("Value #A", "State", mappings=house.READABLE, width=100),
        Column("Value #B", "Blind for", unit=units.Seconds, width=110),
        Column("Value #C", "Masters", unit=units.Short, decimals=0, width=90),
        Column("Value #D", "Sentinels", unit=units.Short, decimals=0, width=100),
        Column("Value #E", "Agreeing", unit=units.Short, decimals=0, width=100),
        Column("Value #F", "Slots without master", unit=units.Short, decimals=0, width=160),
    ]
    servers = [
        Column("store", "Store"),
        Column("server", "Server"),
        Column("instance", "Agent"),
        *house.site_columns(),
        Column("role", "Role", width=100),
        Column("Value #A", "State", mappings=house.UP_DOWN, width=90),
        Column("Value #B", "Decides", mappings=house.DECIDES, width=90),
        Column("Value #C", "Role verified", mappings=house.YES_NO, width=120),
        Column("Value #D", "Last success", unit=units.DateTimeFromNow, width=160),
        Column("Value #E", "Clock offset", unit=units.Seconds, decimals=3, width=120),
        Column("Value #F", "Locks behind", unit=units.Short, decimals=0, width=120),
        Column("Value #G", "Lag", unit=units.Seconds, decimals=1, width=90),
        Column("Value #H", "Refuses writes", unit=units.Short, decimals=0, width=120),
    ]

    def value(metric, by="store, instance"):
        return worst(metric, STORE, by)

    def of_server(metric):
        return value(metric, "store, instance, server")

    last_success = of_server("lockwatch_store_last_success_timestamp_seconds")
    return [
        house.problems_table(PROBLEMS, height=5, of_tasks=False),
        grid(
            "Stores as each agent sees them",
            "Blind as soon as one server that decides cannot be read, or nobody knows which one"
            " decides. Sentinels and how many of them name the same master, where there are any;"
            " slots that no master of a cluster serves.",
            as_seen,
            rows(value("lockwatch_store_readable")),
            rows(value("lockwatch_store_blind_seconds")),
            rows(value("lockwatch_store_masters")),
            rows(value("lockwatch_store_sentinels")),
            rows(value("lockwatch_store_sentinels_agreeing")),
            rows(value("lockwatch_store_uncovered_slots")),
            height=6,
        ),
        grid(
            "Servers as each agent sees them",
            "Address, role and state of each server. A witness decides nothing: its answers are"
            " evidence of lag and of rival holders. Role verified: no means that the configuration"
            " attests the role. Last success is the server's clock. Locks behind: holds whose"
            " newest deadline a replica does not have, and by how much. Refuses writes: 1 while the"
            " server says that clients cannot write.",
            servers,
            rows(value("lockwatch_store_up", "store, instance, server, role")),
            rows(of_server("lockwatch_store_decides")),
            rows(of_server("lockwatch_store_role_verified")),
            rows(f"1000 * {last_success}"),
            rows(of_server("lockwatch_store_clock_offset_seconds")),
            rows(of_server("lockwatch_store_locks_behind")),
            rows(of_server("lockwatch_store_deadline_lag_seconds")),
            rows(of_server("lockwatch_store_refuses_writes")),
            height=8,
        ),
        timeline(
            "Store readable",
            "Whether all servers that decide were read trustworthily in the newest sweep.",
            query(value("lockwatch_store_readable"), OF_STORE),
            mappings=house.READABLE,
            height=6,
            width=12,
        ),
        timeline(
            "Servers reachable",
            "Whether the newest batch of questions to each server was answered trustworthily.",
            query(of_server("lockwatch_store_up"), OF_SERVER),
            mappings=house.UP_DOWN,
            height=6,
            width=12,
        ),
        graph(
            "Age of the newest trustworthy answer",
            "Time since the newest trustworthy batch, by the server's clock as Prometheus' clock"
            " sees it. It grows while the server cannot be read.",
            query(f"time() - {last_success}", OF_SERVER),
            unit=units.Seconds,
            low=None,
        ),
        graph(
            "Clock offset",
            "The server's clock minus the agent's. No rule compares the two; a step is worth"
            " knowing.",
            query(series("lockwatch_store_clock_offset_seconds", STORE), OF_SERVER),
            unit=units.Seconds,
            low=None,
        ),
    ]


def failover():
    fates = worst_increase("lockwatch_store_locks_after_change_total", STORE, by="store, fate")
    generation = series("lockwatch_store_generation", STORE)
    sentinels = series("lockwatch_store_sentinels", STORE)
    return [
        timeline(
            "Who decides",
            "Which servers decide whether locks are held, as each agent knows it.",
            query(worst("lockwatch_store_decides", STORE, "store, instance, server"), OF_SERVER),
            mappings=house.DECIDES,
            height=6,
        ),
        graph(
            "Masters",
            "Servers that said they are master. More than one is a split at its root, except in a"
            " cluster.",
            query(series("lockwatch_store_masters", STORE), OF_STORE),
            unit=units.Short,
        ),
        graph(
            "Sentinels that agree",
            "Configured Sentinels that name the same master, and how many there are. Without a"
            " majority nobody decides.",
            query(series("lockwatch_store_sentinels_agreeing", STORE), OF_STORE),
            query(f"max by (store, {OF_SITE}) ({sentinels})", "configured: {{store}}" + house.AT_SITE),
            unit=units.Short,
        ),
        graph(
            "Replicas behind",
            "How far the deadline of the lock that is farthest behind is behind on each replica."
            " What is missing there is lost if it is promoted.",
            query(series("lockwatch_store_deadline_lag_seconds", STORE), OF_SERVER),
            unit=units.Seconds,
        ),
        graph(
            "Locks behind",
            "Held locks whose newest deadline a replica does not have. Of many locks some are"
            " always being renewed.",
            query(series("lockwatch_store_locks_behind", STORE), OF_SERVER),
            unit=units.Short,
        ),
        graph(
            "What became of the locks",
            "Locks that were held when the store may have lost data: kept by their holder, lost"
            " before their deadline, taken by another one (overlapped: while the old holder"
            " believes in it), or over as they would have been anyway.",
            query(fates, "{{store}}: {{fate}}" + house.AT_SITE),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "Generation changes",
            "Times the store may have lost data: a restart, a new replication history, a flush."
            " Those of the fingerprint are also seen when the agent was restarted in between.",
            query(increase("lockwatch_store_generation_changes_total", STORE), OF_STORE),
            query(f"changes({generation}[$__rate_interval])", f"fingerprint of {OF_STORE}"),
            unit=units.Short,
            bars=True,
        ),
    ]


def sampling():
    bucket = rate("lockwatch_store_sample_duration_seconds_bucket", STORE)
    batches = rate("lockwatch_store_sample_duration_seconds_count", STORE)
    hints = rate("lockwatch_store_hints_total", STORE)
    listening = increase("lockwatch_store_wake_up_reconnects_total", STORE)
    scanned = series("lockwatch_pattern_scan_timestamp_seconds", STORE)
    return [
        graph(
            "Duration of a batch",
            "Round trips of batches: half and 99 % of them were faster than this.",
            query(f"histogram_quantile(0.5, {bucket})", f"50 % {OF_STORE}"),
            query(f"histogram_quantile(0.99, {bucket})", f"99 % {OF_STORE}"),
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
            query(batches, OF_STORE),
            unit=units.OpsPerSecond,
        ),
        graph(
            "Errors",
            "Failed batches and refused tasks per second, by reason. Reasons that did not occur are"
            " left out.",
            query(
                f"{rate('lockwatch_store_errors_total', STORE)} > 0", f"{{{{reason}}}}: {OF_STORE}"
            ),
            unit=units.CountsPerSecond,
        ),
        graph(
            "Reconnects",
            "Connections made after the first, and times that it was begun anew to listen to"
            " changes. After any timeout the connection is closed and dialled anew.",
            query(increase("lockwatch_store_reconnects_total", STORE), OF_STORE),
            query(listening, f"listening: {OF_SERVER}"),
            unit=units.Short,
            bars=True,
        ),
        graph(
            "Skipped ticks",
            "Ticks that found the sweep before still under way: the store is slow, or there are too"
            " many tasks for the interval.",
            query(rate("lockwatch_store_skipped_ticks_total", STORE), OF_STORE),
            unit=units.CountsPerSecond,
        ),
        graph(
            "Locks of patterns",
            "Keys that match each pattern and are watched, and those that are left out because there"
            " are more than its max_keys.",
            query(series("lockwatch_pattern_keys", STORE), OF_PATTERN),
            query(series("lockwatch_pattern_left_out", STORE), f"left out: {OF_PATTERN}"),
            unit=units.Short,
        ),
        graph(
            "Age of the scan for patterns",
            "Time since the newest complete search for keys that match. A new lock is seen after the"
            " next one.",
            query(f"time() - {scanned}", OF_PATTERN),
            unit=units.Seconds,
        ),
        timeline(
            "Wake-ups",
            "Whether each server tells of changed keys. Where it does not, changes are seen at the"
            " pace of the interval.",
            query(series("lockwatch_store_wake_ups", STORE), OF_SERVER),
            mappings=house.WAKES,
            height=8,
            width=12,
        ),
        graph(
            "Hints",
            "Changed keys that the servers told of, per second, by what came of it.",
            query(hints, f"{{{{outcome}}}}: {OF_SERVER}"),
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
            "Resident memory",
            "Memory that the agent uses.",
            query(series("process_resident_memory_bytes", AGENT), "{{instance}}"),
            unit=units.BytesIEC,
        ),
        graph(
            "Virtual memory",
            "Addresses that the agent has; most of them cost nothing.",
            query(series("process_virtual_memory_bytes", AGENT), "{{instance}}"),
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
        graph(
            "Lost log lines",
            "Log lines that could not be written to standard error, or not fast enough.",
            query(increase("lockwatch_log_lines_lost_total", AGENT), "{{instance}}"),
            unit=units.Short,
            bars=True,
        ),
    ]


def scrapes():
    return [
        graph(
            "Duration of a scrape",
            "How long Prometheus took to scrape the agent. A scrape never asks a store.",
            query(series("scrape_duration_seconds", AGENT), "{{instance}}"),
            unit=units.Seconds,
        ),
        graph(
            "Series",
            "Samples of one scrape: what the agent costs Prometheus. 14 to 24 for each task, a few"
            " more in trouble, and many more with `metrics: full`.",
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

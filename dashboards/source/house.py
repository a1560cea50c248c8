"""The parts that all dashboards are built from, so that they look and behave alike."""

import json

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    text,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import (
    common as kinds,
    dashboard as model,
    heatmap as heatmaps,
    prometheus as prom,
    text as texts,
    units,
)

from queries import (
    OF_SITE,
    OUR_ALERTS,
    VERDICTS,
    firing,
    problems,
    series,
    worst,
    worst_increase,
)

DATASOURCE = kinds.DataSourceRef(type_val="prometheus", uid="${datasource}")
FILES = "https://github.com/lockwatch/lockwatch/blob/main"
# Where the agents show them, or what their `links` say, as in alerts.
RUNBOOKS = "${runbooks}"
# What a link to another dashboard always keeps.
SITE_KEPT = "${cluster:queryparam}&${namespace:queryparam}"
KEPT = f"${{datasource:queryparam}}&{SITE_KEPT}&${{job:queryparam}}&${{__url_time_range}}"
# What the links at the top keep, by where they lead.
KEPT_BY = {
    "lockwatch-overview": ["${datasource:queryparam}", SITE_KEPT, "${job:queryparam}"],
    "lockwatch-task": ["${datasource:queryparam}", SITE_KEPT, "${job:queryparam}"],
    "lockwatch-agent": [
        "${datasource:queryparam}",
        SITE_KEPT,
        "${job:queryparam}",
        "${store:queryparam}",
    ],
}
GRID_WIDTH = 24
# The legend of a task.
# Where nobody names a site, its labels are empty.
AT_SITE = " {{cluster}} {{namespace}} {{env}}"
OF_TASK = "{{task}} ({{store}})" + AT_SITE

# Thresholds: colours from the value on at which each begins.
Steps = list[tuple[float | None, str]]
BLUE: Steps = [(None, "blue")]
GREEN: Steps = [(None, "green")]
BAD_FROM_1: Steps = [(None, "green"), (1, "red")]
GOOD_FROM_1: Steps = [(None, "red"), (1, "green")]
AVAILABILITY: Steps = [(None, "red"), (0.99, "orange"), (0.999, "green")]
LOST_SECONDS: Steps = [(None, "green"), (1, "orange"), (60, "red")]


# --- queries


def query(expr: str, legend: str = "__auto") -> prometheus.Dataquery:
    """A query over the dashboard's time range."""
    return _query(expr, legend).range()


def now(expr: str, legend: str = "__auto") -> prometheus.Dataquery:
    """A query for the end of the time range."""
    return _query(expr, legend).instant()


def rows(expr: str) -> prometheus.Dataquery:
    """A query whose series become the rows of a table."""
    return now(expr).format(prom.PromQueryFormat.TABLE)


def buckets(expr: str) -> prometheus.Dataquery:
    """A query for the buckets of a histogram."""
    return query(expr, "{{le}}").format(prom.PromQueryFormat.HEATMAP)


def _query(expr: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().datasource(DATASOURCE).expr(expr).legend_format(legend)


# --- what values mean


def mapping(texts: dict[int, tuple[str, str]]) -> list[model.ValueMapping]:
    """Texts and colours for single values."""
    results = {
        str(value): model.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(texts.items())
    }
    return [model.ValueMap(options=results)]


VERDICT = mapping(VERDICTS)
YES_NO = mapping({1: ("yes", "green"), 0: ("no", "dark-blue")})
UP_DOWN = mapping({1: ("up", "green"), 0: ("down", "red")})
READABLE = mapping({1: ("readable", "green"), 0: ("blind", "red")})
# A server that only witnesses is no fault.
DECIDES = mapping({1: ("decides", "green"), 0: ("witness", "blue")})
# By polling alone changes are seen later, but seen.
WAKES = mapping({1: ("tells of changes", "green"), 0: ("polled alone", "orange")})
HOLDS = mapping({1: ("holds", "green")})
PRESENT = mapping({1: ("present", "red")})
SUCCEEDED = mapping({1: ("succeeded", "green"), 0: ("failed", "red")})
PAGES = mapping({1: ("wait", "orange"), 0: ("go out", "green")})
SEVERITY = [
    model.ValueMap(
        options={
            name: model.ValueMappingResult(text=name, color=color, index=index)
            for index, (name, color) in enumerate({"critical": "red", "warning": "orange"}.items())
        }
    )
]


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    return (
        dashboard.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=color) for value, color in steps])
    )


# --- panels: each has a title, a description, a size and its queries


def stat_panel(
    title,
    description,
    *queries,
    steps=BLUE,
    unit=units.Short,
    mappings=None,
    width=4,
    text=None,
    link=None,
    nothing=None,
):
    """The newest value, large; `nothing` is shown where there is none, and that is no fault."""
    panel = _panel(stat.Panel(), title, description, queries, width, 4).unit(unit)
    panel = panel.thresholds(thresholds(steps))
    panel = (
        panel.color_mode(kinds.BigValueColorMode.BACKGROUND)
        .graph_mode(kinds.BigValueGraphMode.NONE)
        .text_mode(text or kinds.BigValueTextMode.AUTO)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
    )
    if link:
        panel = panel.data_links([link])
    if nothing:
        panel = panel.no_value(nothing)
    return panel.mappings(mappings) if mappings else panel


def graph(title, description, *queries, unit, width=12, limits=(), bars=False, link=None, low=0):
    """Values over time; `limits` names the series that are thresholds and not measurements."""
    panel = _panel(timeseries.Panel(), title, description, queries, width, 8).unit(unit)
    panel = panel.thresholds(thresholds(GREEN))
    panel = (
        panel.draw_style(kinds.GraphDrawStyle.BARS if bars else kinds.GraphDrawStyle.LINE)
        .fill_opacity(60 if bars else 8)
        .line_width(1)
        .show_points(kinds.VisibilityMode.AUTO)
        .legend(_legend().calcs(["lastNotNull", "max"]))
        .tooltip(_tooltip())
    )
    if low is not None:
        panel = panel.min(low)
    if bars:
        panel = panel.decimals(0)
    for name in limits:
        panel = panel.override_by_name(name, _DASHED)
    return panel.data_links([link]) if link else panel


def timeline(title, description, *queries, mappings, height, width=GRID_WIDTH, link=None):
    """One row per series, coloured by its state."""
    panel = _panel(statetimeline.Panel(), title, description, queries, width, height)
    panel = (
        panel.unit(units.NoUnit)
        .mappings(mappings)
        .thresholds(thresholds([(None, "transparent")]))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .merge_values(True)
        .per_page(20)
        .show_value(kinds.VisibilityMode.AUTO)
        .row_height(0.85)
        .fill_opacity(80)
        .line_width(0)
        .legend(_legend())
        .tooltip(_tooltip())
    )
    return panel.data_links([link]) if link else panel


def ranking(title, description, expr, *, unit, steps):
    """The tasks that lead a list, as bars."""
    panel = _panel(bargauge.Panel(), title, description, [now(expr, OF_TASK)], 8, 8)
    return (
        panel.unit(unit)
        .min(0)
        .thresholds(thresholds(steps))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .orientation(kinds.VizOrientation.HORIZONTAL)
        .display_mode(kinds.BarGaugeDisplayMode.BASIC)
        .value_mode(kinds.BarGaugeValueMode.TEXT)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .data_links([TO_SERIES_TASK])
    )


def heat(title, description, expr):
    """The buckets of a histogram of durations over time."""
    panel = _panel(heatmap.Panel(), title, description, [buckets(expr)], 12, 8)
    return (
        panel.calculate(False)
        .y_axis(heatmap.YAxisConfig().unit(units.Seconds))
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmaps.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .exponent(0.5)
            .steps(64)
        )
        .cell_gap(1)
    )


def note(title, description, words):
    """Words, in Markdown."""
    panel = text.Panel().title(title).description(description).span(GRID_WIDTH).height(6)
    return panel.mode(texts.TextMode.MARKDOWN).content(words)


def grid(title, description, columns, *queries, height=10, sort=None, descending=True):
    """A table: rows with equal labels become one; `columns` names and orders what is shown, and the
    rest is hidden."""
    panel = _panel(table.Panel(), title, description, queries, GRID_WIDTH, height)
    fields = [column.field for column in columns]
    panel = (
        panel.unit(units.NoUnit)
        .thresholds(thresholds([(None, "text")]))
        .filterable(True)
        .cell_height(kinds.TableCellHeight.SM)
        .transformations(
            [
                model.DataTransformerConfig(id_val="merge", options={}),
                model.DataTransformerConfig(
                    id_val="filterFieldsByName", options={"include": {"names": fields}}
                ),
                model.DataTransformerConfig(
                    id_val="organize",
                    options={
                        "excludeByName": {},
                        "indexByName": {field: index for index, field in enumerate(fields)},
                        "renameByName": {column.field: column.title for column in columns},
                    },
                ),
            ]
        )
    )
    if sort:
        by = common.TableSortByFieldState().display_name(sort).desc(descending)
        panel = panel.sort_by([by])
    for column in columns:
        panel = panel.override_by_name(column.title, column.properties())
    return panel


class Column:
    """One column of a table: the field as Prometheus' data source names it, and how it is shown."""

    def __init__(
        self,
        field,
        title,
        *,
        unit=None,
        mappings=None,
        steps=None,
        link=None,
        width=None,
        decimals=None,
    ):
        self.field, self.title = field, title
        self.unit, self.mappings, self.steps, self.link = unit, mappings, steps, link
        self.width, self.decimals = width, decimals

    def properties(self) -> list[model.DynamicConfigValue]:
        shown = {
            "unit": self.unit,
            "decimals": self.decimals,
            "mappings": self.mappings,
            "thresholds": thresholds(self.steps).build() if self.steps else None,
            "links": [self.link.build()] if self.link else None,
            "custom.width": self.width,
        }
        if self.mappings or self.steps:
            shown["custom.cellOptions"] = kinds.TableColoredBackgroundCellOptions(
                mode=kinds.TableCellBackgroundDisplayMode.BASIC
            )
        return [
            model.DynamicConfigValue(id_val=id, value=value)
            for id, value in shown.items()
            if value is not None
        ]


def site_columns() -> list[Column]:
    """What tells equal names apart; columns that no row has are not shown."""
    return [Column(label, label.capitalize(), width=110) for label in OF_SITE.split(", ")]


def problems_table(*selects, height, of_tasks=True):
    """What is wrong now."""
    about = [
        Column("task", "Task", link=TO_ROWS_TASK),
        Column("store", "Store", link=TO_ROWS_STORE),
    ]
    about = about if of_tasks else about[1:]
    columns = [
        Column("severity", "Severity", mappings=SEVERITY, width=90),
        Column("problem", "Problem", link=TO_PROBLEMS, width=200),
        *about,
        *site_columns(),
        Column("Value", "For, or ago", unit=units.Seconds, decimals=0, width=150),
    ]
    panel = grid(
        "Problems",
        "What the alerting rules say is wrong now: for how long it has been so, or, of what"
        " happened, how long ago. Empty while all is well, or while the rules are not loaded.",
        columns,
        rows(problems(", ".join(["severity", "problem", *(column.field for column in about)]), *selects)),
        height=height,
        sort="Severity",
        descending=False,
    )
    return panel.no_value("No problem is known.")


def problems_timeline(*selects, height):
    """What was wrong, and when."""
    present = f"{problems('problem, task, store', *selects)} >= bool 0"
    return timeline(
        "Problems over time",
        "When the alerting rules said that something was wrong. What happened shows for a while.",
        query(present, "{{problem}} " + OF_TASK),
        mappings=PRESENT,
        height=height,
    )


def alerts_table(description, select, about, *, height=5):
    """The alerts that fire, with their runbooks; `about` are the labels that tell what an alert is
    about."""
    by = "alertname, severity, task, store, job, instance"
    fires = f"max by ({by}, {OF_SITE}) ({firing(select)})"
    since = f"1000 * {worst('ALERTS_FOR_STATE', f'{OUR_ALERTS}, {select}', by)} and {fires}"
    columns_about = {
        "task": Column("task", "Task", link=TO_ROWS_TASK),
        "store": Column("store", "Store", width=160),
        "job": Column("job", "Job", width=160),
        "instance": Column("instance", "Agent", width=200),
    }
    columns = [
        Column("severity", "Severity", mappings=SEVERITY, width=90),
        Column("alertname", "Alert", link=TO_RUNBOOK),
        *(columns_about[label] for label in about),
        *site_columns(),
        Column("Value #B", "Active since", unit=units.DateTimeFromNow, width=150),
    ]
    panel = grid("Firing alerts", description, columns, rows(fires), rows(since), height=height)
    return panel.no_value("No alert fires.")


def _panel(panel, title, description, queries, width, height):
    panel = panel.title(title).description(description).datasource(DATASOURCE)
    panel = panel.span(width).height(height)
    for letter, target in zip("ABCDEFGHIJKLMNOP", queries):
        panel = panel.with_target(target.ref_id(letter))
    return panel


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(kinds.LegendDisplayMode.LIST)
        .placement(kinds.LegendPlacement.BOTTOM)
    )


def _tooltip() -> common.VizTooltipOptions:
    multi = common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI)
    return multi.sort(kinds.SortOrder.DESCENDING)


_DASHED = [
    model.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 8]}),
    model.DynamicConfigValue(id_val="custom.fillOpacity", value=0),
    model.DynamicConfigValue(id_val="custom.showPoints", value="never"),
]


# --- links


class DataLink(Builder[dict[str, object]]):
    """A link from a value. The SDK's own class is for links at the top of a dashboard, and would
    add their fields."""

    def __init__(self, title: str, url: str, new_tab: bool = False):
        self._link = {"title": title, "url": url, "targetBlank": new_tab}

    def build(self) -> dict[str, object]:
        return self._link


def to_task(task: str, store: str) -> DataLink:
    url = f"/d/lockwatch-task?var-task={task}&var-store={store}&{KEPT}"
    return DataLink("Open the task", url)


def to_agent(select: str) -> DataLink:
    return DataLink("Open agent and store", f"/d/lockwatch-agent?{select}&{KEPT}")


TO_ROWS_TASK = to_task(
    "${__data.fields.task:percentencode}", "${__data.fields.store:percentencode}"
)
TO_SERIES_TASK = to_task(
    "${__field.labels.task:percentencode}", "${__field.labels.store:percentencode}"
)
TO_ROWS_STORE = to_agent("var-store=${__data.fields.store:percentencode}")
TO_RUNBOOK = DataLink(
    "Open the runbook", f"{RUNBOOKS}/${{__data.fields.alertname}}", new_tab=True
)
TO_PROBLEMS = DataLink("What it means", f"{FILES}/docs/problems.md", new_tab=True)


# --- variables


def one_of(name: str, label: str, labels_of: str) -> dashboard.QueryVariable:
    """A variable that has one value."""
    definition = f"label_values({labels_of}, {name})"
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        # 1: values of a label.
        .query(
            {
                "qryType": 1,
                "query": definition,
                "refId": "PrometheusVariableQueryEditor-VariableQuery",
            }
        )
        .definition(definition)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .regex("")
        .multi(False)
        .include_all(False)
    )


def any_of(
    name: str, label: str, labels_of: str, all_value: str | None = ".+"
) -> dashboard.QueryVariable:
    """A variable that has many values, at first all."""
    variable = one_of(name, label, labels_of).multi(True).include_all(True)
    everything = model.VariableOption(selected=True, text=["All"], value=["$__all"])
    variable = variable.current(everything)
    return variable.all_value(all_value) if all_value else variable


DATASOURCE_VARIABLE = (
    dashboard.DatasourceVariable("datasource").label("Data Source").type("prometheus").regex("")
)
# Where no target has such a label there is only "All", which fits series without it, too.
SITE_VARIABLES = [
    any_of("cluster", "Cluster", "lockwatch_build_info", all_value=".*"),
    any_of("namespace", "Namespace", 'lockwatch_build_info{cluster=~"$cluster"}', all_value=".*"),
]
# The links of any agent; nothing where none is configured. Nobody chooses it.
RUNBOOKS_VARIABLE = one_of("runbooks", "Runbooks", 'lockwatch_links_info{runbooks!=""}').hide(
    model.VariableHide.HIDE_VARIABLE
)
# "All" lists the jobs one by one: a pattern for any job would also find the `up` of whatever else
# Prometheus scrapes.
JOB_VARIABLE = any_of("job", "Job", "lockwatch_build_info", all_value=None)


# --- annotations


def mark(
    name: str, color: str, expr: str, title: str, text: str = "", tags: str = ""
) -> dashboard.AnnotationQuery:
    """Marks in all graphs where the expression has a value."""
    return (
        dashboard.AnnotationQuery()
        .name(name)
        .datasource(DATASOURCE)
        .enable(True)
        .icon_color(color)
        .expr(expr)
        .title_format(title)
        .text_format(text)
        .tag_keys(tags)
        .step("15s")
    )


def alert_marks(*selects: str) -> dashboard.AnnotationQuery:
    fires = " or ".join(firing(select) for select in selects)
    return mark("Alerts", "red", fires, "{{alertname}}", tags="severity,task,store")


def restart_marks(select: str) -> dashboard.AnnotationQuery:
    expr = f"changes({series('process_start_time_seconds', select)}[$__rate_interval]) > 0"
    return mark("Agent restarts", "yellow", expr, "Agent restarted", "{{instance}}")


def generation_marks(select: str) -> dashboard.AnnotationQuery:
    changes = worst_increase("lockwatch_store_generation_changes_total", select, by="store")
    title = "The store may have lost data"
    return mark("Generation changes", "purple", f"{changes} > 0", title, "{{store}}" + AT_SITE)


# --- dashboards

TITLES = {
    "lockwatch-overview": "lockwatch / Overview",
    "lockwatch-task": "lockwatch / Task",
    "lockwatch-agent": "lockwatch / Agents and stores",
}


def dashboard_json(
    uid: str, description: str, variables, annotations, sections, since: str, folded=()
) -> str:
    """The whole dashboard; `sections` are titles with their panels, and so are the last ones,
    `folded`, which are closed at first."""
    runbooks = _top_link("Runbooks", RUNBOOKS).icon("doc").target_blank(True)
    board = (
        dashboard.Dashboard(TITLES[uid])
        .uid(uid)
        .description(description)
        .tags(["lockwatch"])
        .readonly()
        .timezone("browser")
        .time(since, "now")
        .refresh("30s")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .variables([DATASOURCE_VARIABLE, *variables, RUNBOOKS_VARIABLE])
        .annotations(annotations)
        .links([*_links_to_others(uid), runbooks])
    )
    for title, panels in sections:
        board = board.with_row(dashboard.Row(title))
        for panel in panels:
            board = board.with_panel(panel)
    for title, panels in folded:
        row = dashboard.Row(title)
        for panel in panels:
            row = row.with_panel(panel)
        board = board.with_row(row)
    return json.dumps(_finished(board.build()), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _finished(board: model.Dashboard) -> model.Dashboard:
    """Adds what the SDK's builders cannot, and removes what Grafana's schema does not have."""
    for id, panel in enumerate(_all_panels(board), start=1):
        panel.id_val = id
        if isinstance(panel, model.Panel):
            # Without it Grafana takes the panel for one of version 6, and converts it.
            panel.plugin_version = "11.0.0"
        if panel.type_val == "table":
            panel.options.footer = None
    for variable in board.templating.list_val:
        # Of variables that are intervals.
        variable.auto = variable.auto_min = variable.auto_count = None
    for link in board.links or []:
        # Shown at the top, and not in a menu.
        link.placement = None
    return board


def _all_panels(board: model.Dashboard):
    for panel in board.panels or []:
        yield panel
        if isinstance(panel, model.RowPanel):
            yield from panel.panels


def _links_to_others(uid: str) -> list[dashboard.DashboardLink]:
    """Links that keep the time range and what the other dashboard can use: a choice of tasks would
    hide the rest there."""
    return [
        _top_link(title.removeprefix("lockwatch / "), f"/d/{other}?{'&'.join(KEPT_BY[other])}")
        .icon("dashboard")
        .keep_time(True)
        for other, title in TITLES.items()
        if other != uid
    ]


def _top_link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).type(model.DashboardLinkType.LINK).url(url)

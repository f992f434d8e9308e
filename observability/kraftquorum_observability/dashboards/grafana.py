"""Makes Grafana's JSON of a dashboard, by Grafana's own SDK.

The SDK has a build for each Grafana. Here it is the one for the oldest Grafana that the dashboards
are for, so that they have no field that it does not know: each Grafana migrates older dashboards
when it loads them, and none migrates newer ones.
"""

from __future__ import annotations

import itertools
import json
import string
from collections.abc import Callable
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import (
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from .parts import Annotation, Dashboard, Panel, Query, Values, Variable

TAG = "kraftquorum"
SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
STEP = "15s"
"""No panel asks for points closer than that, however far one zooms in."""

Builder = Any
"""A panel's builder: the kinds share their methods, but no type."""


def dashboard_json(dashboard: Dashboard) -> str:
    """The dashboard as it is committed."""
    built = json.loads(json.dumps(_builder(dashboard).build(), cls=JSONEncoder))
    for annotation in dashboard.annotations:
        queries = built["annotations"]["list"]
        query = next(query for query in queries if query["name"] == annotation.name)
        # The fields of Prometheus' own annotations, which the SDK's general type does not have.
        query |= {"step": STEP, "titleFormat": annotation.name, "textFormat": annotation.text}
    return json.dumps(built, indent=2, sort_keys=True) + "\n"


def _builder(dashboard: Dashboard) -> builders.Dashboard:
    builder = (
        builders.Dashboard(dashboard.title)
        .uid(dashboard.uid)
        .description(dashboard.description)
        .tags([TAG])
        .refresh("10s")
        .time("now-30m", "now")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .link(
            builders.DashboardLink("kraftquorum")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(
            builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
    )
    for variable in dashboard.variables:
        builder = builder.with_variable(_variable(variable))
    for annotation in dashboard.annotations:
        builder = builder.annotation(_annotation(annotation))
    ids = itertools.count(1)
    for heading, panels in dashboard.rows:
        builder = builder.with_row(builders.Row(heading).id(next(ids)))
        for panel in panels:
            builder = builder.with_panel(_panel(panel).id(next(ids)))
    return builder


def _variable(variable: Variable) -> builders.QueryVariable:
    series = f"{variable.metric}{{{variable.selector}}}"
    builder = (
        builders.QueryVariable(variable.name)
        .label(variable.title)
        .datasource(SOURCE)
        .query(f"label_values({series}, {variable.label})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )
    if variable.several:
        return (
            builder.multi(True)
            .include_all(True)
            .all_value(".*")
            .current(models.VariableOption(text="All", value="$__all"))
        )
    return builder


def _annotation(annotation: Annotation) -> builders.AnnotationQuery:
    return (
        builders.AnnotationQuery()
        .name(annotation.name)
        .datasource(SOURCE)
        .enable(True)
        .icon_color(annotation.color)
        .expr(annotation.expression)
    )


def _panel(panel: Panel) -> Builder:
    builder = (
        _KINDS[panel.kind](panel)
        .title(panel.title)
        .description(panel.description)
        .datasource(SOURCE)
        .unit(panel.unit)
        .span(panel.width)
        .height(panel.height)
        .interval(STEP)
    )
    for letter, query in zip(string.ascii_uppercase, panel.queries, strict=False):
        builder = builder.with_target(_target(letter, query, panel))
    if panel.values is not None and panel.kind != "table":
        builder = builder.mappings([_mapping(panel.values)])
    if panel.limits:
        builder = builder.thresholds(_thresholds(panel.limits)).color_scheme(_by_thresholds())
    elif panel.values is not None and panel.kind != "table":
        builder = builder.color_scheme(_by_thresholds())
    return builder


def _target(letter: str, query: Query, panel: Panel) -> prometheus.Dataquery:
    target = prometheus.Dataquery().ref_id(letter).expr(query.expression).datasource(SOURCE)
    if panel.kind == "table":
        return target.instant().format(PromQueryFormat.TABLE)
    return target.range().legend_format(query.legend or "__auto")


def _mapping(values: Values) -> models.ValueMap:
    return models.ValueMap(
        options={
            str(value): models.ValueMappingResult(text=shown.text, color=shown.color, index=index)
            for index, (value, shown) in enumerate(values.items())
        }
    )


def _thresholds(limits: tuple[tuple[float | None, str], ...]) -> builders.ThresholdsConfig:
    steps = [models.Threshold(value=value, color=color) for value, color in limits]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _by_thresholds() -> builders.FieldColor:
    return builders.FieldColor().mode(models.FieldColorModeId.THRESHOLDS)


def _figure(_panel: Panel) -> Builder:
    return (
        stat.Panel()
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def _lanes(_panel: Panel) -> Builder:
    return (
        statetimeline.Panel()
        .show_value(common.VisibilityMode.AUTO)
        .merge_values(True)
        .row_height(0.85)
        .fill_opacity(85)
        .line_width(0)
        .legend(common_builders.VizLegendOptions().show_legend(False))
    )


def _lines(_panel: Panel) -> Builder:
    return (
        timeseries.Panel()
        .line_width(1)
        .fill_opacity(8)
        .show_points(common.VisibilityMode.NEVER)
        .axis_soft_min(0)
        .legend(
            common_builders.VizLegendOptions()
            .show_legend(True)
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
        )
    )


def _bars(panel: Panel) -> Builder:
    return (
        _lines(panel)
        .draw_style(common.GraphDrawStyle.BARS)
        .fill_opacity(80)
        .stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    )


def _table(panel: Panel) -> Builder:
    letters = string.ascii_uppercase[: len(panel.queries)]
    fields = {letter: f"Value #{letter}" for letter in letters}
    order = {fields.get(column, column): place for place, column in enumerate(panel.columns)}
    rename = {fields.get(column, column): heading for column, heading in panel.columns.items()}
    hidden = {name: True for name in ("Time", *fields.values()) if name not in rename}
    builder = (
        table.Panel()
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            models.DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": hidden,
                    "indexByName": order,
                    "renameByName": rename,
                },
            )
        )
    )
    if panel.sort:
        by = common_builders.TableSortByFieldState().display_name(panel.sort).desc(False)
        builder = builder.sort_by([by])
    if panel.values is not None:
        builder = _safety_column(builder, panel.values)
    return builder


def _safety_column(builder: Builder, values: Values) -> Builder:
    """Words and colours for the column that says how safe it is, and a link on the name."""
    link = (
        "/d/kraftquorum-quorum?${__url_time_range}&${datasource:queryparam}"
        "&var-cluster=${__data.fields.Cluster}&var-namespace=${__data.fields.Namespace}"
        "&var-quorum=${__data.fields.Quorum}"
    )
    mapping = json.loads(json.dumps(_mapping(values), cls=JSONEncoder))
    return builder.override_by_name(
        "Safe?",
        [
            models.DynamicConfigValue(id_val="mappings", value=[mapping]),
            models.DynamicConfigValue(
                id_val="custom.cellOptions", value={"type": "color-background"}
            ),
        ],
    ).override_by_name(
        "Quorum",
        [models.DynamicConfigValue(id_val="links", value=[{"title": "Open", "url": link}])],
    )


_KINDS: dict[str, Callable[[Panel], Builder]] = {
    "figure": _figure,
    "lanes": _lanes,
    "lines": _lines,
    "bars": _bars,
    "table": _table,
}

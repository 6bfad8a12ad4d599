"""A Grafana dashboard for Ottla, built from the tables in grafana_panels.py."""

from __future__ import annotations

import json
from typing import Any

from ottla.cli.generated.grafana_panels import ROWS, SERVICE_ROWS, STATS, VARIABLES, Panel

UID = "ottla-overview"
SOURCE = {"type": "prometheus", "uid": "${source}"}
WIDTH = 24
STAT_HEIGHT, GRAPH_HEIGHT = 4, 8


def dashboard(title: str) -> str:
    """Return the dashboard as JSON, to be imported into Grafana."""
    panels = _stats(STATS)
    top = STAT_HEIGHT
    for name, row in (*ROWS, *SERVICE_ROWS):
        panels.append({"type": "row", "title": name, "gridPos": _place(0, top, WIDTH, 1), "collapsed": False})
        top += 1
        for index, panel in enumerate(row):
            left = 0 if index % 2 == 0 else WIDTH // 2
            panels.append(_graph(panel, _place(left, top, WIDTH // 2, GRAPH_HEIGHT)))
            top += GRAPH_HEIGHT if index % 2 or index == len(row) - 1 else 0
    for number, each in enumerate(panels, 1):
        each["id"] = number
    made = {
        "uid": UID,
        "title": title,
        "tags": ["ottla", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": _variables()},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }
    return json.dumps(made, indent=2) + "\n"


def _variables() -> list[dict[str, Any]]:
    source: dict[str, Any] = {
        "name": "source",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
    }
    return [
        source,
        *(
            {
                "name": name,
                "label": name,
                "type": "query",
                "datasource": SOURCE,
                "query": {"query": query, "refId": name},
                "definition": query,
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": ["All"], "value": ["$__all"]},
                "sort": 1,
            }
            for name, query in VARIABLES.items()
        ),
    ]


def _stats(panels: tuple[Panel, ...]) -> list[dict[str, Any]]:
    width = WIDTH // len(panels)
    return [
        {
            **_panel("stat", panel, _place(index * width, 0, width, STAT_HEIGHT)),
            "options": {
                "reduceOptions": {"calcs": ["lastNotNull"]},
                "colorMode": "value",
                "graphMode": "area",
            },
        }
        for index, panel in enumerate(panels)
    ]


def _graph(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    options = {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return {**_panel("timeseries", panel, place), "options": options}


def _panel(kind: str, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    return {
        "type": kind,
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}

"""Alerts, recording rules and dashboards: made here, committed in the chart, proved on Prometheus.

- `rules`, `alerts`: what Prometheus computes and what it wakes somebody for.
- `dashboards`: what people look at; needs the dev extra.
- `generate`: writes both into `charts/kraftquorum`.
- `programs`, `prometheus`: a real Prometheus and its promtool.
- `scenario`, `check`: a quorum with faults, and every expression evaluated on it.
- `preview`: the panels drawn from the series of that run.
"""

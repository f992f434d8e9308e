"""Alerts, recording rules and dashboards: written here, committed in the chart.

- `rules`, `alerts`: what Prometheus computes, and when it notifies;
- `labels`: the labels that every rule keeps;
- `dashboards`: the Grafana dashboards, which need the dev extra;
- `generate`: writes both into `charts/kraftquorum`.

`monitoringlib` proves them on a real Prometheus.
"""

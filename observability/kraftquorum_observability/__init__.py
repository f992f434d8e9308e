"""Alerts, recording rules and dashboards: written here, committed in the chart.

- `rules`, `alerts`: what Prometheus computes, and when it notifies.
- `dashboards`: the Grafana dashboards; needs the dev extra.
- `generate`: writes both into `charts/kraftquorum`.

`monitoringlib` proves them on a real Prometheus.
"""

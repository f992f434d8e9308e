"""Prometheus and Grafana beside a development cluster, to prove rules and dashboards on.

- `programs`, `prometheus`, `discovery`: a real Prometheus with its promtool and its targets.
- `scenario`, `check`: a quorum with faults, and every expression evaluated on it.
- `preview`: the panels drawn from the series of that run.
"""

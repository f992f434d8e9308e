"""The metrics that the running node reports to Prometheus.

- `node_metrics`: the table of all; `leader_metrics`: those of a leader; `tls_metrics`: of TLS;
- `gauges`, `before_scrape`: keep them current, and make them of the scrape's own moment.
"""

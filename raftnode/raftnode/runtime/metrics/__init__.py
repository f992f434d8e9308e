"""The metrics that the running node reports to Prometheus."""

"""Pictures of the dashboards, drawn from the series of a real run, for those without Grafana."""

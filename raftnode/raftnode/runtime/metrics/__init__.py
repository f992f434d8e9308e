"""What the running node reports to Prometheus."""

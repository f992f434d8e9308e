"""What the operator serves: metrics and the status page."""

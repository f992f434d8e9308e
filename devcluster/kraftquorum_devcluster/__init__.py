"""A real Kubernetes API on one machine."""

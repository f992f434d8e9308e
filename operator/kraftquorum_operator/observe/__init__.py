"""Reads facts from the Kubernetes API and the replicas into one frozen observation."""

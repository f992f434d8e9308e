"""What is there: read from the Kubernetes API and from the replicas, into one frozen snapshot."""

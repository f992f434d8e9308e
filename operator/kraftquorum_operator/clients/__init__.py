"""How the operator reaches the Kubernetes API and the replicas; nothing else opens a connection."""

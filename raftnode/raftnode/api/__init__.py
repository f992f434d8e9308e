"""The HTTP API: what people, programs and the operator see of a node."""

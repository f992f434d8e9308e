"""The node's disk: its room, its health, reads that may take long."""

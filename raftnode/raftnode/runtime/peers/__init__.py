"""The node and its peers: who is admitted, what is promised to them, frames to events."""

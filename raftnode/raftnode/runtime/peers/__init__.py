"""The node and its peers: their admission, promises to them, frames to events."""

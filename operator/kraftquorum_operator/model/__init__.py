"""The data that all folders share: resource, status, observation, objects, latch."""

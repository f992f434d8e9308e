"""The kraftquorum node."""

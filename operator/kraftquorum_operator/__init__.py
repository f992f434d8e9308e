"""The kraftquorum operator."""

"""What the facts mean: copied or damaged storage, claims given up, logs too large. Pure."""

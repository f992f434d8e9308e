"""The commands of `kraftquorum-pipeline`, one module each; its function `run` is the command."""

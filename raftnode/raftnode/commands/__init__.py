"""The commands of `raftnode`, a module per group; `raftnode.cli` combines them.

Only the modules that a command line names are imported, so that each starts fast.
"""

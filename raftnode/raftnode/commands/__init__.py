"""What `raftnode` does, a module per group of commands; `raftnode.cli` puts them together.

Only the modules that a command line names are imported, so that each starts fast.
"""

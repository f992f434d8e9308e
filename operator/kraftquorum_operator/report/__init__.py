"""Reports to people: status, conditions and events, made from an observation and a decision.

Pure. Nothing here is ever read back to decide something.
"""

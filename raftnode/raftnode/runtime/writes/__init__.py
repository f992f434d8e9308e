"""Clients' writes and the committed log: appended, flushed, applied."""

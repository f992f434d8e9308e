"""Clients' writes and the committed log: appending, flushing and applying."""

"""What one operator process remembers between two reconciliations.

Another process, or the next one, starts without it: nothing here decides what is safe.
"""

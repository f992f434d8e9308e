"""What to do next: a pure function of what is wanted, what is observed and the time.

Nothing here reads or writes anything. `decide` asks one file per concern, in
the order of S24: repair, shrink, grow, roll. Each asks the guards of
`guards.py`, and the first that blocks is what the quorum waits for.
"""

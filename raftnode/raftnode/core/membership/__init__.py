"""The voter set: changes of one voter, reassignments, and the raft.version that allows them."""

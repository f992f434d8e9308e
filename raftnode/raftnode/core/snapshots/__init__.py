"""How a replica fetches a snapshot in place of a log that the leader no longer has."""

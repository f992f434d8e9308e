"""What one operator process remembers between two reconciliations.

Another process, or the next one, starts without it: nothing here decides what is safe.

- `status_cache`: the last status of each quorum, for the status page;
- `image_turn`: which quorum changes to another default image now;
- `persistent_troubles`: which troubles last; `long_waits`: the pause of a quorum that waits for a
  person;
- `refused_requests`, `request_failures`: requests that the API server refused, or that failed.
"""

"""The status page: the cached statuses, in words, for a person on call.

`verdict` judges, `view` selects what the page shows, `render` makes HTML of it, `server` serves
it. No part sends a request to Kubernetes or to a node, and the page is read-only.
"""

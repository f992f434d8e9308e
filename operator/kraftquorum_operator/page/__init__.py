"""The status page: what the board holds, in words, for a person on call.

`verdict` judges, `view` says what is shown, `render` makes HTML of it, `server` serves it. None
of it asks Kubernetes or a node for anything, and nothing can be changed through it.
"""

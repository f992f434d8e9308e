"""Pages of the documentation as tests run them.

- `pages`    the blocks of a page: which a test runs by name, and what they print
- `reader`   a person who types the blocks of a page into a shell
- `kubectl`  `exec` and `port-forward` on the process node, which has neither
"""

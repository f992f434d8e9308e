"""The node's settings: one class, read from flags, the environment and a file.

- `model`: every setting with its unit, the reason for its default and what None or 0 mean;
  the reference page is made from it;
- `checks`: the rules between settings;
- `fields`: the types of settings; `values`: what their text stands for;
- `names`: what else a setting is called;
- `sources`: flags of `raftnode run`, `RAFTNODE_…` in the environment, the properties file.
"""

from raftnode.settings.model import NodeSettings
from raftnode.settings.names import DOCUMENT_NAMES, ENV_PREFIX
from raftnode.settings.sources import (
    Fault,
    find_faults,
    load_settings,
    read_properties,
    setting_called,
)

__all__ = [
    "DOCUMENT_NAMES",
    "ENV_PREFIX",
    "Fault",
    "NodeSettings",
    "find_faults",
    "load_settings",
    "read_properties",
    "setting_called",
]

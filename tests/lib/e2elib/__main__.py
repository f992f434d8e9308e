"""Says which cluster `make e2e` takes."""

import sys

from kraftquorum_devcluster.errors import DevClusterError

from .cluster import choose

if __name__ == "__main__":
    try:
        sys.stdout.write(f"{choose()}\n")
    except DevClusterError as error:
        sys.exit(f"{error}")

"""`python -m kraftquorum_bench`."""

import sys

from kraftquorum_bench.cli import main

sys.exit(main(sys.argv[1:]))

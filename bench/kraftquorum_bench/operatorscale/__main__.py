"""`python -m kraftquorum_bench.operatorscale`."""

import sys

from kraftquorum_bench.operatorscale.cli import main

sys.exit(main(sys.argv[1:]))

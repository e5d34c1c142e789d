"""`python -m fuselight_server`: the `fuselight` command where no script of that name is installed."""

import sys

from fuselight_server import main

sys.exit(main())

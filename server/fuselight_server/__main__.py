"""`python -m fuselight_server`: the `fuselight` command where no script of that name is installed."""

from fuselight_server import main

main()

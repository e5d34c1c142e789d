"""The folder that processes of a program under `fuselight run` have on their path while they start."""

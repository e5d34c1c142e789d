"""What the kernel of a notebook shows below a cell. `fuselight.notebook` finds it as an entry point."""

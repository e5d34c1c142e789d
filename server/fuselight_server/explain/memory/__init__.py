"""Whether the memory of a step fits into a device, and what is allocated at its peak."""

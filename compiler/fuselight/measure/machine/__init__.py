"""State of the machine that is measured on: device, clocks, memory, and other load."""

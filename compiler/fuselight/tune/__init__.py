"""The search for the fastest configuration: what each knob could gain, what is tried, and the race that decides."""

"""What a call of the target allocates: estimated on fake tensors, in eager mode and with Inductor's wrapper.

Invariant: nothing of the size of the model is allocated, and no value is computed.
"""

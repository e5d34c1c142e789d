"""Reads the structured logs of a torch.compile job (TORCH_TRACE): `reader.read_jobs` is the entry, `model` the data."""

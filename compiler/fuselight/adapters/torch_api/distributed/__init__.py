"""torch.distributed without a network: one process is a rank of a world of any size."""

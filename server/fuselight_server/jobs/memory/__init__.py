"""What the allocator of a job's processes did, from the snapshots of `torch.cuda.memory._dump_snapshot`."""

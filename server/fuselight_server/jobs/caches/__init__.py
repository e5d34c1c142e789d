"""What the caches of torch.compile did for a job, why they missed, and where the time of a start went."""

"""What torch.compile does to a call → Report parts."""

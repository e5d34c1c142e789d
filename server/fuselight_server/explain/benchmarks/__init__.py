"""What was measured, for people: times by line, the verdict in words, what changed since an earlier run."""

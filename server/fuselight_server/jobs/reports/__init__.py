"""Logs of a job → Reports as a run yields them, with local paths."""

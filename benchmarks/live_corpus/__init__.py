"""The corpus of edits: how often a prediction is what a run of the edited text finds (docs/results/live.md)."""

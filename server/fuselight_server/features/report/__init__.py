"""The report for the client, as a tree."""

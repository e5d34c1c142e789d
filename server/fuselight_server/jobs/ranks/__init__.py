"""What the ranks of a job did: a table, their first differences, a timeline, and the collectives that they wait in."""

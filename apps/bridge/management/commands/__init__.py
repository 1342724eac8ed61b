"""Commands of the processes."""

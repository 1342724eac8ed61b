"""Messages that wait for a moment: what of them is in memory, and what in runs on the disk."""

"""Messages as operators look at them: found, read, produced, and what became of each."""

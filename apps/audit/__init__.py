"""Who did what, when, from where, and what came of it: a chain of entries that only grows."""

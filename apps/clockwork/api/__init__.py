"""REST face of the clockwork."""

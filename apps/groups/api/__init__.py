"""REST face of the groups."""

"""REST face of the delays."""

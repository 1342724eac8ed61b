"""REST face of the topics."""

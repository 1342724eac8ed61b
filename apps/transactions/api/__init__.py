"""REST face of the transactions."""

"""REST face of messages and of the store they lie in."""

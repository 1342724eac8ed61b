"""REST face of accounts, grants and tokens."""

"""Commands about accounts and tokens."""

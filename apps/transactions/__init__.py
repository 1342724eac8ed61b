"""Transactions nobody has decided yet, as operators see and decide them."""

"""REST of the audit log."""

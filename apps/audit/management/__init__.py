"""Commands of the audit log."""

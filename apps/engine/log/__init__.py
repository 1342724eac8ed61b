"""The commit log: the single append-only truth. Knows frames of records, not what they mean."""

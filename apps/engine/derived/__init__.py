"""Structures rebuilt from the log; deleting them loses nothing but time."""

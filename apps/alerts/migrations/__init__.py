"""Schema of the alerts, step by step."""

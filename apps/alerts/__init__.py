"""Alerts: rules over the newest samples, what they found, and who is told. Never reads the log."""

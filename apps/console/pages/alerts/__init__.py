"""Pages of alerts: what fires, rules, silences, channels."""

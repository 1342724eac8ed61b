"""REST interface of the alerts."""

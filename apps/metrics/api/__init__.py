"""REST face of the series."""

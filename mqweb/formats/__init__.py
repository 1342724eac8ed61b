"""The way dates and times are written in the admin, by language."""

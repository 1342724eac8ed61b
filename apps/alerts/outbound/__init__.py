"""The way out of the house: which addresses may be posted to, and how. Knows no row."""

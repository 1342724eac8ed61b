"""The internal door: control verbs for the product's own processes."""

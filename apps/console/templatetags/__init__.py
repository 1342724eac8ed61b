"""How numbers and moments look on pages."""

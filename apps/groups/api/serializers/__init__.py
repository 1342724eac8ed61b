"""Shapes of groups on the wire. Offsets travel as strings, because they have 64 bits."""

"""Shapes of dead letters and jobs on the wire."""

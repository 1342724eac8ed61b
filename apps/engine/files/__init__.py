"""Regions of bytes that survive. Knows nothing about messages."""

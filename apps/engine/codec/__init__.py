"""Bytes to values and back. Imports no files, clock or locks."""

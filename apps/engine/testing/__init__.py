"""Doubles and contract suites shipped with the engine. Imported by tests only."""

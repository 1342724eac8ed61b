"""Suites of promises: inherit one, supply its fixture, and an implementation is held to them."""

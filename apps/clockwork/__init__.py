"""The clockwork: steps that run again and again, once at a time, on whichever worker is free."""

"""Commands of the console: the demonstration."""

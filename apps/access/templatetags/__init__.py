"""Whether buttons may be pressed."""

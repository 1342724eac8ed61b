"""Who has read how far."""

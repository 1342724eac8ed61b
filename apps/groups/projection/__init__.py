"""What the engine knows of groups, written into rows. Each part is right after any repetition."""

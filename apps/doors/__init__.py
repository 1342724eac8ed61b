"""Front doors: each translates one protocol to the verbs of the engine, and decides nothing."""

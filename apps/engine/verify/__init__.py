"""Looking a store over without serving it: verify everything, show records, make files anew."""

"""Everything mqweb is made of; who may import whom is proved by import-linter in pyproject.toml."""

"""Who may do what: accounts, roles, grants, tokens, and the one decision every door asks."""

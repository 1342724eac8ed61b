"""Shared plumbing of the web side: problems, request ids, paging, health, logging."""

"""The composition root: settings, addresses, and the ASGI application of one process."""

"""Carriers of calls: blocking sockets and an event loop. Know no meaning of what they carry."""

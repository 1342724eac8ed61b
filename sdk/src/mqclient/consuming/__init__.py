"""Receiving: by lease (simple) and by position (lite pull), for threads and for asyncio."""

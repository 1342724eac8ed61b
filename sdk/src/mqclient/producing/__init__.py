"""Sending: one core of queues, batches and retries, and a face for threads and for asyncio."""

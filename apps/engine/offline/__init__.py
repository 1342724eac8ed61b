"""A store that another process writes, read by its files alone: queues, ranges, arrays of records.

Knows the layout of a store; owns nothing and changes nothing but its own leases.
"""

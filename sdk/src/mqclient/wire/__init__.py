"""Bytes and values, both ways. Knows no sockets, threads, loops or clocks."""

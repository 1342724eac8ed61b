"""Requests, answers and plans of several requests. Knows no sockets, threads or loops."""

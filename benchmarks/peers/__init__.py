"""The products we compare with, each with its usual Python client, one module each."""

"""Spark's data source `mqweb`: topics as DataFrames and streams, DataFrames into topics.

Spark itself finds this module when it is on the path of its drivers and executors.
"""

from pyspark_mqweb.source import DefaultSource

__all__ = ["DefaultSource"]

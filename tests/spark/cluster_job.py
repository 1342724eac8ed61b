"""A job as a user submits it: knows the source by the files that were sent along, nothing else."""

import sys

from pyspark.sql import SparkSession
from pyspark_mqweb import DefaultSource

store, server = sys.argv[1:]
spark = SparkSession.builder.appName("cluster job").getOrCreate()
spark.dataSource.register(DefaultSource)
frame = spark.read.format("mqweb").option("path", store).option("subscribe", "orders").load()
counts = {row["partition"]: row["count"] for row in frame.groupBy("partition").count().collect()}
print("COUNTS", sorted(counts.items()))
modules = spark.range(1).rdd.map(lambda _: __import__("pyspark_mqweb").__file__).collect()
print("CODE", modules[0])
rows = frame.where("partition = 0").selectExpr("value", "concat('k', offset) as key")
rows.write.format("mqweb").mode("append").option("server", server).option(
    "topic", "payments"
).save()
through = spark.read.format("mqweb").option("server", server).option("subscribe", "payments").load()
print("SENT", through.count())
spark.stop()

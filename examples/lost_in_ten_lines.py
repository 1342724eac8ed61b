"""The numbers of producers that no message has, in ten lines. Docs: docs/PIPELINE.md."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").getOrCreate()
log = spark.read.format("mqweb").option("path", "data/store").option("subscribe", "orders")
rows = log.schema("partition int, headers array<struct<key: string, value: binary>>").load()
of = rows.selectExpr("partition", "map_from_entries(headers) of")
names = "string(of['SEQ_PRODUCER']) producer", "bigint(string(of['SEQ_NUMBER'])) seq"
numbered = of.selectExpr("partition", *names).where("seq > 0")
before = "lag(seq, 1, 0L) over (partition by partition, producer order by seq)"
ends = numbered.selectExpr("*", f"{before} + 1 first_lost", "seq - 1 last_lost")
ends.where("first_lost <= last_lost").orderBy("partition", "first_lost").show()

"""Ring 3: the Spark driver. A data source and sink named `coterie`, and jobs that turn topics into tables.

spark = make_session()
df = spark.readStream.format("coterie").option("kafka.bootstrap.servers", "127.0.0.1:9092")
          .option("subscribe", "flights").option("kafka.group.id", "delays").load()
"""

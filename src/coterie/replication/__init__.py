"""Partitions with several replicas, as Apache Kafka 2.6 keeps them: leader and follower, ISR, leader epochs, high watermark.

Pure: `leader` and `follower` are the two roles of one broker's replica of one partition, `partition` changes between them
when the controller says so, and `replicas` holds all the partitions of a broker. The log, ZooKeeper and the network are the
driver's.
"""

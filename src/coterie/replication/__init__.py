"""Partitions with several replicas, as Apache Kafka 2.6 keeps them: leader and follower, ISR, leader epochs, high watermark.

Pure: `leader` and `follower` are the two roles of one broker's replica of one partition; `replicas` holds all the replicas of a
broker, and changes their roles when the controller says so. The log, ZooKeeper and the network are the driver's.
"""

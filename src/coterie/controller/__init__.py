"""The controller of a cluster, as in Apache Kafka 2.6: one broker, elected through ZooKeeper, decides who leads each partition.

Pure: `machine` is a course of steps whose effects are ZooKeeper's operations and requests to brokers; `election` holds the
rules, `nodes` what the nodes hold. Every write of a controller names the version of /controller_epoch, so that one that was
replaced changes nothing.
"""

"""Stories of share groups in virtual time: members that are slow, crash and refuse records, and brokers that die."""

"""`coterie pipeline`: jobs on Spark, and the pages of a history."""

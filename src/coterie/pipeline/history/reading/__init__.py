"""What is read before anything is computed: the records of a partition, the sound batches of them, their groups' values."""

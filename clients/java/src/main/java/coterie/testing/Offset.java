package coterie.testing;

/** A committed offset of a partition. */
public record Offset(String topic, int partition, long offset) {}

package coterie.testing;

/** The number of records behind a group's committed offset. */
public record Lag(String topic, int partition, long lag) {}

package coterie.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

/** Ten tests of Kafka's own consumer, each with a fault that a container's Kafka cannot be asked for. */
@ExtendWith(CoterieExtension.class)
class ConsumerTest {
    private static final String GROUP = "billing";
    private static final List<Offset> COMMITTED = List.of(new Offset("orders", 0, 2));
    private static final long DEADLINE_MS = 10_000;

    @BeforeEach
    void twoRecords(Broker broker) {
        broker.createTopic("orders", 2, null);
        broker.produce("orders", List.of("a".getBytes(), "b".getBytes()), null, 0);
    }

    private static KafkaConsumer<String, String> consumer(Broker broker, String clientId) {
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                Map.of(
                        "bootstrap.servers", broker.bootstrapAddress(),
                        "group.id", GROUP,
                        "client.id", clientId,
                        "auto.offset.reset", "earliest",
                        "enable.auto.commit", "false",
                        "heartbeat.interval.ms", "50",
                        "fetch.max.wait.ms", "50",
                        "retry.backoff.ms", "10",
                        "request.timeout.ms", "2000"),
                new StringDeserializer(),
                new StringDeserializer());
        consumer.subscribe(List.of("orders"));
        return consumer;
    }

    private static List<String> read(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long deadlineMs = System.currentTimeMillis() + DEADLINE_MS;
        while (values.size() < count) {
            assertTrue(System.currentTimeMillis() < deadlineMs, values.size() + " of " + count + " records came");
            consumer.poll(Duration.ofMillis(50)).forEach(one -> values.add(one.value()));
        }
        return values;
    }

    @Test
    void recordsArrive(Broker broker) {
        try (var consumer = consumer(broker, "one")) {
            assertEquals(List.of("a", "b"), read(consumer, 2));
        }
    }

    @Test
    void aCommitIsRetriedWhileTheCoordinatorLoads(Broker broker) {
        try (var consumer = consumer(broker, "one")) {
            read(consumer, 2);
            broker.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", 2, null, null);
            consumer.commitSync();
            broker.untilCommitted(GROUP, COMMITTED);
            assertEquals(3, broker.requested("OffsetCommit"));
        }
    }

    @Test
    void aHeldSyncGroupDelaysTheFirstRecord(Broker broker) throws Exception {
        Rule held = broker.hold("SyncGroup");
        ExecutorService thread = Executors.newSingleThreadExecutor();
        try (var consumer = consumer(broker, "one")) {
            Future<List<String>> reading = thread.submit(() -> read(consumer, 2));
            broker.untilHeld(held);
            ControlException late = assertThrows(ControlException.class, () -> broker.untilStable(GROUP, 1, 0.05));
            assertTrue(late.isTimeout());
            broker.release(held);
            assertEquals(2, reading.get().size());
        } finally {
            thread.shutdown();
        }
    }

    @Test
    void aMemberWhoseSessionExpiredJoinsAgain(Broker broker) {
        try (var consumer = consumer(broker, "one")) {
            read(consumer, 2);
            broker.expire(GROUP, "one");
            read(consumer, 2); // nothing was committed: both records again
        }
    }

    @Test
    void anotherCoordinator(Broker broker) {
        try (var consumer = consumer(broker, "one")) {
            read(consumer, 2);
            broker.moveCoordinator(GROUP);
            consumer.commitSync();
            broker.untilCommitted(GROUP, COMMITTED);
        }
    }

    @Test
    void aConnectionIsCutInsteadOfACommit(Broker broker) {
        try (var consumer = consumer(broker, "one")) {
            read(consumer, 2);
            broker.cut("OffsetCommit");
            consumer.commitSync();
            broker.untilCommitted(GROUP, COMMITTED);
        }
    }

    @Test
    void aSlowFetch(Broker broker) {
        broker.delay("Fetch", 100);
        try (var consumer = consumer(broker, "one")) {
            assertEquals(2, read(consumer, 2).size());
        }
    }

    @Test
    void connectionsDrop(Broker broker) {
        try (var consumer = consumer(broker, "one")) {
            read(consumer, 2);
            assertTrue(broker.dropConnections("one") > 0);
            broker.produce("orders", List.of("c".getBytes()));
            assertEquals(List.of("c"), read(consumer, 1));
        }
    }

    @Test
    void lagIsWhatIsNotCommitted(Broker broker) {
        try (var consumer = consumer(broker, "one")) {
            read(consumer, 2);
            consumer.commitSync();
            broker.produce("orders", List.of("c".getBytes()));
            assertEquals(1, broker.untilLag(GROUP, 1, null, null));
        }
    }

    @Test
    void refusalsSayWhy(Broker broker) {
        ControlException refused = assertThrows(ControlException.class, () -> broker.createTopic("orders"));
        assertEquals("TOPIC_ALREADY_EXISTS", refused.code());
    }
}

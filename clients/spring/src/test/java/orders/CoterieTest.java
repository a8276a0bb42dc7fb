package orders;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import coterie.testing.Broker;
import coterie.testing.Rule;
import java.time.Duration;
import java.util.List;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.kafka.config.KafkaListenerEndpointRegistry;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;

/** The test of EmbeddedKafkaTest on coterie, and nine with a fault that the embedded Kafka cannot offer. */
@SpringBootTest(
        properties = {
            "spring.kafka.consumer.properties.heartbeat.interval.ms=50",
            "spring.kafka.consumer.properties.fetch.max.wait.ms=50",
            "spring.kafka.consumer.properties.retry.backoff.ms=10",
            "spring.kafka.consumer.properties.request.timeout.ms=500",
        })
class CoterieTest {
    private static final Broker BROKER = Broker.start();

    @Autowired
    private Orders orders;

    private int before;

    @BeforeAll
    static void lookOften() {
        Awaitility.setDefaultPollInterval(Duration.ofMillis(10));
    }

    @DynamicPropertySource
    static void address(DynamicPropertyRegistry registry) {
        BROKER.createTopic("orders", 3, null);
        registry.add("spring.kafka.bootstrap-servers", BROKER::bootstrapAddress);
    }

    /** The consumer leaves before the broker ends: else it looks for its coordinator for 30 s. */
    @AfterAll
    static void stop(@Autowired KafkaListenerEndpointRegistry listeners) {
        listeners.stop();
        BROKER.close();
    }

    @BeforeEach
    void isAMember() {
        BROKER.untilStable("billing", 1, null);
        before = orders.sum();
    }

    /** The sum of this test's orders, 42, is committed at the end of the partition. */
    private void ordersArriveAndAreCommitted(int partition) {
        BROKER.produce("orders", List.of("10".getBytes(), "32".getBytes()), null, partition);
        await().untilAsserted(() -> assertEquals(before + 42, orders.sum()));
        await().untilAsserted(() -> assertEquals(0, BROKER.untilLag("billing", null, 0, null)));
    }

    @Test
    void ordersAreAddedUp() {
        ordersArriveAndAreCommitted(0);
    }

    @Test
    void aCommitIsRetriedWhileTheCoordinatorLoads() {
        int commits = BROKER.requested("OffsetCommit");
        BROKER.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", 2, null, null);
        ordersArriveAndAreCommitted(1);
        assertTrue(BROKER.requested("OffsetCommit") >= commits + 3);
    }

    @Test
    void aConnectionIsCutInsteadOfACommit() {
        BROKER.cut("OffsetCommit");
        ordersArriveAndAreCommitted(2);
    }

    @Test
    void theResponseToACommitIsLost() {
        int commits = BROKER.requested("OffsetCommit");
        BROKER.loseResponse("OffsetCommit");
        ordersArriveAndAreCommitted(0);
        BROKER.untilRequested("OffsetCommit", commits + 2);
    }

    @Test
    void anotherCoordinator() {
        BROKER.moveCoordinator("billing");
        ordersArriveAndAreCommitted(1);
    }

    @Test
    void aMemberWhoseSessionExpiredJoinsAgain() {
        BROKER.expire("billing", BROKER.members("billing").keySet().iterator().next());
        BROKER.untilStable("billing", 1, null);
        ordersArriveAndAreCommitted(2);
    }

    @Test
    void connectionsDrop() {
        assertTrue(BROKER.dropConnections() > 0);
        ordersArriveAndAreCommitted(0);
    }

    @Test
    void aSlowFetch() {
        BROKER.delay("Fetch", 100, 3, null, null);
        ordersArriveAndAreCommitted(1);
    }

    @Test
    void aFetchIsRefused() {
        BROKER.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", 1, null, null);
        ordersArriveAndAreCommitted(2);
    }

    @Test
    void ordersAreAddedUpWhileTheirCommitIsHeld() {
        Rule held = BROKER.hold("OffsetCommit");
        BROKER.produce("orders", List.of("42".getBytes()), null, 0);
        BROKER.untilHeld(held);
        assertEquals(before + 42, orders.sum());
        assertEquals(1, BROKER.untilLag("billing", 1, null, null));
        BROKER.release(held);
        assertEquals(0, BROKER.untilLag("billing", null, 0, null));
    }
}

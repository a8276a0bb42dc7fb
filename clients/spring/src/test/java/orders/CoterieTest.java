package orders;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;

import coterie.testing.Broker;
import coterie.testing.Offset;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.test.annotation.DirtiesContext;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;

/** The tests of EmbeddedKafkaTest on coterie, and one that the embedded Kafka cannot offer. */
@SpringBootTest
@DirtiesContext // the application ends before the broker does
class CoterieTest {
    private static final Broker BROKER = Broker.start();

    @Autowired
    private Orders orders;

    @DynamicPropertySource
    static void address(DynamicPropertyRegistry registry) {
        BROKER.createTopic("orders", 3, null);
        registry.add("spring.kafka.bootstrap-servers", BROKER::bootstrapAddress);
    }

    @AfterAll
    static void stop() {
        BROKER.close();
    }

    @BeforeEach
    void isAMember() {
        BROKER.untilStable("billing", 1, null);
    }

    @Test
    void ordersAreAddedUp() {
        int before = orders.sum();
        BROKER.produce("orders", List.of("10".getBytes(), "32".getBytes()), null, 0);
        await().untilAsserted(() -> assertEquals(before + 42, orders.sum()));
    }

    @Test
    void aCommitIsRetriedWhileTheCoordinatorLoads() {
        int before = orders.sum();
        BROKER.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", 2, null, null);
        BROKER.produce("orders", List.of("42".getBytes()), null, 2);
        BROKER.untilCommitted("billing", List.of(new Offset("orders", 2, 1)), null);
        assertEquals(before + 42, orders.sum());
    }
}

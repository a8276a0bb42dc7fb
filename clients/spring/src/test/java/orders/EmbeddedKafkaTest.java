package orders;

import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.test.context.EmbeddedKafka;
import org.springframework.test.annotation.DirtiesContext;

/** What CoterieTest replaces. */
@SpringBootTest(properties = "spring.kafka.bootstrap-servers=${spring.embedded.kafka.brokers}")
@EmbeddedKafka(topics = "orders", partitions = 3)
@DirtiesContext
class EmbeddedKafkaTest {
    @Autowired
    private Orders orders;

    @Autowired
    private KafkaTemplate<String, String> kafka;

    @Test
    void ordersAreAddedUp() {
        kafka.send("orders", 0, null, "10");
        kafka.send("orders", 0, null, "32");
        await().untilAsserted(() -> assertEquals(42, orders.sum()));
    }
}

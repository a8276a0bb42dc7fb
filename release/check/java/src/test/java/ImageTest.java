import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

class ImageTest {
  private static final DockerImageName IMAGE = DockerImageName.parse("localhost/coterie:7.6.0");

  @Test
  void apachesModule() throws Exception {
    try (KafkaContainer container = new KafkaContainer(IMAGE.asCompatibleSubstituteFor("apache/kafka"))) {
      container.start();
      check(container.getBootstrapServers());
    }
  }

  @Test
  void confluentsModule() throws Exception {
    try (ConfluentKafkaContainer container =
        new ConfluentKafkaContainer(IMAGE.asCompatibleSubstituteFor("confluentinc/cp-kafka"))) {
      container.start();
      check(container.getBootstrapServers());
    }
  }

  private static void check(String servers) throws Exception {
    try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", servers), new StringSerializer(), new StringSerializer())) {
      producer.send(new ProducerRecord<>("t", "hello")).get();
    }
    Map<String, Object> settings = Map.of("bootstrap.servers", servers, "group.id", "g", "auto.offset.reset", "earliest");
    try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("t"));
      var records = consumer.poll(Duration.ofSeconds(20));
      assertEquals("hello", records.iterator().next().value());
    }
  }
}

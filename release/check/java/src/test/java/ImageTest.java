import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

class ImageTest {
  private static final DockerImageName IMAGE = DockerImageName.parse("localhost/coterie:7.6.0");

  @ParameterizedTest
  @ValueSource(strings = {"apache/kafka", "apache/kafka-native"})
  void apachesModule(String replaced) throws Exception {
    check(new KafkaContainer(IMAGE.asCompatibleSubstituteFor(replaced)), KafkaContainer::getBootstrapServers);
  }

  @Test
  void confluentsModule() throws Exception {
    check(
        new ConfluentKafkaContainer(IMAGE.asCompatibleSubstituteFor("confluentinc/cp-kafka")),
        ConfluentKafkaContainer::getBootstrapServers);
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  @SuppressWarnings("deprecation")
  void formerModule(boolean isKraft) throws Exception {
    var container =
        new org.testcontainers.containers.KafkaContainer(IMAGE.asCompatibleSubstituteFor("confluentinc/cp-kafka"));
    check(
        isKraft ? container.withKraft() : container,
        org.testcontainers.containers.KafkaContainer::getBootstrapServers);
  }

  private static <C extends GenericContainer<C>> void check(C created, Function<C, String> bootstrapServers)
      throws Exception {
    try (C container = created) {
      long began = System.nanoTime();
      container.start();
      System.out.printf("%s: %d ms%n", container.getClass().getName(), (System.nanoTime() - began) / 1_000_000);
      check(bootstrapServers.apply(container));
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

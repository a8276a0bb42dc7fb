import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A consumer that processes, then commits; or a producer. Arguments: consumer or producer, and settings KEY=VALUE. */
public class CertifiedClient {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv("COTERIE_BOOTSTRAP_SERVERS"));
        for (int i = 1; i < args.length; i++) {
            String[] words = args[i].split("=", 2);
            settings.put(words[0], words[1]);
        }
        if (args[0].equals("consumer")) {
            consume(settings);
        } else {
            produce(settings);
        }
    }

    private static void consume(Properties settings) {
        settings.put("group.id", System.getenv("COTERIE_GROUP"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(System.getenv("COTERIE_TOPIC")));
        try {
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records) {
                    System.out.println(record.value().strip());
                }
                System.out.flush();
                if (!records.isEmpty()) {
                    commit(consumer);
                }
            }
        } catch (WakeupException end) {
            consumer.close();
        }
    }

    /** The group may have rebalanced: the records are read again, by their next owner. */
    private static void commit(KafkaConsumer<String, String> consumer) {
        try {
            consumer.commitSync();
        } catch (CommitFailedException | RebalanceInProgressException | RetriableException error) {
            System.err.println(error);
        }
    }

    private static void produce(Properties settings) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String value = line;
                producer.send(new ProducerRecord<>(System.getenv("COTERIE_TOPIC"), value), (metadata, error) -> {
                    System.out.println(error == null ? value : "");
                    System.out.flush();
                    if (error != null) {
                        System.err.println(error);
                    }
                });
            }
        }
    }
}

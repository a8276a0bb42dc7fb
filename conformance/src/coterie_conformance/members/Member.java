import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group until SIGTERM: prints what it owns and each record that it reads. Arguments: address, group, topic, protocol. */
public class Member {
    public static void main(String[] args) throws InterruptedException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("group.protocol", args[3]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (args[3].equals("classic")) {
            settings.put("heartbeat.interval.ms", "500");
        }
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                closed.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(args[2]));
        Set<Integer> owned = Set.of();
        try {
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                Set<Integer> now =
                    consumer.assignment().stream().map(TopicPartition::partition).collect(Collectors.toCollection(TreeSet::new));
                if (!now.equals(owned)) {
                    owned = now;
                    System.out.println("{\"owned\": " + owned + "}");
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    System.out.println("{\"read\": [" + record.partition() + ", " + record.offset() + "]}");
                }
                if (!records.isEmpty()) {
                    commit(consumer);
                }
            }
        } catch (WakeupException end) {
            consumer.close();
        } finally {
            closed.countDown();
        }
    }

    /** A commit that a rebalance refuses is made by the next one, or its records are read again. */
    private static void commit(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            consumer.commitSync();
        } catch (RebalanceInProgressException | CommitFailedException refused) {
            System.err.println(refused);
        }
    }
}

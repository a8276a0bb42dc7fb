import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of groups, each in a thread. Argument: address. Reads "open NAME GROUP TOPIC PROTOCOL INSTANCE SESSION_MS POLL_MS" and
 * "close NAME" from standard input; prints what each member owns, with the time, whenever it changes, and what it reads.
 * "warm TOPIC": a consumer of another group joins and leaves, so that the JVM has loaded what a member needs.
 */
public class Members {
    public static void main(String[] args) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("open")) {
                Member member = new Member(args[0], words);
                members.put(words[1], member);
                member.start();
            } else if (words[0].equals("warm")) {
                warm(args[0], words[1]);
            } else {
                members.get(words[1]).closing.countDown();
            }
        }
        System.exit(0);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String address, String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("group.id", words[2]);
        settings.put("client.id", words[1]);
        settings.put("auto.offset.reset", "earliest");
        if (words[4].equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("session.timeout.ms", words[6]);
            String assignor = words[4].equals("eager") ? "RangeAssignor" : "CooperativeStickyAssignor";
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        }
        if (!words[5].equals("-")) {
            settings.put("group.instance.id", words[5]);
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void warm(String address, String topic) {
        String group = "warm-" + UUID.randomUUID();
        String[] words = {"open", group, group, topic, "eager", "-", "10000", "0"};
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(address, words)) {
            consumer.subscribe(List.of(topic));
            while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                // until records are here
            }
        }
    }

    static class Member extends Thread implements ConsumerRebalanceListener {
        final CountDownLatch closing = new CountDownLatch(1);
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final long pollMs;
        private final String name;
        private final TreeSet<Integer> owned = new TreeSet<>();

        Member(String address, String[] words) {
            name = words[1];
            pollMs = Long.parseLong(words[7]);
            consumer = consumer(address, words);
            consumer.subscribe(List.of(words[3]), this);
        }

        @Override
        public void run() {
            while (closing.getCount() > 0) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (!records.isEmpty()) {
                    String read = records.partitions().stream().map(partition -> range(partition, records.records(partition)))
                        .collect(Collectors.joining(", "));
                    print(String.format("\"read\": {%s}", read));
                    try {
                        closing.await(pollMs, TimeUnit.MILLISECONDS);
                    } catch (InterruptedException never) {
                        throw new IllegalStateException(never);
                    }
                }
            }
            owned.clear();
            print();
            consumer.close();
        }

        private static String range(TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records) {
            long last = records.get(records.size() - 1).offset();
            return String.format("\"%d\": [%d, %d]", partition.partition(), records.get(0).offset(), last);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(partition -> owned.remove(partition.partition()));
            print();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            partitions.forEach(partition -> owned.add(partition.partition()));
            print();
        }

        private void print() {
            String partitions = owned.stream().map(String::valueOf).collect(Collectors.joining(", "));
            print(String.format("\"ms\": %d, \"owned\": [%s]", System.currentTimeMillis(), partitions));
        }

        private void print(String fields) {
            synchronized (System.out) {
                System.out.printf("{\"name\": \"%s\", %s}%n", name, fields);
            }
        }
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of groups, each in a thread. Argument: address. Reads "open NAME GROUP TOPIC PROTOCOL INSTANCE SESSION_MS" and "close
 * NAME" from standard input; prints what each member owns, with the time, whenever it changes.
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
            } else {
                members.get(words[1]).consumer.wakeup();
            }
        }
        System.exit(0);
    }

    static class Member extends Thread implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        private final String name;
        private final TreeSet<Integer> owned = new TreeSet<>();

        Member(String address, String[] words) {
            name = words[1];
            Properties settings = new Properties();
            settings.put("bootstrap.servers", address);
            settings.put("group.id", words[2]);
            settings.put("client.id", name);
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
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(words[3]), this);
        }

        @Override
        public void run() {
            try {
                while (true) {
                    consumer.poll(Duration.ofMillis(100));
                }
            } catch (WakeupException end) {
                owned.clear();
                print();
                consumer.close();
            }
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
            synchronized (System.out) {
                System.out.printf("{\"name\": \"%s\", \"ms\": %d, \"owned\": [%s]}%n", name, System.currentTimeMillis(), partitions);
            }
        }
    }
}

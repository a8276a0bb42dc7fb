import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A share consumer that does what its standard input says, line by line. Arguments: address, group, topic, mode. */
public class Sharer {
    private static final Duration NOW = Duration.ofMillis(200);
    private static KafkaShareConsumer<String, String> consumer;
    private static final Map<String, ConsumerRecord<String, String>> held = new HashMap<>();

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("share.acknowledgement.mode", args[3]);
        consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(args[2]));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            String result;
            try {
                result = run(words);
            } catch (RuntimeException error) {
                result = "{\"error\": \"" + error.getClass().getSimpleName() + "\"}";
            }
            System.out.println(result);
            if (words[0].equals("close")) {
                return;
            }
        }
    }

    private static String run(String[] words) {
        switch (words[0]) {
            case "poll":
                return poll(Duration.ofMillis(Long.parseLong(words[1])));
            case "acknowledge":
                consumer.acknowledge(record(words), AcknowledgeType.valueOf(words[3]));
                return "{}";
            case "renew":
                consumer.acknowledge(record(words), AcknowledgeType.RENEW);
                String renewed = commit();
                consumer.poll(NOW); // the renewed record comes back
                return renewed;
            case "commit":
                return commit();
            default:
                consumer.close();
                return "{}";
        }
    }

    private static ConsumerRecord<String, String> record(String[] words) {
        return held.get(words[1] + " " + words[2]);
    }

    private static String poll(Duration timeout) {
        List<String> records = new ArrayList<>();
        for (ConsumerRecord<String, String> r : consumer.poll(timeout)) {
            held.put(r.partition() + " " + r.offset(), r);
            records.add("[" + r.partition() + ", " + r.offset() + ", " + r.deliveryCount().orElse((short) 0) + ", \"" + r.value() + "\"]");
        }
        return "{\"records\": " + records + "}";
    }

    private static String commit() {
        List<String> failed = new ArrayList<>();
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> each : consumer.commitSync().entrySet()) {
            each.getValue().ifPresent(error -> failed.add("\"" + error.getClass().getSimpleName() + "\""));
        }
        return "{\"failed\": " + failed + "}";
    }
}

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group until SIGTERM. Arguments: address, group, topics or ^regex, KEY=VALUE...; commands: see programs.py. */
public class Crew {
    private static volatile long sleepMs;
    private static volatile long callbackMs;
    private static volatile String topics;

    public static void main(String[] args) throws InterruptedException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("auto.offset.reset", "earliest");
        Arrays.stream(args).skip(3).map(word -> word.split("=", 2)).forEach(pair -> settings.put(pair[0], pair[1]));
        topics = args[2];
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
        Thread control = new Thread(Crew::obey);
        control.setDaemon(true);
        control.start();
        String subscribed = "";
        try {
            while (true) {
                if (!subscribed.equals(topics)) {
                    subscribed = topics;
                    subscribe(consumer, subscribed);
                }
                consumer.poll(Duration.ofMillis(100));
                long pauseMs = sleepMs;
                sleepMs = 0;
                Thread.sleep(pauseMs);
            }
        } catch (WakeupException end) {
            consumer.close();
        } finally {
            closed.countDown();
        }
    }

    private static void subscribe(KafkaConsumer<byte[], byte[]> consumer, String names) {
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                long pauseMs = callbackMs;
                callbackMs = 0;
                try {
                    Thread.sleep(pauseMs);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            }
        };
        if (names.startsWith("^")) {
            consumer.subscribe(Pattern.compile(names), listener);
        } else {
            consumer.subscribe(Arrays.asList(names.split(",")), listener);
        }
    }

    private static void obey() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "sleep":
                        sleepMs = Long.parseLong(words[1]) * 1000;
                        break;
                    case "callback":
                        callbackMs = Long.parseLong(words[1]) * 1000;
                        break;
                    default:
                        topics = words[1];
                }
            }
        } catch (IOException end) {
            // the story is over
        }
    }
}

// Apache Kafka's own producers and consumers at work on a cluster. What they observe goes out on stdout, a line each:
//   S PROCESS PARTITION VALUE OFFSET    a record was acknowledged (OFFSET -1: whether it was written is unknown)
//   P PROCESS MOVED [PARTITION OFFSET:VALUE,OFFSET:VALUE...]...    a poll; MOVED is 1 where positions moved before it
//   C PROCESS    a member's commit was accepted
// Arguments: BOOTSTRAP TOPIC PARTITIONS WRITERS READERS MEMBERS GROUP. Readers read everything again and again, members share the
// partitions in a group. A line on stdin ends the writers, the end of stdin the others too.
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

public class ClusterLoad {
    static final String[] COMPRESSIONS = {"none", "gzip", "snappy", "lz4", "zstd"};
    static final int WINDOW = 8;
    static final long PAUSE_MS = 150;
    static volatile boolean stopped = false, writersStopped = false;
    static String bootstrap, topic, group;
    static int partitions;

    static synchronized void write(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static Map<String, Object> settings(Object... more) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("reconnect.backoff.max.ms", 200);
        settings.put("metadata.max.age.ms", 5000);
        for (int i = 0; i < more.length; i += 2) settings.put((String) more[i], more[i + 1]);
        return settings;
    }

    /** Several records at a time, each with the value of a counter, in windows that are waited for. */
    static void produce(int number) {
        String process = "java-writer-" + number;
        Random random = new Random(number);
        long count = 0;
        while (!writersStopped) {
            Map<String, Object> settings = settings(
                "acks", "all", "enable.idempotence", true, "request.timeout.ms", 5000, "delivery.timeout.ms", 30000,
                "linger.ms", 2, "compression.type", COMPRESSIONS[number % COMPRESSIONS.length]);
            try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                boolean isUsable = true;
                while (isUsable && !writersStopped) {
                    List<ProducerRecord<String, String>> records = new ArrayList<>();
                    List<Future<RecordMetadata>> futures = new ArrayList<>();
                    for (int i = random.nextInt(WINDOW); i >= 0; i--)
                        records.add(new ProducerRecord<>(
                            topic, random.nextInt(partitions), null, process + "-" + count++));
                    for (var one : records) futures.add(send(producer, one));
                    for (int i = 0; i < records.size(); i++) isUsable &= acknowledged(process, records.get(i), futures.get(i));
                    Thread.sleep(random.nextInt((int) PAUSE_MS));
                }
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    /** Null where the producer refuses the record itself: it has not been sent. */
    static Future<RecordMetadata> send(KafkaProducer<String, String> producer, ProducerRecord<String, String> one) {
        try {
            return producer.send(one);
        } catch (RuntimeException e) {
            System.err.println(e);
            return null;
        }
    }

    static boolean acknowledged(String process, ProducerRecord<String, String> one, Future<RecordMetadata> future)
            throws InterruptedException {
        long offset = -1;
        try {
            if (future != null) offset = future.get().offset();
        } catch (java.util.concurrent.ExecutionException e) {
            System.err.println(process + ": " + e.getCause());
        }
        write("S " + process + " " + one.partition() + " " + one.value() + " " + offset);
        return offset >= 0;
    }

    /** Everything from the beginning, then anew. */
    static void read(int number) {
        Random random = new Random(number);
        List<TopicPartition> all = new ArrayList<>();
        for (int p = 0; p < partitions; p++) all.add(new TopicPartition(topic, p));
        var settings = settings("isolation.level", "read_committed", "auto.offset.reset", "earliest", "enable.auto.commit", false);
        while (!stopped) {
            try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
                consumer.assign(all);
                consumer.seekToBeginning(all);
                int polls = 50 + random.nextInt(150);
                for (int i = 0; i < polls && !stopped; i++) polled("java-reader-" + number, consumer, i == 0);
            } catch (RuntimeException e) {
                System.err.println("java-reader-" + number + ": " + e);
            }
        }
    }

    /** A member of the group, which commits what it has written out. */
    static void join(int number) {
        String process = "java-member-" + number;
        boolean[] moved = {true};
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}

            @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                moved[0] = true;
            }
        };
        while (!stopped) {
            moved[0] = true;
            var settings = settings("group.id", group, "isolation.level", "read_committed", "auto.offset.reset", "earliest", "enable.auto.commit", false,
                "session.timeout.ms", 10000, "heartbeat.interval.ms", 1000, "default.api.timeout.ms", 20000);
            try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(topic), listener);
                boolean isUncommitted = false;
                while (!stopped) {
                    isUncommitted |= polled(process, consumer, moved);
                    if (isUncommitted) isUncommitted = !isCommitted(process, consumer);
                }
            } catch (RuntimeException e) {
                System.err.println(process + ": " + e);
            }
        }
    }

    static boolean isCommitted(String process, KafkaConsumer<String, String> consumer) {
        try {
            consumer.commitSync();
            write("C " + process);
            return true;
        } catch (CommitFailedException | org.apache.kafka.common.errors.RetriableException e) {
            System.err.println(e);
            return false;
        }
    }

    static boolean polled(String process, KafkaConsumer<String, String> consumer, boolean moved) {
        return polled(process, consumer, new boolean[] {moved});
    }

    static boolean polled(String process, KafkaConsumer<String, String> consumer, boolean[] moved) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty() && !moved[0]) return false;
        StringBuilder line = new StringBuilder("P " + process + " " + (moved[0] ? 1 : 0));
        moved[0] = false;
        for (TopicPartition partition : records.partitions()) {
            StringJoiner values = new StringJoiner(",");
            for (var one : records.records(partition)) values.add(one.offset() + ":" + one.value());
            line.append(" ").append(partition.partition()).append(" ").append(values);
        }
        write(line.toString());
        return !records.isEmpty();
    }

    static List<Thread> threads(int count, java.util.function.IntConsumer work) {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int number = i;
            Thread thread = new Thread(() -> work.accept(number));
            thread.start();
            threads.add(thread);
        }
        return threads;
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        partitions = Integer.parseInt(args[2]);
        group = args[6];
        List<Thread> all = new ArrayList<>(threads(Integer.parseInt(args[3]), ClusterLoad::produce));
        all.addAll(threads(Integer.parseInt(args[4]), ClusterLoad::read));
        all.addAll(threads(Integer.parseInt(args[5]), ClusterLoad::join));
        System.in.read();
        writersStopped = true;
        while (System.in.read() >= 0) {}
        stopped = true;
        for (Thread thread : all) thread.join();
    }
}

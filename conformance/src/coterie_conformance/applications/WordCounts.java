// Kafka Streams counts words: BOOTSTRAP APPLICATION-ID STATE-FOLDER GUARANTEE PROTOCOL. Records of "lines" begin with their word; "counts"
// gets each word with its count so far. Prints each state of the application.
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*;

public class WordCounts {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("application.id", args[1]);
        p.put("state.dir", args[2]);
        p.put("processing.guarantee", args[3]);
        p.put("default.key.serde", Serdes.StringSerde.class);
        p.put("default.value.serde", Serdes.StringSerde.class);
        p.put("num.stream.threads", "2");
        p.put("commit.interval.ms", "100");
        p.put("statestore.cache.max.bytes", "0");
        p.put("repartition.purge.interval.ms", "500");
        if (args[4].equals("streams")) {
            p.put("group.protocol", "streams"); // standbys and time-outs are the group's own settings on the broker
        } else {
            p.put("num.standby.replicas", "1");
            p.put("probing.rebalance.interval.ms", "60000");
            p.put("main.consumer.session.timeout.ms", "6000");
            p.put("main.consumer.heartbeat.interval.ms", "1000");
        }
        p.put("main.consumer.auto.offset.reset", "earliest");
        p.put("producer.transaction.timeout.ms", "10000");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
            .selectKey((k, line) -> line.substring(0, line.indexOf(' ')))
            .groupByKey()
            .count(Materialized.as("words"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), p);
        streams.setUncaughtExceptionHandler(e -> {
            System.out.println("failed " + e);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.out.println(now.toString().toLowerCase()));
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            stopped.countDown();
        }));
        streams.start();
        stopped.await();
    }
}

// Spring's KafkaAdmin on the broker of the argument: it makes a topic, then brings it to other settings and more partitions.
import java.util.*;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.KafkaAdmin;

public class SpringTopics {
    static final String NAME = "spring";
    static final long PATIENCE_MS = 30_000;

    /** The topic's own settings, once retention.ms is so: what is described follows a change after the change is answered. */
    static List<String> settings(Admin admin, String retentionMs) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, NAME);
        long endMs = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            List<String> settings = new ArrayList<>();
            try {
                for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries())
                    if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
                        settings.add(entry.name() + "=" + entry.value());
            } catch (ExecutionException notYet) {
                settings.add(notYet.getCause().toString());
            }
            Collections.sort(settings);
            if (settings.contains("retention.ms=" + retentionMs) || System.currentTimeMillis() > endMs) return settings;
            Thread.sleep(100);
        }
    }

    static int partitions(Admin admin, int expected) throws Exception {
        long endMs = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            int count = admin.describeTopics(List.of(NAME)).allTopicNames().get().get(NAME).partitions().size();
            if (count == expected || System.currentTimeMillis() > endMs) return count;
            Thread.sleep(100);
        }
    }

    static NewTopic topic(int partitions, String retentionMs) {
        return TopicBuilder.name(NAME).partitions(partitions).replicas(1).compact()
            .config("min.insync.replicas", "1").config("retention.ms", retentionMs).build();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> server = Map.of("bootstrap.servers", arguments[0]);
        KafkaAdmin spring = new KafkaAdmin(server);
        spring.setFatalIfBrokerNotAvailable(true);
        spring.setModifyTopicConfigs(true);
        try (Admin admin = Admin.create(server)) {
            spring.createOrModifyTopics(topic(2, "60000"));
            settings(admin, "60000").forEach(System.out::println);
            spring.createOrModifyTopics(topic(3, "120000"));
            settings(admin, "120000").forEach(System.out::println);
            System.out.println(partitions(admin, 3) + " partitions");
        }
        System.exit(0);
    }
}

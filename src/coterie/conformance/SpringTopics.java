// Spring's KafkaAdmin on the broker of the argument: it makes a topic, then brings it to other settings and more partitions.
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.KafkaAdmin;

public class SpringTopics {
    static final String NAME = "spring";

    static void print(String server) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, NAME);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", server))) {
            admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().stream()
                .filter(entry -> entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
                .sorted(Comparator.comparing(ConfigEntry::name))
                .forEach(entry -> System.out.println(entry.name() + "=" + entry.value()));
        }
    }

    public static void main(String[] arguments) throws Exception {
        KafkaAdmin admin = new KafkaAdmin(Map.of("bootstrap.servers", arguments[0]));
        admin.setFatalIfBrokerNotAvailable(true);
        admin.setModifyTopicConfigs(true);
        admin.createOrModifyTopics(TopicBuilder.name(NAME).partitions(2).replicas(1)
            .config("min.insync.replicas", "1").config("retention.ms", "60000").compact().build());
        Thread.sleep(500); // Kafka's metadata follows a moment later
        print(arguments[0]);
        admin.createOrModifyTopics(TopicBuilder.name(NAME).partitions(3).replicas(1)
            .config("min.insync.replicas", "1").config("retention.ms", "120000").compact().build());
        Thread.sleep(500);
        print(arguments[0]);
        System.out.println(admin.describeTopics(NAME).get(NAME).partitions().size() + " partitions");
        System.exit(0);
    }
}

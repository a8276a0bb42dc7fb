// Asks Apache Kafka's server-side assignors of consumer groups (KIP-848). Lines in and out as Assign.java's; what a member owns
// is its part of the last target assignment. A topic's id is its place among the topics.
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

public class AssignServerSide {
    record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }

    static Map<Uuid, Set<Integer>> partitions(String text, Map<String, Uuid> ids) {
        Map<Uuid, Set<Integer>> partitions = new HashMap<>();
        if (!text.equals("-"))
            for (String item : text.split(",")) {
                String[] sides = item.split(":");
                Set<Integer> numbers = new HashSet<>();
                for (String p : sides[1].split("\\+")) numbers.add(Integer.parseInt(p));
                partitions.put(ids.get(sides[0]), numbers);
            }
        return partitions;
    }

    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        String name = "";
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        while (in.hasNextLine()) {
            String[] w = in.nextLine().split(" ");
            if (w[0].equals("assignor")) name = w[1];
            if (w[0].equals("topic")) {
                Uuid id = new Uuid(7, ids.size() + 1);
                ids.put(w[1], id);
                names.put(id, w[1]);
                counts.put(id, Integer.parseInt(w[2]));
            }
            if (w[0].equals("member")) {
                Set<Uuid> subscribed = new HashSet<>();
                if (!w[5].equals("-")) for (String topic : w[5].split(",")) subscribed.add(ids.get(topic));
                Optional<String> instance = w[2].equals("-") ? Optional.empty() : Optional.of(w[2]);
                Map<Uuid, Set<Integer>> target = partitions(w[6], ids);
                target.forEach((id, numbers) -> {
                    for (int p : numbers) inverted.computeIfAbsent(id, t -> new HashMap<>()).put(p, w[1]);
                });
                members.put(w[1], new MemberSubscriptionAndAssignmentImpl(
                    Optional.empty(), instance, subscribed, new Assignment(Collections.unmodifiableMap(target))));
            }
            if (w[0].equals("end")) {
                boolean equal = members.values().stream().map(m -> m.subscribedTopicIds()).distinct().count() <= 1;
                SubscriptionType type = equal ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
                ConsumerGroupPartitionAssignor assignor = name.equals("range") ? new RangeAssignor() : new UniformAssignor();
                GroupSpec group = new GroupSpecImpl(members, type, inverted);
                long started = System.nanoTime();
                var given = assignor.assign(group, new Topics(counts)).members();
                out.append("ms ").append((System.nanoTime() - started) / 1e6).append('\n');
                members.keySet().forEach(member -> {
                    out.append("gets ").append(member).append(' ');
                    if (given.containsKey(member))
                        given.get(member).partitions().forEach((id, numbers) -> {
                            for (int p : numbers) out.append(names.get(id)).append(':').append(p).append(',');
                        });
                    out.append('\n');
                });
                System.out.print(out.append("end\n"));
                out.setLength(0);
                ids.clear();
                names.clear();
                counts.clear();
                inverted.clear();
                members.clear();
            }
        }
    }
}

// Asks Apache Kafka's own assignors: cases come in on stdin, assignments and milliseconds go out on stdout.
// Lines: assignor NAME | topic NAME COUNT [racks of partition 0, of 1, ...; replicas joined by +] |
//        member ID INSTANCE GENERATION RACK TOPICS OWNED (dash: none; owned is topic:p+p,topic:p) | end
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;

public class Assign {
    static Map<String, Node> nodes = new TreeMap<>();

    static Node node(String rack) {
        return nodes.computeIfAbsent(rack, r -> new Node(nodes.size(), "h", 1, r.equals("-") ? null : r));
    }

    static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    static List<TopicPartition> partitions(String text) {
        List<TopicPartition> found = new ArrayList<>();
        if (!text.equals("-"))
            for (String item : text.split(",")) {
                String[] sides = item.split(":");
                for (String p : sides[1].split("\\+")) found.add(new TopicPartition(sides[0], Integer.parseInt(p)));
            }
        return found;
    }

    /** What the assignor's member would send: sticky reads its user data, cooperative sticky the subscription. */
    static ByteBuffer userData(String assignor, List<TopicPartition> owned, int generation) {
        if (assignor.equals("cooperative-sticky")) return ByteBuffer.allocate(4).putInt(0, generation);
        if (!assignor.equals("sticky") || generation < 0) return null;
        Map<String, List<Integer>> grouped = new TreeMap<>();
        for (TopicPartition tp : owned) grouped.computeIfAbsent(tp.topic(), t -> new ArrayList<>()).add(tp.partition());
        int size = 8;
        for (String topic : grouped.keySet()) size += 6 + topic.length() + 4 * grouped.get(topic).size();
        ByteBuffer data = ByteBuffer.allocate(size);
        data.putInt(grouped.size());
        grouped.forEach((topic, numbers) -> {
            data.putShort((short) topic.length()).put(topic.getBytes()).putInt(numbers.size());
            numbers.forEach(data::putInt);
        });
        return data.putInt(generation).flip();
    }

    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        String name = "";
        List<PartitionInfo> infos = new ArrayList<>();
        Map<String, Subscription> members = new HashMap<>();
        while (in.hasNextLine()) {
            String[] w = in.nextLine().split(" ");
            if (w[0].equals("assignor")) name = w[1];
            if (w[0].equals("topic"))
                for (int p = 0; p < Integer.parseInt(w[2]); p++) {
                    Node[] replicas = w.length <= 3 ? new Node[] {node("-")}
                        : Arrays.stream(w[3 + p].split("\\+")).map(Assign::node).toArray(Node[]::new);
                    infos.add(new PartitionInfo(w[1], p, replicas[0], replicas, replicas));
                }
            if (w[0].equals("member")) {
                List<String> topics = w[5].equals("-") ? List.of() : List.of(w[5].split(","));
                List<TopicPartition> owned = partitions(w[6]);
                int generation = Integer.parseInt(w[3]);
                Optional<String> rack = w[4].equals("-") ? Optional.empty() : Optional.of(w[4]);
                Subscription s = new Subscription(topics, userData(name, owned, generation), owned, generation, rack);
                if (!w[2].equals("-")) s.setGroupInstanceId(Optional.of(w[2]));
                members.put(w[1], s);
            }
            if (w[0].equals("end")) {
                Cluster cluster = new Cluster("c", nodes.values(), infos, Set.of(), Set.of());
                long started = System.nanoTime();
                var given = assignor(name).assign(cluster, new GroupSubscription(members)).groupAssignment();
                out.append("ms ").append((System.nanoTime() - started) / 1e6).append('\n');
                given.forEach((member, assignment) -> {
                    out.append("gets ").append(member).append(' ');
                    for (TopicPartition tp : assignment.partitions())
                        out.append(tp.topic()).append(':').append(tp.partition()).append(',');
                    out.append('\n');
                });
                System.out.print(out.append("end\n"));
                out.setLength(0);
                infos.clear();
                members.clear();
            }
        }
    }
}

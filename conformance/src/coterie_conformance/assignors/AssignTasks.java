// Asks Apache Kafka's task assignor of streams groups (KIP-1071, since 4.4), a case after the other:
//   config STANDBYS
//   subtopology ID TASKS stateful|stateless
//   member ID PROCESS ACTIVE STANDBY OFFSETS   (tasks 0_1,0_2 and offsets 0_1:75, - for none)
//   end
// The answer is as Assign.java's, with active/SUBTOPOLOGY and standby/SUBTOPOLOGY as topics.
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.coordinator.group.api.streams.assignor.*;
import org.apache.kafka.coordinator.group.streams.assignor.*;

public class AssignTasks {
    record Topology(SortedMap<String, Integer> counts, Set<String> stateful) implements TopologyDescriber {
        public List<String> subtopologies() {
            return List.copyOf(counts.keySet());
        }

        public int maxNumInputPartitions(String subtopology) {
            return counts.get(subtopology);
        }

        public boolean isStateful(String subtopology) {
            return stateful.contains(subtopology);
        }
    }

    static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        if (!text.equals("-"))
            for (String task : text.split(",")) {
                int at = task.lastIndexOf('_');
                tasks.computeIfAbsent(task.substring(0, at), id -> new HashSet<>()).add(Integer.parseInt(task.substring(at + 1)));
            }
        return tasks;
    }

    static Map<String, Map<Integer, Long>> offsets(String text) {
        Map<String, Map<Integer, Long>> offsets = new HashMap<>();
        if (!text.equals("-"))
            for (String item : text.split(",")) {
                int at = item.lastIndexOf('_'), colon = item.lastIndexOf(':');
                offsets.computeIfAbsent(item.substring(0, at), id -> new HashMap<>())
                    .put(Integer.parseInt(item.substring(at + 1, colon)), Long.parseLong(item.substring(colon + 1)));
            }
        return offsets;
    }

    static String text(String role, Map<String, Set<Integer>> tasks) {
        return tasks.entrySet().stream()
            .flatMap(e -> e.getValue().stream().sorted().map(n -> role + "/" + e.getKey() + ":" + n + ",")).collect(Collectors.joining());
    }

    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        StringBuilder out = new StringBuilder();
        SortedMap<String, Integer> counts = new TreeMap<>();
        Set<String> stateful = new HashSet<>();
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        int standbys = 0;
        while (in.hasNextLine()) {
            String[] w = in.nextLine().split(" ");
            if (w[0].equals("config")) standbys = Integer.parseInt(w[1]);
            if (w[0].equals("subtopology")) {
                counts.put(w[1], Integer.parseInt(w[2]));
                if (w[3].equals("stateful")) stateful.add(w[1]);
            }
            if (w[0].equals("member"))
                members.put(w[1], new MemberMetadataAndStateImpl(
                    Optional.empty(), Optional.empty(), w[2], Map.of(), tasks(w[3]), tasks(w[4]), Map.of(), offsets(w[5]), Map.of()));
            if (w[0].equals("end")) {
                long started = System.nanoTime();
                var given = new StickyTaskAssignor().assign(
                    new GroupSpecImpl(members, new AssignmentConfigsImpl(standbys, List.of())), new Topology(counts, stateful)).members();
                out.append("ms ").append((System.nanoTime() - started) / 1e6).append('\n');
                given.forEach((id, member) -> out.append("gets ").append(id).append(' ')
                    .append(text("active", member.activeTasks())).append(text("standby", member.standbyTasks())).append('\n'));
                System.out.print(out.append("end\n"));
                out.setLength(0);
                counts.clear();
                stateful.clear();
                members = new HashMap<>(); // a cleared one keeps its buckets, and with them another order
            }
        }
    }
}

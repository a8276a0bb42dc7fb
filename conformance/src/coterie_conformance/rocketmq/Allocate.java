// RocketMQ's own allocation strategies: a question a line, its answer a line that begins with "= " (5.x logs on stdout).
//   strategy|client|broker:queue,broker:queue,...|client,client,...
// machine-room:a+b takes brokers ROOM@NAME of these rooms; nearby groups by what stands before the @ and before the dash.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;

public class Allocate {
    static AllocateMessageQueueStrategy strategy(String name, List<MessageQueue> all) {
        String[] parts = name.split(":", 2);
        switch (parts[0]) {
            case "AVG": return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE": return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH": return new AllocateMessageQueueConsistentHash(Integer.parseInt(parts[1]));
            case "MACHINE_ROOM": {
                AllocateMessageQueueByMachineRoom s = new AllocateMessageQueueByMachineRoom();
                s.setConsumeridcs(new HashSet<>(Arrays.asList(parts[1].split("\\+"))));
                return s;
            }
            case "NEARBY":
                return new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(),
                    new AllocateMachineRoomNearby.MachineRoomResolver() {
                        public String brokerDeployIn(MessageQueue q) { return q.getBrokerName().split("@")[0]; }
                        public String consumerDeployIn(String c) { return c.split("-")[0]; }
                    });
            case "CONFIG": {
                AllocateMessageQueueByConfig s = new AllocateMessageQueueByConfig();
                s.setMessageQueueList(all.subList(0, Integer.parseInt(parts[1])));
                return s;
            }
            default: throw new IllegalArgumentException(name);
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] said = line.split("\\|", -1);
            List<MessageQueue> queues = new ArrayList<>();
            for (String q : said[2].split(",")) {
                String[] where = q.split(":");
                queues.add(new MessageQueue("t", where[0], Integer.parseInt(where[1])));
            }
            List<String> clients = new ArrayList<>(Arrays.asList(said[3].split(",")));
            Collections.sort(queues);
            Collections.sort(clients);
            String answer;
            try {
                List<MessageQueue> mine = strategy(said[0], queues).allocate("g", said[1], queues, clients);
                answer = mine.stream().map(q -> q.getBrokerName() + ":" + q.getQueueId()).collect(Collectors.joining(","));
            } catch (Exception error) {
                answer = "error " + error.getMessage();
            }
            System.out.println("= " + answer);
            System.out.flush();
        }
    }
}

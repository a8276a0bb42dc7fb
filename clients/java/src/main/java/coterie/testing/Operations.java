// Generated from coterie's table of operations by `python -m coterie_conformance.languages`; do not edit.
package coterie.testing;

import com.fasterxml.jackson.core.type.TypeReference;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What the control API of a broker offers; each throws {@link ControlException}. */
public abstract class Operations extends Values {
    protected abstract <T> T call(String operation, Map<String, Object> given, TypeReference<T> type);

    /**
     * The bootstrap.servers of clients: HOST:PORT, of a cluster those of all brokers with commas.
     */
    public String bootstrapServers() {
        Map<String, Object> given = new LinkedHashMap<>();
        return call("bootstrap_servers", given, new TypeReference<String>() {});
    }

    /**
     * What a client needs to connect, by Kafka's names: the address, and with sasl or tls the protocol, the file of the
     * authority and the login of that user, or of the first. Raises LookupError for an unknown user.
     *
     * <p>Null is the default of user, mechanism.
     */
    public Map<String, String> clientSettings(String user, String mechanism) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("user", user);
        given.put("mechanism", mechanism);
        return call("client_settings", given, new TypeReference<Map<String, String>>() {});
    }

    /** What a client needs to connect, by Kafka's names: the address, and with sasl or tls the protocol, the file of the authority and the login of that user, or of the first. */
    public Map<String, String> clientSettings() {
        return clientSettings(null, null);
    }

    /**
     * The group's committed offsets.
     */
    public List<Offset> committed(String group) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        return call("committed", given, new TypeReference<List<Offset>>() {});
    }

    /**
     * The id of the broker that coordinates the group, once there is one.
     *
     * <p>Null is the default of timeoutS.
     */
    public Integer coordinatorOf(String group, Double timeoutS) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        given.put("timeout_s", timeoutS);
        return call("coordinator_of", given, new TypeReference<Integer>() {});
    }

    /** The id of the broker that coordinates the group, once there is one. */
    public Integer coordinatorOf(String group) {
        return coordinatorOf(group, null);
    }

    /**
     * Creates a topic, and returns once every broker knows it. Raises KafkaError.
     *
     * <p>Null is the default of partitions, configs.
     */
    public void createTopic(String name, Integer partitions, Map<String, String> configs) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("name", name);
        given.put("partitions", partitions);
        given.put("configs", configs);
        call("create_topic", given, new TypeReference<Object>() {});
    }

    /** Creates a topic, and returns once every broker knows it. */
    public void createTopic(String name) {
        createTopic(name, null, null);
    }

    /**
     * The next so many requests of that API are not carried out, and their connections are closed.
     *
     * <p>Null is the default of times, group, clientId.
     */
    public Rule cut(String api, Integer times, String group, String clientId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("api", api);
        given.put("times", times);
        given.put("group", group);
        given.put("client_id", clientId);
        return call("cut", given, new TypeReference<Rule>() {});
    }

    /** The next so many requests of that API are not carried out, and their connections are closed. */
    public Rule cut(String api) {
        return cut(api, null, null, null);
    }

    /**
     * The next so many requests of that API are carried out so many milliseconds later.
     *
     * <p>Null is the default of times, group, clientId.
     */
    public Rule delay(String api, Integer ms, Integer times, String group, String clientId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("api", api);
        given.put("ms", ms);
        given.put("times", times);
        given.put("group", group);
        given.put("client_id", clientId);
        return call("delay", given, new TypeReference<Rule>() {});
    }

    /** The next so many requests of that API are carried out so many milliseconds later. */
    public Rule delay(String api, Integer ms) {
        return delay(api, ms, null, null, null);
    }

    /**
     * Cuts every connection, or those of one client; returns how many.
     *
     * <p>Null is the default of clientId.
     */
    public Integer dropConnections(String clientId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("client_id", clientId);
        return call("drop_connections", given, new TypeReference<Integer>() {});
    }

    /** Cuts every connection, or those of one client. */
    public Integer dropConnections() {
        return dropConnections(null);
    }

    /**
     * Ends a member's session now; member is its member id, or its client id. So ends a member id that was reserved and
     * not used yet (KIP-394). Raises LookupError.
     */
    public void expire(String group, String member) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        given.put("member", member);
        call("expire", given, new TypeReference<Object>() {});
    }

    /**
     * Where the group stands and whom it waits for, in a sentence.
     */
    public String explain(String group) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        return call("explain", given, new TypeReference<String>() {});
    }

    /**
     * The next so many requests of that API receive that code, such as ErrorCode.NOT_COORDINATOR or its name, and not
     * carried out.
     *
     * <p>Null is the default of times, group, clientId.
     */
    public Rule fail(String api, String code, Integer times, String group, String clientId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("api", api);
        given.put("code", code);
        given.put("times", times);
        given.put("group", group);
        given.put("client_id", clientId);
        return call("fail", given, new TypeReference<Rule>() {});
    }

    /** The next so many requests of that API receive that code, such as ErrorCode.NOT_COORDINATOR or its name, and not carried out. */
    public Rule fail(String api, String code) {
        return fail(api, code, null, null, null);
    }

    /**
     * Ends every partition and shrink_isr, also of a broker that is down.
     */
    public void heal() {
        Map<String, Object> given = new LinkedHashMap<>();
        call("heal", given, new TypeReference<Object>() {});
    }

    /**
     * As hold, where no with-block fits: release ends it.
     *
     * <p>Null is the default of group, clientId, times.
     */
    public Rule hold(String api, String group, String clientId, Integer times) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("api", api);
        given.put("group", group);
        given.put("client_id", clientId);
        given.put("times", times);
        return call("hold", given, new TypeReference<Rule>() {});
    }

    /** As hold, where no with-block fits: release ends it. */
    public Rule hold(String api) {
        return hold(api, null, null, null);
    }

    /**
     * The ids of the replicas in sync, as the partition's leader has them.
     *
     * <p>Null is the default of partition.
     */
    public List<Integer> inSync(String topic, Integer partition) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("topic", topic);
        given.put("partition", partition);
        return call("in_sync", given, new TypeReference<List<Integer>>() {});
    }

    /** The ids of the replicas in sync, as the partition's leader has them. */
    public List<Integer> inSync(String topic) {
        return inSync(topic, null);
    }

    /**
     * The journal since the start or the last reset, of one group or of all: objects as coterie groups history --json has
     * them, with the causes of each rebalance.
     *
     * <p>Null is the default of group.
     */
    public List<Map<String, Object>> journal(String group) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        return call("journal", given, new TypeReference<List<Map<String, Object>>>() {});
    }

    /** The journal since the start or the last reset, of one group or of all: objects as coterie groups history --json has them, with the causes of each rebalance. */
    public List<Map<String, Object>> journal() {
        return journal(null);
    }

    /**
     * Moves the broker's clock on; sessions and timeouts that are over then, end now.
     */
    public void jump(Integer ms) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("ms", ms);
        call("jump", given, new TypeReference<Object>() {});
    }

    /**
     * As SIGKILL. Its memory stays for restart, as a disk would.
     */
    public void kill(Integer brokerId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("broker_id", brokerId);
        call("kill", given, new TypeReference<Object>() {});
    }

    /**
     * The records behind the group's committed offsets, by partition; never negative. Partitions without a leader are left
     * out.
     */
    public List<Lag> lag(String group) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        return call("lag", given, new TypeReference<List<Lag>>() {});
    }

    /**
     * The id of the broker that leads the partition, once there is one.
     *
     * <p>Null is the default of partition, timeoutS.
     */
    public Integer leaderOf(String topic, Integer partition, Double timeoutS) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("topic", topic);
        given.put("partition", partition);
        given.put("timeout_s", timeoutS);
        return call("leader_of", given, new TypeReference<Integer>() {});
    }

    /** The id of the broker that leads the partition, once there is one. */
    public Integer leaderOf(String topic) {
        return leaderOf(topic, null, null);
    }

    /**
     * The next so many requests of that API are carried out, and their responses never sent.
     *
     * <p>Null is the default of times, group, clientId.
     */
    public Rule loseResponse(String api, Integer times, String group, String clientId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("api", api);
        given.put("times", times);
        given.put("group", group);
        given.put("client_id", clientId);
        return call("lose_response", given, new TypeReference<Rule>() {});
    }

    /** The next so many requests of that API are carried out, and their responses never sent. */
    public Rule loseResponse(String api) {
        return loseResponse(api, null, null, null);
    }

    /**
     * Member id -> client id of those in the group now.
     */
    public Map<String, String> members(String group) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        return call("members", given, new TypeReference<Map<String, String>>() {});
    }

    /**
     * As if another broker had taken the group over: waiting requests receive NOT_COORDINATOR, and clients look it up
     * again; members and offsets are loaded from the log. In a cluster another broker does.
     */
    public void moveCoordinator(String group) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        call("move_coordinator", given, new TypeReference<Object>() {});
    }

    /**
     * Has the controller make that broker, a replica in sync, the preferred leader of the partition, and elect it.
     */
    public void moveLeader(String topic, Integer partition, Integer brokerId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("topic", topic);
        given.put("partition", partition);
        given.put("broker_id", brokerId);
        call("move_leader", given, new TypeReference<Object>() {});
    }

    /**
     * Cuts a broker off from the other brokers and from ZooKeeper, until heal; clients still reach it.
     */
    public void partition(Integer brokerId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("broker_id", brokerId);
        call("partition", given, new TypeReference<Object>() {});
    }

    /**
     * As SIGSTOP, as far as others see it: requests wait and nothing is sent, until resume.
     */
    public void pause(Integer brokerId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("broker_id", brokerId);
        call("pause", given, new TypeReference<Object>() {});
    }

    /**
     * Appends these records to one partition: that given, else the key's, else 0; once, also where the partition's leader
     * moves meanwhile. Raises KafkaError, TypeError for what is not bytes, ValueError without a value.
     *
     * <p>Null is the default of key, partition.
     */
    public void produce(String topic, List<byte[]> values, byte[] key, Integer partition) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("topic", topic);
        given.put("values", values(values));
        given.put("key", bytes(key));
        given.put("partition", partition);
        call("produce", given, new TypeReference<Object>() {});
    }

    /** Appends these records to one partition: that given, else the key's, else 0. */
    public void produce(String topic, List<byte[]> values) {
        produce(topic, values, null, null);
    }

    /**
     * Ends a rule of any kind, also one that has ended; the requests that it holds go on.
     */
    public void release(Rule rule) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("rule", rule.rule());
        call("release", given, new TypeReference<Object>() {});
    }

    /**
     * How many requests of that API came so far.
     */
    public Integer requested(String api) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("api", api);
        return call("requested", given, new TypeReference<Integer>() {});
    }

    /**
     * Empty as after start, on the same addresses: topics, groups, transactions, changed settings, faults and the journal
     * are gone, connections are closed, and every broker of a cluster runs. A broker alone takes 1 ms, three take 30.
     */
    public void reset() {
        Map<String, Object> given = new LinkedHashMap<>();
        call("reset", given, new TypeReference<Object>() {});
    }

    /**
     * Starts a broker again, on its port, after stop or kill.
     */
    public void restart(Integer brokerId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("broker_id", brokerId);
        call("restart", given, new TypeReference<Object>() {});
    }

    /**
     * Ends what pause began.
     */
    public void resume(Integer brokerId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("broker_id", brokerId);
        call("resume", given, new TypeReference<Object>() {});
    }

    /**
     * Takes the other replicas out of the ISR and cuts them off from the leader, which is among to, until heal.
     */
    public void shrinkIsr(String topic, Integer partition, List<Integer> to) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("topic", topic);
        given.put("partition", partition);
        given.put("to", to);
        call("shrink_isr", given, new TypeReference<Object>() {});
    }

    /**
     * Closes every connection and ends the broker's thread. With a broker_id: a controlled shutdown of that broker of a
     * cluster, whose partitions others lead first.
     */
    public void stop(Integer brokerId) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("broker_id", brokerId);
        call("stop", given, new TypeReference<Object>() {});
    }

    /**
     * The journal of all groups so far, a line each.
     */
    public List<String> story() {
        Map<String, Object> given = new LinkedHashMap<>();
        return call("story", given, new TypeReference<List<String>>() {});
    }

    /**
     * The id of the broker that coordinates the transactional id, once there is one.
     *
     * <p>Null is the default of timeoutS.
     */
    public Integer transactionCoordinatorOf(String transactionalId, Double timeoutS) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("transactional_id", transactionalId);
        given.put("timeout_s", timeoutS);
        return call("transaction_coordinator_of", given, new TypeReference<Integer>() {});
    }

    /** The id of the broker that coordinates the transactional id, once there is one. */
    public Integer transactionCoordinatorOf(String transactionalId) {
        return transactionCoordinatorOf(transactionalId, null);
    }

    /**
     * Waits until the group has committed at least these offsets.
     *
     * <p>Null is the default of timeoutS.
     */
    public void untilCommitted(String group, List<Offset> offsets, Double timeoutS) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        given.put("offsets", offsets);
        given.put("timeout_s", timeoutS);
        call("until_committed", given, new TypeReference<Object>() {});
    }

    /** Waits until the group has committed at least these offsets. */
    public void untilCommitted(String group, List<Offset> offsets) {
        untilCommitted(group, offsets, null);
    }

    /**
     * Waits until so many requests wait at the door.
     *
     * <p>Null is the default of count, timeoutS.
     */
    public void untilHeld(Rule rule, Integer count, Double timeoutS) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("rule", rule.rule());
        given.put("count", count);
        given.put("timeout_s", timeoutS);
        call("until_held", given, new TypeReference<Object>() {});
    }

    /** Waits until so many requests wait at the door. */
    public void untilHeld(Rule rule) {
        untilHeld(rule, null, null);
    }

    /**
     * Waits until the group's lag, the sum over its committed partitions, is in these bounds; returns it. A group that has
     * committed nothing has no lag yet.
     *
     * <p>Null is the default of atLeast, atMost, timeoutS.
     */
    public Integer untilLag(String group, Integer atLeast, Integer atMost, Double timeoutS) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        given.put("at_least", atLeast);
        given.put("at_most", atMost);
        given.put("timeout_s", timeoutS);
        return call("until_lag", given, new TypeReference<Integer>() {});
    }

    /** Waits until the group's lag, the sum over its committed partitions, is in these bounds. */
    public Integer untilLag(String group) {
        return untilLag(group, null, null, null);
    }

    /**
     * Waits until so many requests of that API have come in all.
     *
     * <p>Null is the default of timeoutS.
     */
    public void untilRequested(String api, Integer count, Double timeoutS) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("api", api);
        given.put("count", count);
        given.put("timeout_s", timeoutS);
        call("until_requested", given, new TypeReference<Object>() {});
    }

    /** Waits until so many requests of that API have come in all. */
    public void untilRequested(String api, Integer count) {
        untilRequested(api, count, null);
    }

    /**
     * Waits until the group is Stable (with so many members); returns its generation. A consumer group (KIP-848) is once
     * each member has its part of the target assignment and nothing else; its group epoch is the generation. Raises
     * TimeoutError that says what the group is waiting for.
     *
     * <p>Null is the default of members, timeoutS.
     */
    public Integer untilStable(String group, Integer members, Double timeoutS) {
        Map<String, Object> given = new LinkedHashMap<>();
        given.put("group", group);
        given.put("members", members);
        given.put("timeout_s", timeoutS);
        return call("until_stable", given, new TypeReference<Integer>() {});
    }

    /** Waits until the group is Stable (with so many members). */
    public Integer untilStable(String group) {
        return untilStable(group, null, null);
    }
}

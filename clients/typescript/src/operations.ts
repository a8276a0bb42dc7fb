// Generated from coterie's table of operations by `python -m coterie_conformance.languages`; do not edit.

import { bytes, type Bytes, type JournalLine, type Lag, type Offset, type Rule } from "./values.js";

/** What the control API of a broker offers; each raises `ControlError`. */
export abstract class Operations {
  protected abstract call(operation: string, given: Record<string, unknown>): Promise<unknown>;

  /**
   * The bootstrap.servers of clients: HOST:PORT, of a cluster those of all brokers with commas.
   */
  async bootstrapServers(): Promise<string> {
    return (await this.call("bootstrap_servers", {})) as string;
  }

  /**
   * What a client needs to connect, by Kafka's names: the address, and with sasl or tls the protocol, the file of the
   * authority and the login of that user, or of the first. Raises LookupError for an unknown user.
   */
  async clientSettings(options: { user?: string; mechanism?: string } = {}): Promise<Record<string, string>> {
    return (await this.call("client_settings", { user: options.user, mechanism: options.mechanism })) as Record<string, string>;
  }

  /**
   * The group's committed offsets.
   */
  async committed(group: string): Promise<Offset[]> {
    return (await this.call("committed", { group: group })) as Offset[];
  }

  /**
   * The id of the broker that coordinates the group, once there is one.
   */
  async coordinatorOf(group: string, options: { timeoutS?: number } = {}): Promise<number> {
    return (await this.call("coordinator_of", { group: group, timeout_s: options.timeoutS })) as number;
  }

  /**
   * Creates a topic, and returns once every broker knows it. Raises KafkaError.
   */
  async createTopic(name: string, options: { partitions?: number; configs?: Record<string, string> } = {}): Promise<void> {
    await this.call("create_topic", { name: name, partitions: options.partitions, configs: options.configs });
  }

  /**
   * The next so many requests of that API are not carried out, and their connections are closed.
   */
  async cut(api: string, options: { times?: number; group?: string; clientId?: string } = {}): Promise<Rule> {
    return (await this.call("cut", { api: api, times: options.times, group: options.group, client_id: options.clientId })) as Rule;
  }

  /**
   * The next so many requests of that API are carried out so many milliseconds later.
   */
  async delay(api: string, ms: number, options: { times?: number; group?: string; clientId?: string } = {}): Promise<Rule> {
    return (await this.call("delay", { api: api, ms: ms, times: options.times, group: options.group, client_id: options.clientId })) as Rule;
  }

  /**
   * Cuts every connection, or those of one client; returns how many.
   */
  async dropConnections(options: { clientId?: string } = {}): Promise<number> {
    return (await this.call("drop_connections", { client_id: options.clientId })) as number;
  }

  /**
   * Ends a member's session now; member is its member id, or its client id. So ends a member id that was reserved and
   * not used yet (KIP-394). Raises LookupError.
   */
  async expire(group: string, member: string): Promise<void> {
    await this.call("expire", { group: group, member: member });
  }

  /**
   * Where the group stands and whom it waits for, in a sentence.
   */
  async explain(group: string): Promise<string> {
    return (await this.call("explain", { group: group })) as string;
  }

  /**
   * The next so many requests of that API receive that code, such as ErrorCode.NOT_COORDINATOR or its name, and not
   * carried out.
   */
  async fail(api: string, code: string, options: { times?: number; group?: string; clientId?: string } = {}): Promise<Rule> {
    return (await this.call("fail", { api: api, code: code, times: options.times, group: options.group, client_id: options.clientId })) as Rule;
  }

  /**
   * Ends every partition and shrink_isr, also of a broker that is down.
   */
  async heal(): Promise<void> {
    await this.call("heal", {});
  }

  /**
   * As hold, where no with-block fits: release ends it.
   */
  async hold(api: string, options: { group?: string; clientId?: string; times?: number } = {}): Promise<Rule> {
    return (await this.call("hold", { api: api, group: options.group, client_id: options.clientId, times: options.times })) as Rule;
  }

  /**
   * The ids of the replicas in sync, as the partition's leader has them.
   */
  async inSync(topic: string, options: { partition?: number } = {}): Promise<number[]> {
    return (await this.call("in_sync", { topic: topic, partition: options.partition })) as number[];
  }

  /**
   * The journal since the start or the last reset, of one group or of all: objects as coterie groups history --json has
   * them, with the causes of each rebalance.
   */
  async journal(options: { group?: string } = {}): Promise<JournalLine[]> {
    return (await this.call("journal", { group: options.group })) as JournalLine[];
  }

  /**
   * Moves the broker's clock on; sessions and timeouts that are over then, end now.
   */
  async jump(ms: number): Promise<void> {
    await this.call("jump", { ms: ms });
  }

  /**
   * As SIGKILL. Its memory stays for restart, as a disk would.
   */
  async kill(brokerId: number): Promise<void> {
    await this.call("kill", { broker_id: brokerId });
  }

  /**
   * The records behind the group's committed offsets, by partition; never negative. Partitions without a leader are left
   * out.
   */
  async lag(group: string): Promise<Lag[]> {
    return (await this.call("lag", { group: group })) as Lag[];
  }

  /**
   * The id of the broker that leads the partition, once there is one.
   */
  async leaderOf(topic: string, options: { partition?: number; timeoutS?: number } = {}): Promise<number> {
    return (await this.call("leader_of", { topic: topic, partition: options.partition, timeout_s: options.timeoutS })) as number;
  }

  /**
   * The next so many requests of that API are carried out, and their responses never sent.
   */
  async loseResponse(api: string, options: { times?: number; group?: string; clientId?: string } = {}): Promise<Rule> {
    return (await this.call("lose_response", { api: api, times: options.times, group: options.group, client_id: options.clientId })) as Rule;
  }

  /**
   * Member id -> client id of those in the group now.
   */
  async members(group: string): Promise<Record<string, string>> {
    return (await this.call("members", { group: group })) as Record<string, string>;
  }

  /**
   * As if another broker had taken the group over: waiting requests receive NOT_COORDINATOR, and clients look it up
   * again; members and offsets are loaded from the log. In a cluster another broker does.
   */
  async moveCoordinator(group: string): Promise<void> {
    await this.call("move_coordinator", { group: group });
  }

  /**
   * Has the controller make that broker, a replica in sync, the preferred leader of the partition, and elect it.
   */
  async moveLeader(topic: string, partition: number, brokerId: number): Promise<void> {
    await this.call("move_leader", { topic: topic, partition: partition, broker_id: brokerId });
  }

  /**
   * Cuts a broker off from the other brokers and from ZooKeeper, until heal; clients still reach it.
   */
  async partition(brokerId: number): Promise<void> {
    await this.call("partition", { broker_id: brokerId });
  }

  /**
   * As SIGSTOP, as far as others see it: requests wait and nothing is sent, until resume.
   */
  async pause(brokerId: number): Promise<void> {
    await this.call("pause", { broker_id: brokerId });
  }

  /**
   * Appends these records to one partition: that given, else the key's, else 0; once, also where the partition's leader
   * moves meanwhile. Raises KafkaError, TypeError for what is not bytes, ValueError without a value.
   */
  async produce(topic: string, values: Bytes[], options: { key?: Bytes; partition?: number } = {}): Promise<void> {
    await this.call("produce", { topic: topic, values: values.map(bytes), key: options.key === undefined ? undefined : bytes(options.key), partition: options.partition });
  }

  /**
   * Ends a rule of any kind, also one that has ended; the requests that it holds go on.
   */
  async release(rule: Rule): Promise<void> {
    await this.call("release", { rule: rule.rule });
  }

  /**
   * How many requests of that API came so far.
   */
  async requested(api: string): Promise<number> {
    return (await this.call("requested", { api: api })) as number;
  }

  /**
   * Empty as after start, on the same addresses: topics, groups, transactions, changed settings, faults and the journal
   * are gone, connections are closed, and every broker of a cluster runs. A broker alone takes 1 ms, three take 30.
   */
  async reset(): Promise<void> {
    await this.call("reset", {});
  }

  /**
   * Starts a broker again, on its port, after stop or kill.
   */
  async restart(brokerId: number): Promise<void> {
    await this.call("restart", { broker_id: brokerId });
  }

  /**
   * Ends what pause began.
   */
  async resume(brokerId: number): Promise<void> {
    await this.call("resume", { broker_id: brokerId });
  }

  /**
   * Takes the other replicas out of the ISR and cuts them off from the leader, which is among to, until heal.
   */
  async shrinkIsr(topic: string, partition: number, to: number[]): Promise<void> {
    await this.call("shrink_isr", { topic: topic, partition: partition, to: to });
  }

  /**
   * Closes every connection and ends the broker's thread. With a broker_id: a controlled shutdown of that broker of a
   * cluster, whose partitions others lead first.
   */
  async stop(brokerId: number): Promise<void> {
    await this.call("stop", { broker_id: brokerId });
  }

  /**
   * The journal of all groups so far, a line each.
   */
  async story(): Promise<string[]> {
    return (await this.call("story", {})) as string[];
  }

  /**
   * The id of the broker that coordinates the transactional id, once there is one.
   */
  async transactionCoordinatorOf(transactionalId: string, options: { timeoutS?: number } = {}): Promise<number> {
    return (await this.call("transaction_coordinator_of", { transactional_id: transactionalId, timeout_s: options.timeoutS })) as number;
  }

  /**
   * Waits until the group has committed at least these offsets.
   */
  async untilCommitted(group: string, offsets: Offset[], options: { timeoutS?: number } = {}): Promise<void> {
    await this.call("until_committed", { group: group, offsets: offsets, timeout_s: options.timeoutS });
  }

  /**
   * Waits until so many requests wait at the door.
   */
  async untilHeld(rule: Rule, options: { count?: number; timeoutS?: number } = {}): Promise<void> {
    await this.call("until_held", { rule: rule.rule, count: options.count, timeout_s: options.timeoutS });
  }

  /**
   * Waits until the group's lag, the sum over its committed partitions, is in these bounds; returns it. A group that has
   * committed nothing has no lag yet.
   */
  async untilLag(group: string, options: { atLeast?: number; atMost?: number; timeoutS?: number } = {}): Promise<number> {
    return (await this.call("until_lag", { group: group, at_least: options.atLeast, at_most: options.atMost, timeout_s: options.timeoutS })) as number;
  }

  /**
   * Waits until so many requests of that API have come in all.
   */
  async untilRequested(api: string, count: number, options: { timeoutS?: number } = {}): Promise<void> {
    await this.call("until_requested", { api: api, count: count, timeout_s: options.timeoutS });
  }

  /**
   * Waits until the group is Stable (with so many members); returns its generation. A consumer group (KIP-848) is once
   * each member has its part of the target assignment and nothing else; its group epoch is the generation. Raises
   * TimeoutError that says what the group is waiting for.
   */
  async untilStable(group: string, options: { members?: number; timeoutS?: number } = {}): Promise<number> {
    return (await this.call("until_stable", { group: group, members: options.members, timeout_s: options.timeoutS })) as number;
  }
}

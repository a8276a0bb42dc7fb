// Code generated from coterie's table of operations by `python -m coterie_conformance.languages`; DO NOT EDIT.

package coterie

// BootstrapServers: The bootstrap.servers of clients: HOST:PORT, of a cluster those of all brokers with commas.
func (b *Broker) BootstrapServers() (string, error) {
	arguments := map[string]any{}
	var result string
	err := b.call("bootstrap_servers", arguments, &result)
	return result, err
}

// ClientSettingsOptions has what may be left out of ClientSettings.
type ClientSettingsOptions struct {
	User      string
	Mechanism string
}

// ClientSettings: What a client needs to connect, by Kafka's names: the address, and with sasl or tls the protocol, the file of the
// authority and the login of that user, or of the first. Raises LookupError for an unknown user.
func (b *Broker) ClientSettings(options *ClientSettingsOptions) (map[string]string, error) {
	arguments := map[string]any{}
	if options != nil {
		set(arguments, "user", options.User)
		set(arguments, "mechanism", options.Mechanism)
	}
	var result map[string]string
	err := b.call("client_settings", arguments, &result)
	return result, err
}

// Committed: The group's committed offsets.
func (b *Broker) Committed(group string) ([]Offset, error) {
	arguments := map[string]any{"group": group}
	var result []Offset
	err := b.call("committed", arguments, &result)
	return result, err
}

// CoordinatorOfOptions has what may be left out of CoordinatorOf.
type CoordinatorOfOptions struct {
	TimeoutS float64
}

// CoordinatorOf: The id of the broker that coordinates the group, once there is one.
func (b *Broker) CoordinatorOf(group string, options *CoordinatorOfOptions) (int, error) {
	arguments := map[string]any{"group": group}
	if options != nil {
		set(arguments, "timeout_s", options.TimeoutS)
	}
	var result int
	err := b.call("coordinator_of", arguments, &result)
	return result, err
}

// CreateTopicOptions has what may be left out of CreateTopic.
type CreateTopicOptions struct {
	Partitions int
	Configs    map[string]string
}

// CreateTopic: Creates a topic, and returns once every broker knows it. Raises KafkaError.
func (b *Broker) CreateTopic(name string, options *CreateTopicOptions) error {
	arguments := map[string]any{"name": name}
	if options != nil {
		set(arguments, "partitions", options.Partitions)
		set(arguments, "configs", options.Configs)
	}
	return b.call("create_topic", arguments, nil)
}

// CutOptions has what may be left out of Cut.
type CutOptions struct {
	Times    int
	Group    string
	ClientID string
}

// Cut: The next so many requests of that API are not carried out, and their connections are closed.
func (b *Broker) Cut(api string, options *CutOptions) (Rule, error) {
	arguments := map[string]any{"api": api}
	if options != nil {
		set(arguments, "times", options.Times)
		set(arguments, "group", options.Group)
		set(arguments, "client_id", options.ClientID)
	}
	var result Rule
	err := b.call("cut", arguments, &result)
	return result, err
}

// DelayOptions has what may be left out of Delay.
type DelayOptions struct {
	Times    int
	Group    string
	ClientID string
}

// Delay: The next so many requests of that API are carried out so many milliseconds later.
func (b *Broker) Delay(api string, ms int, options *DelayOptions) (Rule, error) {
	arguments := map[string]any{"api": api, "ms": ms}
	if options != nil {
		set(arguments, "times", options.Times)
		set(arguments, "group", options.Group)
		set(arguments, "client_id", options.ClientID)
	}
	var result Rule
	err := b.call("delay", arguments, &result)
	return result, err
}

// DropConnectionsOptions has what may be left out of DropConnections.
type DropConnectionsOptions struct {
	ClientID string
}

// DropConnections: Cuts every connection, or those of one client; returns how many.
func (b *Broker) DropConnections(options *DropConnectionsOptions) (int, error) {
	arguments := map[string]any{}
	if options != nil {
		set(arguments, "client_id", options.ClientID)
	}
	var result int
	err := b.call("drop_connections", arguments, &result)
	return result, err
}

// Expire: Ends a member's session now; member is its member id, or its client id. So ends a member id that was reserved and
// not used yet (KIP-394). Raises LookupError.
func (b *Broker) Expire(group string, member string) error {
	arguments := map[string]any{"group": group, "member": member}
	return b.call("expire", arguments, nil)
}

// Explain: Where the group stands and whom it waits for, in a sentence.
func (b *Broker) Explain(group string) (string, error) {
	arguments := map[string]any{"group": group}
	var result string
	err := b.call("explain", arguments, &result)
	return result, err
}

// FailOptions has what may be left out of Fail.
type FailOptions struct {
	Times    int
	Group    string
	ClientID string
}

// Fail: The next so many requests of that API receive that code, such as ErrorCode.NOT_COORDINATOR or its name, and not
// carried out.
func (b *Broker) Fail(api string, code string, options *FailOptions) (Rule, error) {
	arguments := map[string]any{"api": api, "code": code}
	if options != nil {
		set(arguments, "times", options.Times)
		set(arguments, "group", options.Group)
		set(arguments, "client_id", options.ClientID)
	}
	var result Rule
	err := b.call("fail", arguments, &result)
	return result, err
}

// Heal: Ends every partition and shrink_isr, also of a broker that is down.
func (b *Broker) Heal() error {
	arguments := map[string]any{}
	return b.call("heal", arguments, nil)
}

// HoldOptions has what may be left out of Hold.
type HoldOptions struct {
	Group    string
	ClientID string
	Times    int
}

// Hold: As hold, where no with-block fits: release ends it.
func (b *Broker) Hold(api string, options *HoldOptions) (Rule, error) {
	arguments := map[string]any{"api": api}
	if options != nil {
		set(arguments, "group", options.Group)
		set(arguments, "client_id", options.ClientID)
		set(arguments, "times", options.Times)
	}
	var result Rule
	err := b.call("hold", arguments, &result)
	return result, err
}

// InSyncOptions has what may be left out of InSync.
type InSyncOptions struct {
	Partition int
}

// InSync: The ids of the replicas in sync, as the partition's leader has them.
func (b *Broker) InSync(topic string, options *InSyncOptions) ([]int, error) {
	arguments := map[string]any{"topic": topic}
	if options != nil {
		set(arguments, "partition", options.Partition)
	}
	var result []int
	err := b.call("in_sync", arguments, &result)
	return result, err
}

// JournalOptions has what may be left out of Journal.
type JournalOptions struct {
	Group string
}

// Journal: The journal since the start or the last reset, of one group or of all: objects as coterie groups history --json has
// them, with the causes of each rebalance.
func (b *Broker) Journal(options *JournalOptions) ([]map[string]any, error) {
	arguments := map[string]any{}
	if options != nil {
		set(arguments, "group", options.Group)
	}
	var result []map[string]any
	err := b.call("journal", arguments, &result)
	return result, err
}

// Jump: Moves the broker's clock on; sessions and timeouts that are over then, end now.
func (b *Broker) Jump(ms int) error {
	arguments := map[string]any{"ms": ms}
	return b.call("jump", arguments, nil)
}

// Kill: As SIGKILL. Its memory stays for restart, as a disk would.
func (b *Broker) Kill(brokerID int) error {
	arguments := map[string]any{"broker_id": brokerID}
	return b.call("kill", arguments, nil)
}

// Lag: The records behind the group's committed offsets, by partition; never negative. Partitions without a leader are left
// out.
func (b *Broker) Lag(group string) ([]Lag, error) {
	arguments := map[string]any{"group": group}
	var result []Lag
	err := b.call("lag", arguments, &result)
	return result, err
}

// LeaderOfOptions has what may be left out of LeaderOf.
type LeaderOfOptions struct {
	Partition int
	TimeoutS  float64
}

// LeaderOf: The id of the broker that leads the partition, once there is one.
func (b *Broker) LeaderOf(topic string, options *LeaderOfOptions) (int, error) {
	arguments := map[string]any{"topic": topic}
	if options != nil {
		set(arguments, "partition", options.Partition)
		set(arguments, "timeout_s", options.TimeoutS)
	}
	var result int
	err := b.call("leader_of", arguments, &result)
	return result, err
}

// LoseResponseOptions has what may be left out of LoseResponse.
type LoseResponseOptions struct {
	Times    int
	Group    string
	ClientID string
}

// LoseResponse: The next so many requests of that API are carried out, and their responses never sent.
func (b *Broker) LoseResponse(api string, options *LoseResponseOptions) (Rule, error) {
	arguments := map[string]any{"api": api}
	if options != nil {
		set(arguments, "times", options.Times)
		set(arguments, "group", options.Group)
		set(arguments, "client_id", options.ClientID)
	}
	var result Rule
	err := b.call("lose_response", arguments, &result)
	return result, err
}

// Members: Member id -> client id of those in the group now.
func (b *Broker) Members(group string) (map[string]string, error) {
	arguments := map[string]any{"group": group}
	var result map[string]string
	err := b.call("members", arguments, &result)
	return result, err
}

// MoveCoordinator: As if another broker had taken the group over: waiting requests receive NOT_COORDINATOR, and clients look it up
// again; members and offsets are loaded from the log. In a cluster another broker does.
func (b *Broker) MoveCoordinator(group string) error {
	arguments := map[string]any{"group": group}
	return b.call("move_coordinator", arguments, nil)
}

// MoveLeader: Has the controller make that broker, a replica in sync, the preferred leader of the partition, and elect it.
func (b *Broker) MoveLeader(topic string, partition int, brokerID int) error {
	arguments := map[string]any{"topic": topic, "partition": partition, "broker_id": brokerID}
	return b.call("move_leader", arguments, nil)
}

// Partition: Cuts a broker off from the other brokers and from ZooKeeper, until heal; clients still reach it.
func (b *Broker) Partition(brokerID int) error {
	arguments := map[string]any{"broker_id": brokerID}
	return b.call("partition", arguments, nil)
}

// Pause: As SIGSTOP, as far as others see it: requests wait and nothing is sent, until resume.
func (b *Broker) Pause(brokerID int) error {
	arguments := map[string]any{"broker_id": brokerID}
	return b.call("pause", arguments, nil)
}

// ProduceOptions has what may be left out of Produce.
type ProduceOptions struct {
	Key       []byte
	Partition *int
}

// Produce: Appends these records to one partition: that given, else the key's, else 0; once, also where the partition's leader
// moves meanwhile. Raises KafkaError, TypeError for what is not bytes, ValueError without a value.
func (b *Broker) Produce(topic string, values [][]byte, options *ProduceOptions) error {
	arguments := map[string]any{"topic": topic, "values": texts(values)}
	if options != nil {
		set(arguments, "key", text(options.Key))
		set(arguments, "partition", options.Partition)
	}
	return b.call("produce", arguments, nil)
}

// Release: Ends a rule of any kind, also one that has ended; the requests that it holds go on.
func (b *Broker) Release(rule Rule) error {
	arguments := map[string]any{"rule": rule.Number}
	return b.call("release", arguments, nil)
}

// Requested: How many requests of that API came so far.
func (b *Broker) Requested(api string) (int, error) {
	arguments := map[string]any{"api": api}
	var result int
	err := b.call("requested", arguments, &result)
	return result, err
}

// Reset: Empty as after start, on the same addresses: topics, groups, transactions, changed settings, faults and the journal
// are gone, connections are closed, and every broker of a cluster runs. A broker alone takes 1 ms, three take 30.
func (b *Broker) Reset() error {
	arguments := map[string]any{}
	return b.call("reset", arguments, nil)
}

// Restart: Starts a broker again, on its port, after stop or kill.
func (b *Broker) Restart(brokerID int) error {
	arguments := map[string]any{"broker_id": brokerID}
	return b.call("restart", arguments, nil)
}

// Resume: Ends what pause began.
func (b *Broker) Resume(brokerID int) error {
	arguments := map[string]any{"broker_id": brokerID}
	return b.call("resume", arguments, nil)
}

// ShrinkISR: Takes the other replicas out of the ISR and cuts them off from the leader, which is among to, until heal.
func (b *Broker) ShrinkISR(topic string, partition int, to []int) error {
	arguments := map[string]any{"topic": topic, "partition": partition, "to": to}
	return b.call("shrink_isr", arguments, nil)
}

// Stop: Closes every connection and ends the broker's thread. With a broker_id: a controlled shutdown of that broker of a
// cluster, whose partitions others lead first.
func (b *Broker) Stop(brokerID int) error {
	arguments := map[string]any{"broker_id": brokerID}
	return b.call("stop", arguments, nil)
}

// Story: The journal of all groups so far, a line each.
func (b *Broker) Story() ([]string, error) {
	arguments := map[string]any{}
	var result []string
	err := b.call("story", arguments, &result)
	return result, err
}

// TransactionCoordinatorOfOptions has what may be left out of TransactionCoordinatorOf.
type TransactionCoordinatorOfOptions struct {
	TimeoutS float64
}

// TransactionCoordinatorOf: The id of the broker that coordinates the transactional id, once there is one.
func (b *Broker) TransactionCoordinatorOf(transactionalID string, options *TransactionCoordinatorOfOptions) (int, error) {
	arguments := map[string]any{"transactional_id": transactionalID}
	if options != nil {
		set(arguments, "timeout_s", options.TimeoutS)
	}
	var result int
	err := b.call("transaction_coordinator_of", arguments, &result)
	return result, err
}

// UntilCommittedOptions has what may be left out of UntilCommitted.
type UntilCommittedOptions struct {
	TimeoutS float64
}

// UntilCommitted: Waits until the group has committed at least these offsets.
func (b *Broker) UntilCommitted(group string, offsets []Offset, options *UntilCommittedOptions) error {
	arguments := map[string]any{"group": group, "offsets": offsets}
	if options != nil {
		set(arguments, "timeout_s", options.TimeoutS)
	}
	return b.call("until_committed", arguments, nil)
}

// UntilHeldOptions has what may be left out of UntilHeld.
type UntilHeldOptions struct {
	Count    int
	TimeoutS float64
}

// UntilHeld: Waits until so many requests wait at the door.
func (b *Broker) UntilHeld(rule Rule, options *UntilHeldOptions) error {
	arguments := map[string]any{"rule": rule.Number}
	if options != nil {
		set(arguments, "count", options.Count)
		set(arguments, "timeout_s", options.TimeoutS)
	}
	return b.call("until_held", arguments, nil)
}

// UntilLagOptions has what may be left out of UntilLag.
type UntilLagOptions struct {
	AtLeast  int
	AtMost   *int
	TimeoutS float64
}

// UntilLag: Waits until the group's lag, the sum over its committed partitions, is in these bounds; returns it. A group that has
// committed nothing has no lag yet.
func (b *Broker) UntilLag(group string, options *UntilLagOptions) (int, error) {
	arguments := map[string]any{"group": group}
	if options != nil {
		set(arguments, "at_least", options.AtLeast)
		set(arguments, "at_most", options.AtMost)
		set(arguments, "timeout_s", options.TimeoutS)
	}
	var result int
	err := b.call("until_lag", arguments, &result)
	return result, err
}

// UntilRequestedOptions has what may be left out of UntilRequested.
type UntilRequestedOptions struct {
	TimeoutS float64
}

// UntilRequested: Waits until so many requests of that API have come in all.
func (b *Broker) UntilRequested(api string, count int, options *UntilRequestedOptions) error {
	arguments := map[string]any{"api": api, "count": count}
	if options != nil {
		set(arguments, "timeout_s", options.TimeoutS)
	}
	return b.call("until_requested", arguments, nil)
}

// UntilStableOptions has what may be left out of UntilStable.
type UntilStableOptions struct {
	Members  *int
	TimeoutS float64
}

// UntilStable: Waits until the group is Stable (with so many members); returns its generation. A consumer group (KIP-848) is once
// each member has its part of the target assignment and nothing else; its group epoch is the generation. Raises
// TimeoutError that says what the group is waiting for.
func (b *Broker) UntilStable(group string, options *UntilStableOptions) (int, error) {
	arguments := map[string]any{"group": group}
	if options != nil {
		set(arguments, "members", options.Members)
		set(arguments, "timeout_s", options.TimeoutS)
	}
	var result int
	err := b.call("until_stable", arguments, &result)
	return result, err
}

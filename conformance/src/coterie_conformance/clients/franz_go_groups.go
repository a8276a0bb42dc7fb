// franz-go: groups of every balancer and of the consumer protocol, offsets, transactions, and what only an administrator does.
package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func counts(members ...*crewMember) []int {
	sizes := []int{}
	for _, member := range members {
		sizes = append(sizes, len(member.has()))
	}
	return sizes
}

// Two members share the partitions; then the first has them all.
func crewSteps(name string, admin *kadm.Client, options ...kgo.Opt) {
	group := words.Group + "-" + name
	first := join(group, options...)
	do(name+": one member", func() error { return awaited(func() bool { return len(first.has()) == crewParts }) })
	second := join(group, options...)
	do(name+": two members", func() error {
		return awaited(func() bool { return len(first.has()) == crewParts/2 && len(second.has()) == crewParts/2 })
	})
	if name == "consumer" {
		step(name+": described", func() (any, error) {
			groups, err := admin.DescribeConsumerGroups(ctx, group, "nobody")
			described := groups[group]
			return []any{described.State, described.AssignorName, len(described.Members), described.SubscribedTopics(), groups["nobody"]}, err
		})
	} else {
		step(name+": described", func() (any, error) {
			groups, err := admin.DescribeGroups(ctx, group, "nobody")
			described := groups[group]
			return []any{described.State, described.ProtocolType, described.Protocol, len(described.Members), described.JoinTopics(), groups["nobody"]}, err
		})
	}
	step(name+": deleted while it has members", func() (any, error) { return admin.DeleteGroup(ctx, group) })
	second.leave()
	do(name+": one member again", func() error { return awaited(func() bool { return len(first.has()) == crewParts }) })
	first.leave()
	step(name+": listed", func() (any, error) {
		groups, err := admin.ListGroups(ctx)
		return groups[group], err
	})
	step(name+": deleted", func() (any, error) { return admin.DeleteGroup(ctx, group) })
}

func groupSteps(admin *kadm.Client) {
	crewSteps("range", admin, kgo.Balancers(kgo.RangeBalancer()))
	crewSteps("roundrobin", admin, kgo.Balancers(kgo.RoundRobinBalancer()))
	crewSteps("sticky", admin, kgo.Balancers(kgo.StickyBalancer()))
	crewSteps("cooperative-sticky", admin, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	staticSteps(admin, "static", kgo.Balancers(kgo.RangeBalancer()))
	if words.ConsumerProtocol {
		crewSteps("consumer", admin, kgo.ServerSideBalancer())
		staticSteps(admin, "static-consumer", kgo.ServerSideBalancer())
	}
	committedSteps(admin)
}

// A static member that comes back has what it had; another process of its name takes its role over.
func staticSteps(admin *kadm.Client, group string, protocol kgo.Opt) {
	of := func(instance string) *crewMember {
		return join(group, protocol, kgo.InstanceID(instance), kgo.SessionTimeout(30*time.Second))
	}
	first, second := of("i1"), of("i2")
	do(group+": two members", func() error {
		return awaited(func() bool { return len(first.has()) == crewParts/2 && len(second.has()) == crewParts/2 })
	})
	before := first.has()
	first.leave()          // static: it does not leave
	if group == "static" { // with the consumer protocol it would have to wait for the session's end
		first = of("i1")
		do(group+": the same partitions", func() error {
			return awaited(func() bool { return len(first.has()) == len(before) && first.has()[0] == before[0] })
		})
	}
	step(group+": leaves by its name", func() (any, error) {
		gone, err := admin.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("i1", "i9").Reason("the test"))
		results := map[string]any{}
		for instance, response := range gone {
			results[instance] = response.Err
		}
		return results, err
	})
	do(group+": the other has all", func() error { return awaited(func() bool { return len(second.has()) == crewParts }) })
	if group == "static" {
		first.leave()
	}
	second.leave()
	if group == "static" { // else it is empty once the sessions have ended, in the midst of the steps that list groups
		_, _ = admin.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("i1", "i2"))
	}
}

func committedSteps(admin *kadm.Client) {
	group := words.Group
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: words.Topic, Partition: 0, At: 4, LeaderEpoch: 0, Metadata: "note"})
	offsets.AddOffset(words.Topic, 1, 2, -1)
	offsets.AddOffset("nowhere", 0, 2, -1)
	step("commit without members", func() (any, error) { return admin.CommitOffsets(ctx, group, offsets) })
	step("fetch offsets", func() (any, error) { return admin.FetchOffsets(ctx, group) })
	step("fetch offsets of topics", func() (any, error) { return admin.FetchOffsetsForTopics(ctx, group, words.Topic, crewTopic) })
	step("fetch offsets of groups", func() (any, error) { return admin.FetchManyOffsets(ctx, group, "nobody"), nil })
	step("lag", func() (any, error) {
		lags, err := admin.Lag(ctx, group)
		return []any{lags[group].State, lags[group].Lag}, err
	})
	step("delete offsets", func() (any, error) {
		return admin.DeleteOffsets(ctx, group, kadm.TopicsSet{words.Topic: {1: {}}, crewTopic: {0: {}}, "nowhere": {0: {}}})
	})
	step("fetch offsets after that", func() (any, error) { return admin.FetchOffsets(ctx, group) })
	step("list groups", func() (any, error) { return admin.ListGroups(ctx) })
	step("list empty groups", func() (any, error) { return admin.ListGroups(ctx, "Empty") })
	step("list groups of a wrong state", func() (any, error) { return admin.ListGroups(ctx, "Nonsense") })
	step("list groups by type", func() (any, error) { return admin.ListGroupsByType(ctx, []string{"classic"}) })
	step("delete groups", func() (any, error) { return admin.DeleteGroups(ctx, group, "nobody") })
	step("find coordinators", func() (any, error) {
		found := admin.FindGroupCoordinators(ctx, group, "")
		nodes := map[string]any{}
		for name, response := range found {
			nodes[name] = []any{response.NodeID, response.Err}
		}
		return nodes, nil
	})
}

// Records of the crew's topic are copied exactly once, in two transactions of which the first is aborted.
func copySteps() {
	writer := connect()
	for range words.Records {
		check(writer.ProduceSync(ctx, &kgo.Record{Topic: crewTopic, Value: []byte("to copy"), Key: []byte("k")}).FirstErr())
	}
	writer.Close()
	session := must(kgo.NewGroupTransactSession(kgo.SeedBrokers(address), kgo.ConsumerGroup("copiers"), kgo.ConsumeTopics(crewTopic),
		kgo.TransactionalID("copier"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
	for _, name := range []string{"abort", "commit"} {
		copied := 0
		step("copy records, to "+name, func() (any, error) {
			timed, cancel := context.WithTimeout(ctx, readTime)
			defer cancel()
			check(session.Begin())
			for copied < words.Records {
				fetches := session.PollRecords(timed, words.Records-copied) // the topic has more
				if err := fetches.Err0(); err != nil {
					return copied, err
				}
				for _, record := range fetches.Records() {
					copied++
					if err := session.ProduceSync(ctx, &kgo.Record{Topic: copyTopic, Key: record.Key, Value: record.Value}).FirstErr(); err != nil {
						return copied, err
					}
				}
			}
			return session.End(ctx, kgo.TransactionEndTry(name == "commit"))
		})
	}
	session.Close()
	for name, level := range map[string]kgo.IsolationLevel{"committed": kgo.ReadCommitted(), "uncommitted": kgo.ReadUncommitted()} {
		count := map[string]int{"committed": words.Records, "uncommitted": 2 * words.Records}[name]
		step("copies that are read "+name, func() (any, error) {
			records, err := readAll(connect(kgo.ConsumeTopics(copyTopic), kgo.FetchIsolationLevel(level), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), count)
			return len(records), err
		})
	}
}

func transactionSteps(admin *kadm.Client) {
	copySteps()
	client := connect(kgo.TransactionalID(words.Transaction), kgo.TransactionTimeout(time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(client.BeginTransaction())
	do("in a transaction", func() error {
		return client.ProduceSync(ctx, &kgo.Record{Topic: plainTopic, Value: []byte("t")}).FirstErr()
	})
	step("describe the open transaction", func() (any, error) {
		described, err := admin.DescribeTransactions(ctx, words.Transaction, "nobody")
		open := described[words.Transaction]
		return []any{open.State, open.TimeoutMillis, open.Topics, described["nobody"].Err}, err
	})
	listed := func(states ...string) func() ([]any, error) {
		return func() ([]any, error) {
			transactions, err := admin.ListTransactions(ctx, nil, states)
			names := []any{}
			for _, one := range transactions.Sorted() {
				names = append(names, []any{one.TxnID, one.State})
			}
			return names, err
		}
	}
	step("list transactions", listed())
	step("list ongoing transactions", listed("Ongoing"))
	step("list transactions in a state that there is not", listed("Nonsense"))
	step("list transactions by pattern", func() (any, error) {
		transactions, err := admin.ListTransactionsByTxPattern(ctx, nil, nil, "mov.*")
		return transactions.TransactionalIDs(), err
	})
	step("describe producers", func() (any, error) {
		topics, err := admin.DescribeProducers(ctx, kadm.TopicsSet{plainTopic: {0: {}}})
		open := []any{}
		topics.EachProducer(func(p kadm.DescribedProducer) {
			if p.CurrentTxnStartOffset >= 0 {
				open = append(open, []any{p.LastSequence, p.CoordinatorEpoch, p.CurrentTxnStartOffset})
			}
		})
		return open, err
	})
	step("ends of committed records in an open transaction", func() (any, error) { return admin.ListCommittedOffsets(ctx, plainTopic) })
	step("markers of another epoch", func() (any, error) {
		id, epoch, err := client.ProducerID(ctx)
		check(err)
		written, err := admin.WriteTxnMarkers(ctx, kadm.TxnMarkers{ProducerID: id, ProducerEpoch: epoch - 1, Topics: kadm.TopicsSet{plainTopic: {0: {}}}})
		return written[id].Topics[plainTopic].Partitions[0].Err, err
	})
	other := connect(kgo.TransactionalID(words.Transaction))
	do("another of its name", func() error { _, _, err := other.ProducerID(ctx); return err })
	do("the first is fenced", func() error { return client.EndTransaction(ctx, kgo.TryCommit) })
	step("transactions after that", until(listed(), "CompleteAbort"))
	client.Close()
	other.Close()
}

// What a broker without an authorizer, secrets of tokens or share groups refuses, and what it keeps.
func securitySteps(admin *kadm.Client) {
	acls := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Allow("User:ann").AllowHosts("*").Topics("x").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	}
	step("create access control lists", func() (any, error) { return admin.CreateACLs(ctx, acls()) })
	step("describe access control lists", func() (any, error) { return admin.DescribeACLs(ctx, acls()) })
	step("delete access control lists", func() (any, error) { return admin.DeleteACLs(ctx, acls()) })
	step("create a delegation token", func() (any, error) { return admin.CreateDelegationToken(ctx, kadm.CreateDelegationToken{}) })
	step("describe delegation tokens", func() (any, error) { return admin.DescribeDelegationTokens(ctx) })
	step("renew a delegation token", func() (any, error) { return admin.RenewDelegationToken(ctx, []byte("h"), time.Hour) })
	step("expire a delegation token", func() (any, error) { return admin.ExpireDelegationToken(ctx, []byte("h"), time.Hour) })
	user := kadm.ClientQuotaEntity{{Type: "user", Name: pointer("ann")}, {Type: "client-id"}}
	quota := func(ops ...kadm.AlterClientQuotaOp) func() (kadm.AlteredClientQuotas, error) {
		return func() (kadm.AlteredClientQuotas, error) {
			return admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: user, Ops: ops}})
		}
	}
	quotas := func() (kadm.DescribedClientQuotas, error) {
		return admin.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: pointer("ann")}})
	}
	step("alter quotas", quota(kadm.AlterClientQuotaOp{Key: "consumer_byte_rate", Value: 4096}))
	step("alter quotas that there are not", quota(kadm.AlterClientQuotaOp{Key: "no_such_quota", Value: 1}))
	step("describe quotas", until(quotas, "4096"))
	step("remove quotas", quota(kadm.AlterClientQuotaOp{Key: "consumer_byte_rate", Remove: true}))
	upsert := kadm.UpsertSCRAM{User: "ann", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"}
	step("keep a SCRAM user", func() (any, error) { return admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{upsert}) })
	scram := func() (kadm.DescribedUserSCRAMs, error) { return admin.DescribeUserSCRAMs(ctx, "ann", "nobody") }
	step("describe SCRAM users", until(scram, "4096"))
	gone := []kadm.DeleteSCRAM{{User: "ann", Mechanism: kadm.ScramSha256}}
	step("remove a SCRAM user", func() (any, error) { return admin.AlterUserSCRAMs(ctx, gone, nil) })
	step("describe a share group", func() (any, error) { return admin.DescribeShareGroups(ctx, "sharers") })
	step("offsets of a share group", func() (any, error) { return admin.DescribeShareGroupOffsets(ctx, "sharers") })
	do("read as a share group", func() error {
		client := connect(kgo.ShareGroup("sharers"), kgo.ConsumeTopics(plainTopic))
		defer client.Close()
		timed, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		return client.PollFetches(timed).Err0()
	})
}

func main() {
	readWords()
	nameOfError = kafkaName
	plainTopic, copyTopic, crewTopic = words.Topic+"-plain", words.Topic+"-copies", words.Topic+"-shifts"
	compactedTopic = words.Topic + "-compacted"
	admin := kadm.NewClient(connect())
	topicSteps(admin)
	brokerSteps(admin)
	replicaSteps(admin)
	produceSteps(admin)
	offsetSteps(admin)
	groupSteps(admin)
	transactionSteps(admin)
	securitySteps(admin)
	step("delete topics", func() (any, error) {
		return admin.DeleteTopics(ctx, words.Topic, plainTopic, copyTopic, crewTopic, compactedTopic, "nowhere")
	})
	admin.Close()
}

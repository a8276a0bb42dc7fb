// sarama: offsets, groups of every balancer, and transactions.
package main

import (
	"context"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

func offsetSteps(admin sarama.ClusterAdmin) {
	client := must(sarama.NewClient(brokers(), config()))
	defer client.Close()
	for name, when := range map[string]int64{"earliest": sarama.OffsetOldest, "latest": sarama.OffsetNewest} {
		step("offset: "+name, func() (any, error) { return client.GetOffset(plainTopic, 0, when) })
	}
	step("offset of a time", func() (any, error) { return client.GetOffset(plainTopic, 0, baseTime.UnixMilli()+2) })
	step("offsets of times", func() (any, error) {
		results, err := admin.ListOffsets(map[string]map[int32]int64{plainTopic: {0: baseTime.UnixMilli() + 2}, copyTopic: {0: -3, 2: -1}}, &sarama.ListOffsetsOptions{IsolationLevel: sarama.ReadCommitted})
		return []any{results[plainTopic][0].Offset, results[copyTopic][0].Offset, results[copyTopic][2].Offset}, err
	})
	do("delete records", func() error { return admin.DeleteRecords(plainTopic, map[int32]int64{0: 2}) })
	do("delete too many records", func() error { return admin.DeleteRecords(plainTopic, map[int32]int64{0: 9999}) })
	offsets := map[string]map[int32]sarama.OffsetAndMetadata{words.Topic: {0: {Offset: 4, Metadata: "note"}, 1: {Offset: 2}}, "nowhere": {0: {Offset: 1}}}
	step("commit without members", func() (any, error) {
		response, err := admin.AlterConsumerGroupOffsets(words.Group, offsets, nil)
		return response.Errors, err
	})
	asked := map[string][]int32{words.Topic: {0, 1, 9}, "nowhere": {0}}
	step("a group's offsets", func() (any, error) { return admin.ListConsumerGroupOffsets(words.Group, asked) })
	step("offsets of groups", func() (any, error) {
		return admin.ListConsumerGroupOffsetsBatch(map[string]map[string][]int32{words.Group: asked, "nobody": asked})
	})
	do("delete an offset", func() error { return admin.DeleteConsumerGroupOffset(words.Group, words.Topic, 1) })
	do("delete an offset of an unknown group", func() error { return admin.DeleteConsumerGroupOffset("nobody", words.Topic, 1) })
	step("a group's offsets after that", func() (any, error) { return admin.ListConsumerGroupOffsets(words.Group, nil) })
}

// A member of a group, until it leaves.
type crewMember struct {
	mutex   sync.Mutex
	session sarama.ConsumerGroupSession // none between two
	read    int
	group   sarama.ConsumerGroup
	cancel  context.CancelFunc
	stopped chan struct{}
}

func (m *crewMember) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = session
	return nil
}

func (m *crewMember) Cleanup(sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = nil
	return nil
}

func (m *crewMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "read")
		session.Commit()
		m.mutex.Lock()
		m.read++
		m.mutex.Unlock()
	}
	return nil
}

func (m *crewMember) has() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.session == nil {
		return nil
	}
	return sortedNumbers(append([]int32{}, m.session.Claims()[crewTopic]...)) // a cooperative session's change
}

func (m *crewMember) hasRead() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.read
}

func join(group string, changes ...func(*sarama.Config)) *crewMember {
	ctx, cancel := context.WithCancel(context.Background())
	m := &crewMember{group: must(sarama.NewConsumerGroup(brokers(), group, config(changes...))), cancel: cancel, stopped: make(chan struct{})}
	go func() {
		defer close(m.stopped)
		for ctx.Err() == nil {
			if m.group.Consume(ctx, []string{crewTopic}, m) != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return m
}

func (m *crewMember) leave() {
	m.cancel()
	<-m.stopped
	m.group.Close()
}

// Records in the crew's topic so far.
var written int

// Two members share the partitions and read what was produced; then the first has them all.
func crewSteps(name string, admin sarama.ClusterAdmin, changes ...func(*sarama.Config)) {
	group := words.Group + "-" + name
	first := join(group, changes...)
	do(name+": one member", func() error { return awaited(func() bool { return len(first.has()) == crewParts }) })
	second := join(group, changes...)
	do(name+": two members", func() error {
		return awaited(func() bool { return len(first.has()) == crewParts/2 && len(second.has()) == crewParts/2 })
	})
	for n := range words.Records {
		must(send(config(manual), &sarama.ProducerMessage{Topic: crewTopic, Partition: int32(n % crewParts), Value: sarama.StringEncoder("x")}))
	}
	written += words.Records
	do(name+": all is read", func() error {
		return awaited(func() bool { return first.hasRead()+second.hasRead() >= written })
	})
	step(name+": described", func() (any, error) {
		groups, err := admin.DescribeConsumerGroups([]string{group, "nobody"})
		results := []any{}
		for _, g := range groups {
			results = append(results, []any{g.GroupId, g.Err, g.State, g.ProtocolType, g.Protocol, len(g.Members)})
		}
		return sorted(results), err
	})
	do(name+": deleted while it has members", func() error { return admin.DeleteConsumerGroup(group) })
	second.leave()
	do(name+": one member again", func() error { return awaited(func() bool { return len(first.has()) == crewParts }) })
	first.leave()
	step(name+": committed", func() (any, error) {
		return admin.ListConsumerGroupOffsets(group, map[string][]int32{crewTopic: {0, 1, 2, 3}})
	})
	do(name+": deleted", func() error { return admin.DeleteConsumerGroup(group) })
}

func groupSteps(admin sarama.ClusterAdmin) {
	by := func(strategy sarama.BalanceStrategy) func(*sarama.Config) {
		return func(c *sarama.Config) {
			c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
		}
	}
	crewSteps("range", admin, by(sarama.NewBalanceStrategyRange()))
	crewSteps("roundrobin", admin, by(sarama.NewBalanceStrategyRoundRobin()))
	crewSteps("sticky", admin, by(sarama.NewBalanceStrategySticky()))
	crewSteps("cooperative-sticky", admin, by(sarama.NewBalanceStrategyCooperativeSticky()))
	crewSteps("old", admin, func(c *sarama.Config) { c.Version = sarama.V2_1_0_0 })
	static := func(instance string) *crewMember {
		return join("static", func(c *sarama.Config) {
			c.Consumer.Group.InstanceId, c.Consumer.Group.Session.Timeout = instance, 30*time.Second
		})
	}
	first, second := static("i1"), static("i2")
	do("static: two members", func() error {
		return awaited(func() bool { return len(first.has()) == crewParts/2 && len(second.has()) == crewParts/2 })
	})
	before := first.has()
	first.leave()
	first = static("i1")
	do("static: the same partitions", func() error {
		return awaited(func() bool { return len(first.has()) == len(before) && first.has()[0] == before[0] })
	})
	first.leave()
	step("static: removed by name", func() (any, error) {
		response, err := admin.RemoveMemberFromConsumerGroup("static", []string{"i1", "i9"})
		results := []any{}
		for _, member := range response.Members {
			results = append(results, []any{member.GroupInstanceId, member.Err})
		}
		return results, err
	})
	do("static: the other has all", func() error { return awaited(func() bool { return len(second.has()) == crewParts }) })
	second.leave()
	step("list groups", admin.ListConsumerGroups)
	each("delete groups",
		func() error { return admin.DeleteConsumerGroup(words.Group) },
		func() error { return admin.DeleteConsumerGroup("nobody") })
}

func transactionSteps(admin sarama.ClusterAdmin) {
	c := config(manual, idempotent, func(c *sarama.Config) { c.Producer.Transaction.ID = words.Transaction })
	producer := must(sarama.NewSyncProducer(brokers(), c))
	for _, name := range []string{"abort", "commit"} {
		do("begin, to "+name, producer.BeginTxn)
		step("send, to "+name, func() (any, error) {
			_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: crewTopic, Partition: 0, Value: sarama.StringEncoder("t")})
			return offset, err
		})
		do("send offsets, to "+name, func() error {
			return producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{crewTopic: {{Partition: 0, Offset: 7, Metadata: pointer(name)}}}, "copiers")
		})
		step("the group's offsets before the end, to "+name, func() (any, error) { return admin.ListConsumerGroupOffsets("copiers", nil) })
		do(name+" it", map[string]func() error{"abort": producer.AbortTxn, "commit": producer.CommitTxn}[name])
	}
	do("close", producer.Close)
	step("the group's offsets after the transactions", until(func() (*sarama.OffsetFetchResponse, error) { return admin.ListConsumerGroupOffsets("copiers", nil) }, "commit"))
	end := must(admin.ListOffsets(map[string]map[int32]int64{crewTopic: {0: sarama.OffsetNewest}}, nil))[crewTopic][0].Offset
	for name, level := range map[string]sarama.IsolationLevel{"committed": sarama.ReadCommitted, "uncommitted": sarama.ReadUncommitted} {
		count := map[string]int{"committed": 1, "uncommitted": 2}[name]
		step("read "+name, func() (any, error) {
			return readAll(config(func(c *sarama.Config) { c.Consumer.IsolationLevel = level }), crewTopic, 0, end-4, count)
		})
	}
	fenced := must(sarama.NewSyncProducer(brokers(), c))
	other := must(sarama.NewSyncProducer(brokers(), c))
	do("the first of its name begins", fenced.BeginTxn)
	step("the first of its name is fenced", func() (any, error) {
		_, _, err := fenced.SendMessage(&sarama.ProducerMessage{Topic: crewTopic, Partition: 0, Value: sarama.StringEncoder("late")})
		return nil, err
	})
	fenced.Close()
	do("the other closes", other.Close)
}

func main() {
	readWords()
	nameOfError = kafkaName
	plainTopic, copyTopic, crewTopic = words.Topic+"-plain", words.Topic+"-copies", words.Topic+"-shifts"
	admin := must(sarama.NewClusterAdmin(brokers(), config()))
	topicSteps(admin)
	settingSteps(admin)
	clusterSteps(admin)
	produceSteps()
	offsetSteps(admin)
	groupSteps(admin)
	transactionSteps(admin)
	for _, topic := range []string{words.Topic, plainTopic, copyTopic, crewTopic, "nowhere"} {
		do("delete topic "+topic, func() error { return admin.DeleteTopic(topic) })
	}
	do("close the admin", admin.Close)
}

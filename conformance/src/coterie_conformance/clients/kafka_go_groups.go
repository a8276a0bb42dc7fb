// kafka-go: groups, their offsets, and transactions request by request.
package main

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// A member of a group, until it leaves.
type crewMember struct {
	mutex   sync.Mutex
	owned   int
	group   *kafka.ConsumerGroup
	cancel  context.CancelFunc
	stopped chan struct{}
}

func (m *crewMember) has() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.owned
}

func join(id string, balancer kafka.GroupBalancer) *crewMember {
	timed, cancel := context.WithCancel(ctx)
	m := &crewMember{cancel: cancel, stopped: make(chan struct{})}
	m.group = must(kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: id, Brokers: []string{address}, Topics: []string{crewTopic}, GroupBalancers: []kafka.GroupBalancer{balancer},
		HeartbeatInterval: 200 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond, StartOffset: kafka.FirstOffset}))
	go func() {
		defer close(m.stopped)
		for timed.Err() == nil {
			generation, err := m.group.Next(timed)
			if err != nil {
				continue
			}
			m.mutex.Lock()
			m.owned = len(generation.Assignments[crewTopic])
			m.mutex.Unlock()
			for _, one := range generation.Assignments[crewTopic] {
				_ = generation.CommitOffsets(map[string]map[int]int64{crewTopic: {one.ID: 1}}) // a rebalance may come between
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

// Two members share the partitions; then the first has them all.
func crewSteps(name string, balancer kafka.GroupBalancer) {
	id := words.Group + "-" + name
	first := join(id, balancer)
	do(name+": one member", func() error { return awaited(func() bool { return first.has() == crewParts }) })
	second := join(id, balancer)
	do(name+": two members", func() error {
		return awaited(func() bool { return first.has() == crewParts/2 && second.has() == crewParts/2 })
	})
	step(name+": described", func() (any, error) {
		response, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{id}})
		check(err)
		group, counts := response.Groups[0], []any{}
		for _, member := range group.Members {
			counts = append(counts, []any{len(member.MemberAssignments.Topics[0].Partitions), member.MemberMetadata.Topics})
		}
		return []any{group.Error, group.GroupState, counts}, nil
	})
	step(name+": deleted while it has members", func() (any, error) {
		return client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{id}})
	})
	second.leave()
	do(name+": one member again", func() error { return awaited(func() bool { return first.has() == crewParts }) })
	first.leave()
	step(name+": committed", func() (any, error) {
		return client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: id, Topics: map[string][]int{crewTopic: {0, 1, 2, 3}}})
	})
	step(name+": deleted", func() (any, error) {
		return client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{id, "nobody"}})
	})
}

func groupSteps() {
	crewSteps("range", kafka.RangeGroupBalancer{})
	crewSteps("roundrobin", kafka.RoundRobinGroupBalancer{})
	step("read as a group", func() (any, error) {
		reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{address}, GroupID: words.Group, GroupTopics: []string{words.Topic}, StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond, CommitInterval: 0})
		defer reader.Close()
		timed, cancel := context.WithTimeout(ctx, readTime)
		defer cancel()
		keys := []any{}
		for len(keys) < words.Records {
			message, err := reader.FetchMessage(timed)
			if err != nil {
				return sorted(keys), err
			}
			keys = append(keys, string(message.Key))
			if err := reader.CommitMessages(timed, message); err != nil {
				return sorted(keys), err
			}
		}
		return sorted(keys), nil
	})
	commit := map[string][]kafka.OffsetCommit{plainTopic: {{Partition: 0, Offset: 4, Metadata: "note"}}, "nowhere": {{Partition: 0, Offset: 1}}}
	step("commit without members", func() (any, error) {
		return client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: "lone", GenerationID: -1, Topics: commit})
	})
	step("a group's offsets", func() (any, error) {
		return client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: "lone", Topics: map[string][]int{plainTopic: {0}, "nowhere": {0}}})
	})
	step("delete offsets", func() (any, error) {
		return client.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{GroupID: "lone", Topics: map[string][]int{plainTopic: {0}, crewTopic: {0}, "nowhere": {0}}})
	})
	step("list groups", func() (any, error) {
		response, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
		return sorted(response.Groups), err
	})
}

// Asked again while the transaction before is still being ended.
func patient[T any](work func() (T, error)) func() (T, error) {
	return func() (result T, err error) {
		_ = awaited(func() bool {
			result, err = work()
			return !strings.Contains(string(must(json.Marshal(plain(reflect.ValueOf(result))))), "Concurrent Transactions")
		})
		return result, err
	}
}

// A transaction request by request, since the Writer has none: aborted, committed, and one of a stale epoch.
func transactionSteps() {
	initial := func() (producer *kafka.ProducerSession) {
		check(awaited(func() bool { // the first asks for the topic of transactions, which takes a moment
			response := must(client.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: words.Transaction, TransactionTimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1}))
			producer = response.Producer
			return response.Error == nil
		}))
		return producer
	}
	producer := initial()
	for _, name := range []string{"abort", "commit"} {
		step("add partitions, to "+name, patient(func() (any, error) {
			return client.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{TransactionalID: words.Transaction, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, Topics: map[string][]kafka.AddPartitionToTxn{plainTopic: {{Partition: 0}}}})
		}))
		step("produce, to "+name, patient(func() (any, error) {
			batch := protocol.RecordBatch{Attributes: protocol.Transactional, ProducerID: int64(producer.ProducerID), ProducerEpoch: int16(producer.ProducerEpoch), BaseSequence: map[string]int32{"abort": 0, "commit": 1}[name],
				Records: protocol.NewRecordReader(protocol.Record{Time: baseTime, Value: protocol.NewBytes([]byte(name))})}
			response, err := client.Produce(ctx, &kafka.ProduceRequest{Topic: plainTopic, RequiredAcks: kafka.RequireAll, TransactionalID: words.Transaction, Records: &batch})
			if err != nil {
				return nil, err
			}
			return response.Error, nil
		}))
		step("add offsets, to "+name, patient(func() (any, error) {
			return client.AddOffsetsToTxn(ctx, &kafka.AddOffsetsToTxnRequest{TransactionalID: words.Transaction, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, GroupID: "copiers"})
		}))
		step("commit offsets, to "+name, patient(func() (any, error) {
			return client.TxnOffsetCommit(ctx, &kafka.TxnOffsetCommitRequest{TransactionalID: words.Transaction, GroupID: "copiers", ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, GenerationID: -1, Topics: map[string][]kafka.TxnOffsetCommit{plainTopic: {{Partition: 0, Offset: 7, Metadata: name}}}})
		}))
		end := &kafka.EndTxnRequest{TransactionalID: words.Transaction, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch, Committed: name == "commit"}
		step("end it, to "+name, patient(func() (any, error) { return client.EndTxn(ctx, end) }))
		step("end it again, to "+name, patient(func() (any, error) { return client.EndTxn(ctx, end) }))
	}
	step("offsets of the transactions' group", until(func() (*kafka.OffsetFetchResponse, error) {
		return client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: "copiers", Topics: map[string][]int{plainTopic: {0}}})
	}, "commit"))
	next := initial()
	step("of a stale epoch", func() (any, error) {
		return client.EndTxn(ctx, &kafka.EndTxnRequest{TransactionalID: words.Transaction, ProducerID: next.ProducerID, ProducerEpoch: next.ProducerEpoch - 1, Committed: true})
	})
	step("offsets after the transactions", func() (any, error) {
		return client.ListOffsets(ctx, &kafka.ListOffsetsRequest{IsolationLevel: kafka.ReadCommitted, Topics: map[string][]kafka.OffsetRequest{plainTopic: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}}})
	})
}

func main() {
	readWords()
	nameOfError = kafkaName
	plainTopic, crewTopic = words.Topic+"-plain", words.Topic+"-shifts"
	client = &kafka.Client{Addr: kafka.TCP(address), Timeout: readTime}
	topicSteps()
	settingSteps()
	clusterSteps()
	recordSteps()
	groupSteps()
	transactionSteps()
	step("delete topics", func() (any, error) {
		return client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{words.Topic, plainTopic, crewTopic, "nowhere"}})
	})
}

// kafka-go: what its Client, Writer and Reader return. The argument is HOST:PORT.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

const crewParts = 4

var (
	ctx    = context.Background()
	client *kafka.Client
	// Topics beside the one of the words: with all settings by default, and for groups.
	plainTopic, crewTopic string
	// Of the records: late enough that no retention removes them.
	baseTime = time.Now().Add(-100 * time.Second).Truncate(time.Millisecond)
)

// Without the broker's words.
func kafkaName(err error) string {
	var code kafka.Error
	if errors.As(err, &code) {
		return code.Title()
	}
	return anAddress.ReplaceAllString(err.Error(), "ADDRESS")
}

func topicSteps() {
	entries := []kafka.ConfigEntry{}
	for name, value := range words.Settings {
		entries = append(entries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	create := func(validate bool, topics ...kafka.TopicConfig) func() (any, error) {
		return func() (any, error) {
			return client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: topics, ValidateOnly: validate})
		}
	}
	full := kafka.TopicConfig{Topic: words.Topic, NumPartitions: words.Partitions, ReplicationFactor: 1, ConfigEntries: entries}
	step("create a topic with every setting", create(false, full))
	step("create it again", create(false, full))
	step("create wrong topics", create(false,
		kafka.TopicConfig{Topic: "wrong", NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "soon"}}},
		kafka.TopicConfig{Topic: "a/b", NumPartitions: 1, ReplicationFactor: 1},
		kafka.TopicConfig{Topic: "many", NumPartitions: 1, ReplicationFactor: int(words.TooManyReplicas)},
		kafka.TopicConfig{Topic: "none", NumPartitions: 0, ReplicationFactor: 1},
		kafka.TopicConfig{Topic: "assigned", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignments: []kafka.ReplicaAssignment{{Partition: 0, Replicas: []int{9}}}}))
	step("only validate", create(true, kafka.TopicConfig{Topic: "more", NumPartitions: 1, ReplicationFactor: 1}))
	step("create two more", create(false,
		kafka.TopicConfig{Topic: plainTopic, NumPartitions: 1, ReplicationFactor: 1},
		kafka.TopicConfig{Topic: crewTopic, NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignments: []kafka.ReplicaAssignment{
			{Partition: 0, Replicas: []int{1}}, {Partition: 1, Replicas: []int{1}}, {Partition: 2, Replicas: []int{1}}, {Partition: 3, Replicas: []int{1}}}}))
	metadata := func() ([]any, error) {
		response, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{words.Topic, crewTopic, "nowhere"}})
		topics := []any{}
		if err == nil {
			for _, topic := range response.Topics {
				topics = append(topics, []any{topic.Name, topic.Internal, topic.Error, sorted(topic.Partitions)})
			}
		}
		return sorted(topics), err
	}
	step("metadata", until(metadata, `"Partition":3`))
}

func settingSteps() {
	described := func() (map[string]any, error) {
		response, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{IncludeSynonyms: true, IncludeDocumentation: true, Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: words.Topic}}})
		settings := map[string]any{}
		if err == nil {
			for _, entry := range response.Resources[0].ConfigEntries {
				entry.ConfigDocumentation = fmt.Sprint(entry.ConfigDocumentation != "")
				settings[entry.ConfigName] = entry
			}
		}
		return settings, err
	}
	step("describe its settings", described)
	step("alter incrementally", func() (any, error) {
		changes := []kafka.IncrementalAlterConfigsRequestConfig{
			{Name: "retention.ms", Value: "7200000", ConfigOperation: kafka.ConfigOperationSet},
			{Name: "cleanup.policy", Value: "compact", ConfigOperation: kafka.ConfigOperationSubtract},
			{Name: "flush.ms", ConfigOperation: kafka.ConfigOperationDelete},
			{Name: "leader.replication.throttled.replicas", Value: "1:1", ConfigOperation: kafka.ConfigOperationAppend},
		}
		return client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: words.Topic, Configs: changes}}})
	})
	step("describe after that", until(described, "7200000"))
	step("alter the old way", func() (any, error) {
		response, err := client.AlterConfigs(ctx, &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: words.Topic, Configs: []kafka.AlterConfigRequestConfig{{Name: "retention.ms", Value: "600000"}}}}})
		return len(response.Errors), err
	})
	step("describe after the old way", until(described, "600000"))
	step("create partitions", func() (any, error) {
		return client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: words.Topic, Count: int32(words.Partitions + 1)}, {Name: plainTopic, Count: 1}, {Name: "nowhere", Count: 2}}})
	})
}

func clusterSteps() {
	step("versions of APIs", func() (any, error) {
		response, err := client.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
		return len(response.ApiKeys) > 50, err
	})
	step("elect leaders", func() (any, error) {
		return client.ElectLeaders(ctx, &kafka.ElectLeadersRequest{Topic: crewTopic, Partitions: []int{0, 9}, Timeout: time.Second})
	})
	reassign := func(broker int) func() (any, error) {
		return func() (any, error) {
			return client.AlterPartitionReassignments(ctx, &kafka.AlterPartitionReassignmentsRequest{Topic: crewTopic, Timeout: time.Second, Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{{PartitionID: 0, BrokerIDs: []int{broker}}}})
		}
	}
	step("reassign to where it is", reassign(1))
	step("reassign to an unknown broker", reassign(9))
	step("list reassignments", func() (any, error) {
		return client.ListPartitionReassignments(ctx, &kafka.ListPartitionReassignmentsRequest{Timeout: time.Second, Topics: map[string]kafka.ListPartitionReassignmentsRequestTopic{crewTopic: {PartitionIndexes: []int{0}}}})
	})
	entry := kafka.ACLEntry{ResourceType: kafka.ResourceTypeTopic, ResourceName: "x", ResourcePatternType: kafka.PatternTypeLiteral, Principal: "User:ann", Host: "*", Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow}
	step("create an access control list", func() (any, error) {
		return client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{entry}})
	})
	filter := kafka.ACLFilter{ResourceTypeFilter: kafka.ResourceTypeAny, ResourcePatternTypeFilter: kafka.PatternTypeAny, Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny}
	step("describe access control lists", func() (any, error) { return client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: filter}) })
	user := []kafka.AlterClientQuotaEntity{{EntityType: "user", EntityName: "ann"}}
	quotas := func(ops ...kafka.AlterClientQuotaOps) func() (any, error) {
		return func() (any, error) {
			return client.AlterClientQuotas(ctx, &kafka.AlterClientQuotasRequest{Entries: []kafka.AlterClientQuotaEntry{{Entities: user, Ops: ops}}})
		}
	}
	step("alter quotas", quotas(kafka.AlterClientQuotaOps{Key: "producer_byte_rate", Value: 4096}))
	step("describe quotas", until(func() (any, error) {
		return client.DescribeClientQuotas(ctx, &kafka.DescribeClientQuotasRequest{Components: []kafka.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: 0, Match: "ann"}}})
	}, "4096"))
	step("remove quotas", quotas(kafka.AlterClientQuotaOps{Key: "producer_byte_rate", Remove: true}))
	upsert := kafka.UserScramCredentialsUpsertion{Name: "ann", Mechanism: kafka.ScramMechanismSha256, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: make([]byte, 32)}
	step("keep a SCRAM user", func() (any, error) {
		return client.AlterUserScramCredentials(ctx, &kafka.AlterUserScramCredentialsRequest{Upsertions: []kafka.UserScramCredentialsUpsertion{upsert}})
	})
	step("describe SCRAM users", until(func() (any, error) {
		return client.DescribeUserScramCredentials(ctx, &kafka.DescribeUserScramCredentialsRequest{Users: []kafka.UserScramCredentialsUser{{Name: "ann"}, {Name: "nobody"}}})
	}, "4096"))
	step("remove a SCRAM user", func() (any, error) {
		return client.AlterUserScramCredentials(ctx, &kafka.AlterUserScramCredentialsRequest{Deletions: []kafka.UserScramCredentialsDeletion{{Name: "ann", Mechanism: kafka.ScramMechanismSha256}}})
	})
}

func write(topic string, codec kafka.Compression, acks kafka.RequiredAcks, messages ...kafka.Message) func() error {
	return func() error {
		writer := &kafka.Writer{Addr: kafka.TCP(address), Topic: topic, Balancer: &kafka.RoundRobin{}, Compression: codec, RequiredAcks: acks, MaxAttempts: 3, BatchBytes: 3 << 20, BatchTimeout: 5 * time.Millisecond}
		defer writer.Close()
		return writer.WriteMessages(ctx, messages...)
	}
}

// [offset, key, value, headers, timestamp] of so many records of a partition.
func readAll(topic string, offset int64, count int, level kafka.IsolationLevel) ([]any, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{address}, Topic: topic, MaxBytes: 4 << 20, MaxWait: 200 * time.Millisecond, IsolationLevel: level, OffsetOutOfRangeError: true, MaxAttempts: 2})
	defer reader.Close()
	check(reader.SetOffset(offset))
	timed, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	records := []any{}
	for len(records) < count {
		m, err := reader.ReadMessage(timed)
		if err != nil {
			return records, err
		}
		value, stamp := any(m.Value), m.Time.Sub(baseTime).Milliseconds()
		if len(m.Value) > 100 {
			value = len(m.Value)
		}
		if stamp > 10_000 || stamp < -10_000 {
			stamp = -1
		}
		records = append(records, []any{m.Offset, m.Key, value, m.Headers, stamp})
	}
	return records, nil
}

func recordSteps() {
	codecs := []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd}
	count := 0
	for number, codec := range codecs {
		for _, acks := range []kafka.RequiredAcks{kafka.RequireAll, kafka.RequireOne} {
			stamp := baseTime.Add(time.Duration(number) * time.Millisecond)
			batch := []kafka.Message{{Key: []byte("a"), Value: []byte(strings.Repeat("v", 30)), Time: stamp}, {Key: []byte("b"), Value: []byte(codec.String()), Time: stamp}}
			do(fmt.Sprintf("write with %s, acks %s", codec, acks), write(plainTopic, codec, acks, batch...))
			count += len(batch)
		}
	}
	special := []kafka.Message{
		{Key: []byte("gone")},
		{Value: []byte("no key")},
		{Key: []byte{}, Value: []byte{}},
		{Value: []byte("with headers"), Headers: []kafka.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}}},
		{Value: make([]byte, 1_000_000)},
	}
	for number, message := range special {
		message.Time = baseTime
		do(fmt.Sprintf("write a record of form %d", number), write(plainTopic, 0, kafka.RequireAll, message))
	}
	count += len(special)
	do("write too much", write(plainTopic, 0, kafka.RequireAll, kafka.Message{Value: make([]byte, 2<<20)}))
	do("write to a topic that there is not", write("nowhere", 0, kafka.RequireAll, kafka.Message{Value: []byte("x")}))
	for n := range words.Records {
		do(fmt.Sprint("write ", n), write(words.Topic, kafka.Snappy, kafka.RequireAll, kafka.Message{Key: fmt.Appendf(nil, "k%d", n), Value: []byte("v")}))
	}
	step("read all", func() (any, error) { return readAll(plainTopic, kafka.FirstOffset, count, kafka.ReadUncommitted) })
	step("read from an offset", func() (any, error) { return readAll(plainTopic, 15, 3, kafka.ReadCommitted) })
	step("read from an offset too far", func() (any, error) { return readAll(plainTopic, 9999, 1, kafka.ReadUncommitted) })
	step("offsets", func() (any, error) {
		asked := []kafka.OffsetRequest{kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0), kafka.TimeOffsetOf(0, baseTime.Add(2*time.Millisecond))}
		response, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{plainTopic: asked}})
		check(err)
		offsets := response.Topics[plainTopic][0]
		for offset := range offsets.Offsets {
			offsets.Offsets[offset] = time.UnixMilli(0)
		}
		return offsets, nil
	})
	step("a connection's offsets", func() (any, error) {
		connection, err := kafka.DialLeader(ctx, "tcp", address, plainTopic, 0)
		check(err)
		defer connection.Close()
		first, last, err := connection.ReadOffsets()
		at, _ := connection.ReadOffset(baseTime.Add(3 * time.Millisecond))
		return []any{first, last, at}, err
	})
}

// sarama: what its ClusterAdmin, producers, consumers and groups return. The argument is HOST:PORT.
package main

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const crewParts = 4

var (
	// Topics beside the one of the words: with all settings by default, for copies, and for groups.
	plainTopic, copyTopic, crewTopic string
	// Of the records: late enough that no retention removes them.
	baseTime = time.Now().Add(-100 * time.Second).Truncate(time.Millisecond)
)

// Of the newest version that sarama speaks, unless the caller changes it.
func config(changes ...func(*sarama.Config)) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Metadata.Retry.Max, c.Admin.Retry.Max, c.Producer.Retry.Max = 3, 3, 3
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	for _, change := range changes {
		change(c)
	}
	return c
}

// Without the broker's words.
func kafkaName(err error) string {
	var code sarama.KError
	if errors.As(err, &code) {
		return code.Error()
	}
	return anAddress.ReplaceAllString(err.Error(), "ADDRESS")
}

func manual(c *sarama.Config) { c.Producer.Partitioner = sarama.NewManualPartitioner }

func idempotent(c *sarama.Config) { c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1 }

func brokers() []string { return []string{address} }

func topicSteps(admin sarama.ClusterAdmin) {
	settings := map[string]*string{}
	for name, value := range words.Settings {
		settings[name] = &value
	}
	create := func(name string, count int32, replicas int16, settings map[string]*string, validate bool) func() error {
		return func() error {
			detail := sarama.TopicDetail{NumPartitions: count, ReplicationFactor: replicas, ConfigEntries: settings}
			return admin.CreateTopic(name, &detail, validate)
		}
	}
	for _, one := range []struct {
		name   string
		create func() error
	}{
		{"create a topic with every setting", create(words.Topic, int32(words.Partitions), 1, settings, false)},
		{"create it again", create(words.Topic, int32(words.Partitions), 1, settings, false)},
		{"create a topic with a wrong setting", create("wrong", 1, 1, map[string]*string{"retention.ms": pointer("soon")}, false)},
		{"create a topic with a wrong name", create("a/b", 1, 1, nil, false)},
		{"create with too many replicas", create("wrong", 1, words.TooManyReplicas, nil, false)},
		{"create without partitions", create("wrong", 0, 1, nil, false)},
		{"create by the broker's defaults", create(plainTopic, -1, -1, nil, false)},
		{"only validate", create("more", 1, 1, nil, true)},
		{"create for copies", create(copyTopic, crewParts, 1, nil, false)},
		{"create for a crew", create(crewTopic, crewParts, 1, nil, false)},
	} {
		do(one.name, one.create)
	}
	step("list topics", until(admin.ListTopics, crewTopic))
	step("describe topics", func() (any, error) { return admin.DescribeTopics([]string{words.Topic, "nowhere"}) })
}

func settingSteps(admin sarama.ClusterAdmin) {
	described := func() (map[string]sarama.ConfigEntry, error) {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: words.Topic})
		return byName(entries), err
	}
	step("describe its settings", described)
	step("describe two settings with documentation", func() (any, error) {
		two := []*sarama.ConfigResource{{Type: sarama.TopicResource, Name: words.Topic, ConfigNames: []string{"retention.ms", "min.insync.replicas"}}}
		results, err := admin.DescribeConfigs(two, sarama.DescribeConfigsOptions{IncludeSynonyms: true, IncludeDocumentation: true})
		types := map[string]any{}
		for _, result := range results {
			for _, entry := range result.Configs {
				types[entry.Name] = []any{entry.Type, entry.Documentation != nil && *entry.Documentation != ""}
			}
		}
		return types, err
	})
	changes := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms":                          {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: pointer("7200000")},
		"cleanup.policy":                        {Operation: sarama.IncrementalAlterConfigsOperationSubtract, Value: pointer("compact")},
		"flush.ms":                              {Operation: sarama.IncrementalAlterConfigsOperationDelete},
		"leader.replication.throttled.replicas": {Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: pointer("1:1")},
	}
	do("alter incrementally", func() error { return admin.IncrementalAlterConfig(sarama.TopicResource, words.Topic, changes, false) })
	step("describe after that", until(described, "7200000"))
	do("alter the old way", func() error {
		return admin.AlterConfig(sarama.TopicResource, words.Topic, map[string]*string{"retention.ms": pointer("600000")}, false)
	})
	step("describe after the old way", until(described, "600000"))
	do("create partitions", func() error { return admin.CreatePartitions(copyTopic, crewParts+1, nil, false) })
	each("wrong partitions",
		func() error { return admin.CreatePartitions(copyTopic, 1, nil, false) },
		func() error { return admin.CreatePartitions("nowhere", 9, nil, false) },
		func() error { return admin.CreatePartitions(copyTopic, 9, [][]int32{{9}}, true) })
}

func byName(entries []sarama.ConfigEntry) map[string]sarama.ConfigEntry {
	named := map[string]sarama.ConfigEntry{}
	for _, entry := range entries {
		named[entry.Name] = entry
	}
	return named
}

func clusterSteps(admin sarama.ClusterAdmin) {
	step("the cluster", func() (any, error) {
		nodes, controller, err := admin.DescribeCluster()
		return []any{len(nodes), controller}, err
	})
	step("settings of the broker", func() (any, error) {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: "1", ConfigNames: []string{"message.max.bytes", "log.retention.hours"}})
		return byName(entries), err
	})
	step("log dirs", func() (any, error) {
		dirs, err := admin.DescribeLogDirs([]int32{1})
		sizes := []any{}
		for _, dir := range dirs[1] {
			for _, topic := range dir.Topics {
				if topic.Topic == crewTopic {
					sizes = append(sizes, sorted(topic.Partitions))
				}
			}
		}
		return sizes, err
	})
	step("elect leaders", func() (any, error) {
		results, err := admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{crewTopic: {0}, "nowhere": {0}})
		return []any{results[crewTopic][0].ErrorCode, results["nowhere"][0].ErrorCode}, err
	})
	every := func(broker int32) [][]int32 { return [][]int32{{broker}, {broker}, {broker}, {broker}} }
	do("reassign to where it is", func() error { return admin.AlterPartitionReassignments(crewTopic, every(1)) })
	do("reassign to an unknown broker", func() error { return admin.AlterPartitionReassignments(crewTopic, every(9)) })
	step("list reassignments", func() (any, error) { return admin.ListPartitionReassignments(crewTopic, []int32{0, 1}) })
	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: "x", ResourcePatternType: sarama.AclPatternLiteral}
	acl := sarama.Acl{Principal: "User:ann", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
	filter := sarama.AclFilter{ResourceType: sarama.AclResourceAny, ResourcePatternTypeFilter: sarama.AclPatternAny, Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny}
	do("create an access control list", func() error { return admin.CreateACL(resource, acl) })
	step("list access control lists", func() (any, error) { return admin.ListAcls(filter) })
	step("delete access control lists", func() (any, error) { return admin.DeleteACL(filter, false) })
	user := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: "ann"}}
	quotas := func() ([]sarama.DescribeClientQuotasEntry, error) {
		return admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: "ann"}}, true)
	}
	do("alter quotas", func() error {
		return admin.AlterClientQuotas(user, sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 4096}, false)
	})
	step("describe quotas", until(quotas, "4096"))
	do("remove quotas", func() error {
		return admin.AlterClientQuotas(user, sarama.ClientQuotasOp{Key: "producer_byte_rate", Remove: true}, false)
	})
	upsert := []sarama.AlterUserScramCredentialsUpsert{{Name: "ann", Mechanism: sarama.SCRAM_MECHANISM_SHA_512, Iterations: 4096, Salt: []byte("salt"), Password: []byte("secret")}}
	step("keep a SCRAM user", func() (any, error) { return admin.UpsertUserScramCredentials(upsert) })
	scram := func() ([]*sarama.DescribeUserScramCredentialsResult, error) {
		return admin.DescribeUserScramCredentials([]string{"ann", "nobody"})
	}
	step("describe SCRAM users", until(scram, "4096"))
	gone := []sarama.AlterUserScramCredentialsDelete{{Name: "ann", Mechanism: sarama.SCRAM_MECHANISM_SHA_512}}
	step("remove a SCRAM user", func() (any, error) { return admin.DeleteUserScramCredentials(gone) })
}

func send(c *sarama.Config, messages ...*sarama.ProducerMessage) ([]any, error) {
	producer, err := sarama.NewSyncProducer(brokers(), c)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	sent := []any{}
	for _, message := range messages {
		partition, offset, err := producer.SendMessage(message)
		if err != nil {
			return sent, err
		}
		sent = append(sent, []any{partition, offset})
	}
	return sent, nil
}

// [offset, key, value, headers, timestamp] of so many records of a partition.
func readAll(c *sarama.Config, topic string, partition int32, from int64, count int) ([]any, error) {
	consumer, err := sarama.NewConsumer(brokers(), c)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, partition, from)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	records := []any{}
	timeout := time.After(readTime)
	for len(records) < count {
		select {
		case m := <-reader.Messages():
			value := any(m.Value)
			if len(m.Value) > 100 {
				value = len(m.Value)
			}
			stamp := m.Timestamp.Sub(baseTime).Milliseconds()
			if stamp > 10_000 || stamp < -10_000 {
				stamp = -1
			}
			records = append(records, []any{m.Offset, m.Key, value, m.Headers, stamp})
		case <-timeout:
			return records, errNotAll
		}
	}
	return records, nil
}

// With every compression, every acks, and the requests of several versions of Kafka.
func produceSteps() {
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD}
	for number, codec := range codecs {
		for _, acks := range []sarama.RequiredAcks{sarama.WaitForAll, sarama.WaitForLocal} {
			step(fmt.Sprintf("produce with %s, acks %d", codec, acks), func() (any, error) {
				c := config(manual, func(c *sarama.Config) { c.Producer.Compression, c.Producer.RequiredAcks = codec, acks })
				stamp := baseTime.Add(time.Duration(number) * time.Millisecond)
				return send(c, &sarama.ProducerMessage{Topic: plainTopic, Key: sarama.StringEncoder(codec.String()), Value: sarama.StringEncoder(strings.Repeat("v", 30)), Timestamp: stamp})
			})
		}
	}
	// Kafka 4 refuses the last one.
	versions := []sarama.KafkaVersion{sarama.V0_11_0_0, sarama.V1_0_0_0, sarama.V2_1_0_0, sarama.V2_8_0_0, sarama.V3_6_0_0, sarama.V4_0_0_0, sarama.V0_10_2_0}
	for number, version := range versions {
		of := func(c *sarama.Config) { c.Version = version }
		step("produce as "+version.String(), func() (any, error) {
			return send(config(manual, of), &sarama.ProducerMessage{Topic: copyTopic, Partition: 1, Value: sarama.StringEncoder(version.String()), Timestamp: baseTime})
		})
		step("read as "+version.String(), func() (any, error) { return readAll(config(of), copyTopic, 1, sarama.OffsetOldest, number+1) })
	}
	special := []*sarama.ProducerMessage{
		{Key: sarama.StringEncoder("gone")},
		{Value: sarama.StringEncoder("no key")},
		{Key: sarama.StringEncoder(""), Value: sarama.StringEncoder("")},
		{Value: sarama.StringEncoder("with headers"), Headers: []sarama.RecordHeader{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("a")}, {Key: []byte{}, Value: []byte{}}}},
		{Value: sarama.ByteEncoder(make([]byte, 1_000_000))},
	}
	large := func(c *sarama.Config) { c.Producer.MaxMessageBytes = 3 << 20 }
	for number, message := range special {
		message.Topic, message.Timestamp = copyTopic, baseTime
		step(fmt.Sprintf("produce a record of form %d, idempotent", number), func() (any, error) { return send(config(manual, idempotent, large), message) })
	}
	step("too large", func() (any, error) {
		return send(config(manual, large), &sarama.ProducerMessage{Topic: plainTopic, Value: sarama.ByteEncoder(make([]byte, 2<<20))})
	})
	step("to a topic that there is not", func() (any, error) { return send(config(manual), &sarama.ProducerMessage{Topic: "nowhere"}) })
	step("read every form", func() (any, error) { return readAll(config(), copyTopic, 0, sarama.OffsetOldest, len(special)) })
	step("read from an offset", func() (any, error) { return readAll(config(), copyTopic, 0, 2, 3) })
	step("read from an offset too far", func() (any, error) { return readAll(config(), copyTopic, 0, 9999, 1) })
	batch := []*sarama.ProducerMessage{}
	for n := range words.Records {
		batch = append(batch, &sarama.ProducerMessage{Topic: words.Topic, Partition: int32(n % words.Partitions), Value: sarama.StringEncoder(fmt.Sprint("v", n)), Key: sarama.StringEncoder(fmt.Sprint("k", n))})
	}
	step("produce to a topic with settings", func() (any, error) { return send(config(manual, idempotent), batch...) })
}

func sortedNumbers(numbers []int32) []int32 {
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	return numbers
}

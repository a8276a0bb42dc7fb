// franz-go: what its client (kgo) and its admin (kadm) return. The argument is HOST:PORT.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const crewParts = 4

var (
	ctx = context.Background()
	// Topics beside the one of the words: with all settings by default, for copies, and for groups.
	plainTopic, copyTopic, crewTopic, compactedTopic string
	// Of the records: late enough that no retention removes them.
	baseTime = time.Now().UnixMilli() - 100_000
)

func kafkaName(err error) string {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Message
	}
	return anAddress.ReplaceAllString(err.Error(), "ADDRESS")
}

func connect(options ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.MetadataMinAge(100 * time.Millisecond)}, options...)...))
}

func topicSteps(admin *kadm.Client) {
	settings := map[string]*string{}
	for name, value := range words.Settings {
		settings[name] = &value
	}
	partitions, topic := int32(words.Partitions), words.Topic
	create := func() (kadm.CreateTopicResponses, error) {
		return admin.CreateTopics(ctx, partitions, 1, settings, topic)
	}
	step("create a topic with every setting", create)
	step("create it again", create)
	wrong := map[string]*string{"retention.ms": pointer("soon")}
	step("create a topic with a wrong setting", func() (any, error) { return admin.CreateTopics(ctx, 1, 1, wrong, "wrong") })
	unknown := map[string]*string{"no.such.setting": pointer("1")}
	step("create a topic with an unknown setting", func() (any, error) { return admin.CreateTopics(ctx, 1, 1, unknown, "wrong") })
	step("create topics with wrong names", func() (any, error) {
		return admin.CreateTopics(ctx, 1, 1, nil, "", "..", "a/b", strings.Repeat("x", 250))
	})
	step("create with too many replicas", func() (any, error) { return admin.CreateTopics(ctx, 1, words.TooManyReplicas, nil, "wrong") })
	step("create without partitions", func() (any, error) { return admin.CreateTopics(ctx, 0, 1, nil, "wrong") })
	step("create by the broker's defaults", func() (any, error) { return admin.CreateTopics(ctx, -1, -1, nil, plainTopic) })
	step("only validate", func() (any, error) { return admin.ValidateCreateTopics(ctx, 1, 1, nil, "more", topic) })
	step("create two more", func() (any, error) { return admin.CreateTopics(ctx, crewParts, 1, nil, crewTopic, copyTopic) })
	compacted := map[string]*string{"cleanup.policy": pointer("compact")}
	step("create a compacted topic", func() (any, error) { return admin.CreateTopics(ctx, 1, 1, compacted, compactedTopic) })
	step("list topics", until(func() (kadm.TopicDetails, error) { return admin.ListTopics(ctx) }, compactedTopic))
	step("metadata of two topics", func() (any, error) { return admin.Metadata(ctx, topic, "nowhere") })
	described := func() (map[string]kadm.Config, error) {
		resources, err := admin.DescribeTopicConfigs(ctx, topic)
		settings := map[string]kadm.Config{}
		for _, config := range resources[0].Configs {
			settings[config.Key] = config
		}
		return settings, err
	}
	step("describe its settings", described)
	changes := []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "retention.ms", Value: pointer("7200000")},
		{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: pointer("compact")},
		{Op: kadm.DeleteConfig, Name: "flush.ms"},
		{Op: kadm.AppendConfig, Name: "leader.replication.throttled.replicas", Value: pointer("1:1")},
	}
	step("validate an alteration", func() (any, error) { return admin.ValidateAlterTopicConfigs(ctx, changes, topic) })
	step("alter incrementally", func() (any, error) { return admin.AlterTopicConfigs(ctx, changes, topic) })
	step("describe after that", until(described, "7200000"))
	appended := []kadm.AlterConfig{{Op: kadm.AppendConfig, Name: "retention.ms", Value: pointer("1")}}
	step("append to what is no list", func() (any, error) { return admin.AlterTopicConfigs(ctx, appended, topic) })
	step("alter a topic that there is not", func() (any, error) { return admin.AlterTopicConfigs(ctx, changes[:1], "nowhere") })
	replaced := []kadm.AlterConfig{{Name: "retention.ms", Value: pointer("600000")}}
	step("alter the old way", func() (any, error) { return admin.AlterTopicConfigsState(ctx, replaced, topic) })
	step("describe after the old way", until(described, "600000"))
	step("add a partition", func() (any, error) { return admin.CreatePartitions(ctx, 1, copyTopic) })
	step("fewer partitions", func() (any, error) { return admin.UpdatePartitions(ctx, 1, copyTopic) })
	step("as many partitions", func() (any, error) { return admin.UpdatePartitions(ctx, crewParts+1, copyTopic) })
	step("validate more partitions", func() (any, error) { return admin.ValidateUpdatePartitions(ctx, 9, copyTopic, "nowhere") })
}

func brokerSteps(admin *kadm.Client) {
	described := func() (map[string]kadm.Config, error) {
		configs, err := admin.DescribeBrokerConfigs(ctx, 1)
		some := map[string]kadm.Config{}
		for _, resource := range configs {
			for _, config := range resource.Configs {
				if slices.Contains([]string{"message.max.bytes", "log.retention.hours", "log.cleaner.threads"}, config.Key) {
					some[config.Key] = config
				}
			}
		}
		return some, err
	}
	step("three settings of the broker", described)
	dynamic := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "message.max.bytes", Value: pointer("1048600")}}
	step("alter the broker", func() (any, error) { return admin.AlterBrokerConfigs(ctx, dynamic, 1) })
	step("alter every broker", func() (any, error) { return admin.AlterBrokerConfigs(ctx, dynamic) })
	step("the broker's settings after that", until(described, "DYNAMIC_DEFAULT_BROKER_CONFIG"))
	dynamic[0] = kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "message.max.bytes"}
	step("the broker's own default again", func() (any, error) { return admin.AlterBrokerConfigs(ctx, dynamic, 1) })
	step("the cluster's default again", func() (any, error) { return admin.AlterBrokerConfigs(ctx, dynamic) })
	static := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.dirs", Value: pointer("/tmp")}}
	step("alter what needs a restart", func() (any, error) { return admin.AlterBrokerConfigs(ctx, static, 1) })
	step("resources with settings", func() (any, error) {
		return admin.ListConfigResources(ctx, kadm.ConfigResourceTopic, kadm.ConfigResourceBroker)
	})
	step("the cluster", func() (any, error) {
		metadata, err := admin.BrokerMetadata(ctx)
		return []any{metadata.Brokers.NodeIDs(), metadata.Controller}, err
	})
	step("validate features", func() (any, error) {
		return admin.UpdateFeatures(ctx, true, kadm.FeatureUpdate{Feature: "no.such.feature", MaxVersionLevel: 1, UpgradeType: 1})
	})
}

func replicaSteps(admin *kadm.Client) {
	step("describe log dirs", func() (any, error) {
		dirs, err := admin.DescribeBrokerLogDirs(ctx, 1, kadm.TopicsSet{crewTopic: {0: {}, 1: {}}})
		sizes := []any{}
		dirs.Each(func(dir kadm.DescribedLogDir) {
			dir.Topics.Each(func(p kadm.DescribedLogDirPartition) {
				sizes = append(sizes, []any{p.Topic, p.Partition, p.Size, p.OffsetLag, p.IsFuture})
			})
		})
		return sorted(sizes), err
	})
	step("move to a log dir that there is not", func() (any, error) {
		return admin.AlterBrokerReplicaLogDirs(ctx, 1, kadm.AlterReplicaLogDirsReq{"/nowhere": {crewTopic: {0: {}}}})
	})
	one := kadm.TopicsSet{crewTopic: {0: {}}}
	step("elect the preferred leader", func() (any, error) { return admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, one) })
	step("elect an unclean leader", func() (any, error) { return admin.ElectLeaders(ctx, kadm.ElectLiveReplica, one) })
	step("elect where there is none", func() (any, error) {
		return admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, kadm.TopicsSet{"nowhere": {0: {}}})
	})
	move := func(brokers ...int32) func() (kadm.AlterPartitionAssignmentsResponses, error) {
		return func() (kadm.AlterPartitionAssignmentsResponses, error) {
			return admin.AlterPartitionAssignments(ctx, kadm.AlterPartitionAssignmentsReq{crewTopic: {0: brokers}})
		}
	}
	step("reassign to where it is", move(1))
	step("reassign to an unknown broker", move(9))
	step("reassign to a broker twice", move(1, 1))
	step("cancel a reassignment", move())
	step("list reassignments", func() (any, error) { return admin.ListPartitionReassignments(ctx, one) })
}

// [partition, offset, key, value, headers, timestamp, its type, compression] of so many records.
func readAll(client *kgo.Client, count int) ([]any, error) {
	defer client.Close()
	records := []any{}
	timed, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	for len(records) < count {
		fetches := client.PollFetches(timed)
		if err := fetches.Err0(); err != nil {
			return sorted(records), err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			stamp, value := r.Timestamp.UnixMilli()-baseTime, any(r.Value)
			if stamp > 10_000 {
				stamp = -1 // of the broker
			} else if stamp < 0 {
				stamp += baseTime
			}
			if len(r.Value) > 100 {
				value = len(r.Value)
			}
			records = append(records, []any{r.Partition, r.Offset, r.Key, value, r.Headers, stamp, r.Attrs.TimestampType(), r.Attrs.CompressionType()})
		})
	}
	return sorted(records), nil
}

// Of one partition's readers: from where.
func at(topic string, offset kgo.Offset) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: offset}})
}

// Three records of every compression with every acks.
func produceCodecs(admin *kadm.Client) int {
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	count := 0
	for number, codec := range codecs {
		for _, acks := range [][]kgo.Opt{
			{kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()},
			{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
			{},
		} {
			client := connect(append(acks, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
			batch := []*kgo.Record{}
			for n := range 3 {
				key, value := []byte(fmt.Sprintf("k%d", n)), []byte(strings.Repeat("v", 30))
				batch = append(batch, &kgo.Record{Topic: plainTopic, Key: key, Value: value, Timestamp: time.UnixMilli(baseTime + int64(number*10+n))})
			}
			check(client.ProduceSync(ctx, batch...).FirstErr())
			check(client.Flush(ctx))
			count += len(batch)
			client.Close()
			check(awaited(func() bool { // a batch without acknowledgement may still be on its way
				ends := must(admin.ListEndOffsets(ctx, plainTopic))
				end, _ := ends.Lookup(plainTopic, 0)
				return end.Offset == int64(count)
			}))
		}
	}
	return count
}

func produceSteps(admin *kadm.Client) {
	count := produceCodecs(admin)
	client := connect(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(3<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer client.Close()
	special := []*kgo.Record{
		{Key: []byte("gone")},
		{Value: []byte("no key")},
		{Key: []byte{}, Value: []byte{}},
		{Value: []byte("with headers"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}}},
		{Value: []byte("long ago"), Timestamp: time.UnixMilli(1)},
		{Value: make([]byte, 1_000_000)},
	}
	for _, record := range special {
		record.Topic = plainTopic
		if record.Timestamp.IsZero() {
			record.Timestamp = time.UnixMilli(baseTime)
		}
		check(client.ProduceSync(ctx, record).FirstErr())
		count++
	}
	do("too large", func() error {
		return client.ProduceSync(ctx, &kgo.Record{Topic: plainTopic, Value: make([]byte, 2<<20)}).FirstErr()
	})
	do("to a topic that there is not", func() error {
		other := connect(kgo.UnknownTopicRetries(1))
		defer other.Close()
		return other.ProduceSync(ctx, &kgo.Record{Topic: "nowhere", Value: []byte("x")}).FirstErr()
	})
	client.ProduceSync(ctx, func() (records []*kgo.Record) {
		for n := range words.Records {
			records = append(records, &kgo.Record{Topic: words.Topic, Partition: int32(n % words.Partitions), Key: fmt.Appendf(nil, "k%d", n), Value: fmt.Appendf(nil, "v%d", n)})
		}
		return records
	}()...)
	do("without a key, to a compacted topic", func() error {
		return client.ProduceSync(ctx, &kgo.Record{Topic: compactedTopic, Value: []byte("x")}).FirstErr()
	})
	step("read every compression and form", func() (any, error) { return readAll(connect(at(plainTopic, kgo.NewOffset().AtStart())), count) })
	step("read from a timestamp", func() (any, error) {
		return readAll(connect(at(plainTopic, kgo.NewOffset().AfterMilli(baseTime+30))), 10)
	})
	step("read from two before the end", func() (any, error) { return readAll(connect(at(plainTopic, kgo.NewOffset().AtEnd().Relative(-2))), 2) })
	step("read from an offset too far, reset to the end", func() (any, error) {
		reader := connect(at(plainTopic, kgo.NewOffset().At(9999)), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd().Relative(-1)))
		return readAll(reader, 1)
	})
	step("read a topic with every setting", func() (any, error) {
		return readAll(connect(kgo.ConsumeTopics(words.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), words.Records)
	})
}

func offsetSteps(admin *kadm.Client) {
	step("first offsets", func() (any, error) { return admin.ListStartOffsets(ctx, plainTopic, words.Topic) })
	step("ends", func() (any, error) { return admin.ListEndOffsets(ctx, plainTopic, words.Topic) })
	step("ends of committed records", func() (any, error) { return admin.ListCommittedOffsets(ctx, plainTopic) })
	step("offsets of greatest timestamps", func() (any, error) { return admin.ListMaxTimestampOffsets(ctx, plainTopic) })
	step("first offsets on the broker's disk", func() (any, error) { return admin.ListLocalLogStartOffsets(ctx, plainTopic) })
	step("last offsets elsewhere", func() (any, error) { return admin.ListLatestRemoteOffsets(ctx, plainTopic) })
	step("offsets of a time", func() (any, error) { return admin.ListOffsetsAfterMilli(ctx, baseTime+20, plainTopic) })
	step("offsets of a time to come", func() (any, error) { return admin.ListOffsetsAfterMilli(ctx, baseTime*2, plainTopic) })
	step("offsets of a topic that there is not", func() (any, error) { return admin.ListEndOffsets(ctx, "nowhere") })
	step("ends of epochs", func() (any, error) {
		return admin.OffsetForLeaderEpoch(ctx, kadm.OffsetForLeaderEpochRequest{plainTopic: {0: 0, 9: 0}})
	})
	deletion := func(offset int64) func() (kadm.DeleteRecordsResponses, error) {
		return func() (kadm.DeleteRecordsResponses, error) {
			offsets := kadm.Offsets{}
			offsets.AddOffset(plainTopic, 0, offset, -1)
			return admin.DeleteRecords(ctx, offsets)
		}
	}
	step("delete records", deletion(2))
	step("delete too many records", deletion(9999))
	step("delete up to the end", deletion(-1))
	step("first offsets after that", func() (any, error) { return admin.ListStartOffsets(ctx, plainTopic) })
}

// One member of a group, that polls until it is closed.
type crewMember struct {
	client *kgo.Client
	mutex  sync.Mutex
	owned  map[int32]bool
	done   chan struct{}
}

func join(group string, options ...kgo.Opt) *crewMember {
	m := &crewMember{owned: map[int32]bool{}, done: make(chan struct{})}
	change := func(has bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			m.mutex.Lock()
			defer m.mutex.Unlock()
			for _, partition := range topics[crewTopic] {
				if has {
					m.owned[partition] = true
				} else {
					delete(m.owned, partition)
				}
			}
		}
	}
	m.client = connect(append(options, kgo.ConsumerGroup(group), kgo.ConsumeTopics(crewTopic), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))...)
	go func() {
		defer close(m.done)
		for !m.client.PollFetches(ctx).IsClientClosed() {
		}
	}()
	return m
}

func (m *crewMember) has() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	partitions := []int32{}
	for partition := range m.owned {
		partitions = append(partitions, partition)
	}
	slices.Sort(partitions)
	return partitions
}

func (m *crewMember) leave() {
	m.client.Close()
	<-m.done
}

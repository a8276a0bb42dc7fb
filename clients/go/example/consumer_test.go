// Ten tests of a franz-go consumer, each with a fault that a container's Kafka cannot be asked for.
package example

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/coterie/coterie-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

const group = "billing"

var offset = []coterie.Offset{{Topic: "orders", Partition: 0, Offset: 2}}

// begin empties the broker that all tests share, and gives it a topic with two records.
func begin(t *testing.T, shared *coterie.Broker) {
	t.Helper()
	shared.Must(shared.Reset())
	shared.Must(shared.CreateTopic("orders", &coterie.CreateTopicOptions{Partitions: 2}))
	shared.Must(shared.Produce("orders", [][]byte{[]byte("a"), []byte("b")}, nil))
}

func consumer(t *testing.T, broker *coterie.Broker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(broker.BootstrapAddress, ",")...), kgo.ConsumerGroup(group), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.HeartbeatInterval(50 * time.Millisecond), kgo.ClientID("worker"),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
	}, options...)
	client, err := kgo.NewClient(options...)
	broker.Must(err)
	t.Cleanup(client.Close)
	return client
}

// read polls until so many records have come, and returns their values.
func read(t *testing.T, client *kgo.Client, count int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records came", len(values), count)
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

func commit(t *testing.T, client *kgo.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return client.CommitUncommittedOffsets(ctx)
}

func TestConsumer(t *testing.T) {
	broker := coterie.Start(t)
	tests := map[string]func(*testing.T){
		"records arrive": func(t *testing.T) {
			if got := read(t, consumer(t, broker), 2); got[0] != "a" || got[1] != "b" {
				t.Fatal(got)
			}
		},
		"a commit is retried while the coordinator loads": func(t *testing.T) {
			client := consumer(t, broker)
			read(t, client, 2)
			_, err := broker.Fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", &coterie.FailOptions{Times: 2})
			broker.Must(err)
			broker.Must(commit(t, client))
			broker.Must(broker.UntilCommitted(group, offset, nil))
		},
		"a held SyncGroup delays the first poll": func(t *testing.T) {
			held, err := broker.Hold("SyncGroup", &coterie.HoldOptions{Group: group})
			broker.Must(err)
			client := consumer(t, broker)
			broker.Must(broker.UntilHeld(held, nil))
			if _, err := broker.UntilStable(group, &coterie.UntilStableOptions{TimeoutS: 0.05}); !coterie.IsTimeout(err) {
				t.Fatal(err)
			}
			broker.Must(broker.Release(held))
			read(t, client, 2)
		},
		"a member whose session expired joins again": func(t *testing.T) {
			client := consumer(t, broker)
			read(t, client, 2)
			broker.Must(broker.Expire(group, "worker"))
			broker.Must(broker.Produce("orders", [][]byte{[]byte("c")}, &coterie.ProduceOptions{Partition: coterie.Int(1)}))
			for _, value := range read(t, client, 1) {
				if value == "c" {
					return
				}
			}
			read(t, client, 1)
		},
		"another coordinator": func(t *testing.T) {
			client := consumer(t, broker)
			read(t, client, 2)
			broker.Must(broker.MoveCoordinator(group))
			broker.Must(commit(t, client))
			broker.Must(broker.UntilCommitted(group, offset, nil))
		},
		"a lost response of a commit": func(t *testing.T) {
			client := consumer(t, broker, kgo.RequestTimeoutOverhead(time.Second))
			read(t, client, 2)
			_, err := broker.Cut("OffsetCommit", nil)
			broker.Must(err)
			_ = commit(t, client)
			broker.Must(commit(t, client))
			broker.Must(broker.UntilCommitted(group, offset, nil))
		},
		"a slow fetch": func(t *testing.T) {
			_, err := broker.Delay("Fetch", 100, nil)
			broker.Must(err)
			read(t, consumer(t, broker), 2)
		},
		"connections drop": func(t *testing.T) {
			client := consumer(t, broker)
			read(t, client, 2)
			dropped, err := broker.DropConnections(nil)
			broker.Must(err)
			if dropped == 0 {
				t.Fatal("nothing was connected")
			}
			broker.Must(commit(t, client))
		},
		"two members share the partitions": func(t *testing.T) {
			one, other := consumer(t, broker), consumer(t, broker)
			go one.PollFetches(context.Background())
			go other.PollFetches(context.Background())
			_, err := broker.UntilStable(group, &coterie.UntilStableOptions{Members: coterie.Int(2)})
			broker.Must(err)
		},
		"lag": func(t *testing.T) {
			client := consumer(t, broker)
			read(t, client, 2)
			broker.Must(commit(t, client))
			broker.Must(broker.Produce("orders", [][]byte{[]byte("c")}, nil))
			lag, err := broker.UntilLag(group, &coterie.UntilLagOptions{AtLeast: 1})
			broker.Must(err)
			if lag != 1 {
				t.Fatal(lag)
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			begin(t, broker)
			test(t)
		})
	}
}

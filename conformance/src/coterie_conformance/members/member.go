// A member of a group until SIGTERM: prints what it owns and each record that it reads. Arguments: address, group, topic, protocol.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	mutex sync.Mutex
	owned = map[int32]bool{}
)

func report(key string, value any) {
	text, _ := json.Marshal(map[string]any{key: value})
	fmt.Println(string(text))
}

func change(partitions []int32, has bool) {
	mutex.Lock()
	defer mutex.Unlock()
	for _, partition := range partitions {
		if has {
			owned[partition] = true
		} else {
			delete(owned, partition)
		}
	}
	sorted := make([]int, 0, len(owned))
	for partition := range owned {
		sorted = append(sorted, int(partition))
	}
	sort.Ints(sorted)
	report("owned", sorted)
}

func main() {
	topic := os.Args[3]
	gained := func(_ context.Context, _ *kgo.Client, p map[string][]int32) { change(p[topic], true) }
	gone := func(_ context.Context, _ *kgo.Client, p map[string][]int32) { change(p[topic], false) }
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumerGroup(os.Args[2]),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(gained),
		kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone),
	}
	if os.Args[4] == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		polling, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := client.PollFetches(polling)
		cancel()
		fetches.EachRecord(func(r *kgo.Record) { report("read", []int64{int64(r.Partition), r.Offset}) })
		if fetches.NumRecords() > 0 {
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

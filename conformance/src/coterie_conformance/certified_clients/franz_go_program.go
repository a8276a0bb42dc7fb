// franz-go as a consumer that processes, then commits, or as a producer. Argument: consumer or producer.
package main

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func consume() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		polling, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		fetches := client.PollFetches(polling)
		cancel()
		fetches.EachRecord(func(record *kgo.Record) { processed(record.Value) })
		if fetches.NumRecords() > 0 {
			report(client.CommitUncommittedOffsets(context.Background()))
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

func produce() {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		panic(err)
	}
	eachLine(func(value string) {
		client.Produce(context.Background(), kgo.StringRecord(value), func(record *kgo.Record, err error) {
			report(err)
			if err == nil {
				processed(record.Value)
			}
		})
	})
	report(client.Flush(context.Background()))
}

func main() {
	if isConsumer() {
		consume()
	} else {
		produce()
	}
}

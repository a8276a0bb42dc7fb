// A member of a group until SIGTERM, with sarama. Arguments: address, group, topics, KEY=VALUE...
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

type crew struct{}

func (crew) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (crew) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (crew) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
	}
	return nil
}

func milliseconds(text string) time.Duration {
	number, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return time.Duration(number) * time.Millisecond
}

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V2_6_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group := &config.Consumer.Group
	for _, word := range os.Args[4:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "client.id":
			config.ClientID = value
		case "group.instance.id":
			group.InstanceId = value
		case "session.timeout.ms":
			group.Session.Timeout = milliseconds(value)
		case "heartbeat.interval.ms":
			group.Heartbeat.Interval = milliseconds(value)
		case "max.poll.interval.ms":
			group.Rebalance.Timeout = milliseconds(value)
		case "auto.commit.interval.ms":
			config.Consumer.Offsets.AutoCommit.Interval = milliseconds(value)
		case "metadata.max.age.ms":
			config.Metadata.RefreshFrequency = milliseconds(value)
		default:
			panic(name)
		}
	}
	member, err := sarama.NewConsumerGroup([]string{os.Args[1]}, os.Args[2], config)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		if err := member.Consume(ctx, strings.Split(os.Args[3], ","), crew{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	member.Close()
}

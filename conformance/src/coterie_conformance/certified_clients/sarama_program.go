// sarama as a consumer that marks what it has processed, or as a producer. Argument: consumer or producer.
package main

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

type handler struct{}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			processed(message.Value)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func consume(config *sarama.Config) {
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	member, err := sarama.NewConsumerGroup(bootstrap, group, config)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		if err := member.Consume(ctx, []string{topic}, handler{}); err != nil {
			report(err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	report(member.Close())
}

func produce(config *sarama.Config) {
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	producer, err := sarama.NewAsyncProducer(bootstrap, config)
	if err != nil {
		panic(err)
	}
	go func() {
		for message := range producer.Successes() {
			value, _ := message.Value.Encode()
			processed(value)
		}
	}()
	go func() {
		for failed := range producer.Errors() {
			report(failed)
		}
	}()
	eachLine(func(value string) {
		producer.Input() <- &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
	})
	report(producer.Close())
}

func main() {
	config := sarama.NewConfig()
	if isConsumer() {
		consume(config)
	} else {
		produce(config)
	}
}

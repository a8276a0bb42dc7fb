// kafka-go as a consumer that processes, then commits, or as a producer. Argument: consumer or producer.
package main

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

func consume() {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: bootstrap, GroupID: group, GroupTopics: []string{topic},
		StartOffset: kafka.FirstOffset, MaxWait: 500 * time.Millisecond, IsolationLevel: kafka.ReadCommitted,
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		message, err := reader.FetchMessage(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			report(err)
			continue
		}
		processed(message.Value)
		report(reader.CommitMessages(ctx, message))
	}
	report(reader.Close())
}

func produce() {
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap...), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond, Async: true,
		Completion: func(messages []kafka.Message, err error) {
			report(err)
			for _, message := range messages {
				if err == nil {
					processed(message.Value)
				}
			}
		},
	}
	eachLine(func(value string) {
		report(writer.WriteMessages(context.Background(), kafka.Message{Value: []byte(value)}))
	})
	report(writer.Close())
}

func main() {
	if isConsumer() {
		consume()
	} else {
		produce()
	}
}

// A share consumer of franz-go that does what its standard input says, line by line. Arguments: address, group, topic, mode.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type position struct {
	partition int32
	offset    int64
}

var (
	mutex  sync.Mutex
	failed []string
	held   = map[position]*kgo.Record{}
	status = map[string]kgo.AckStatus{"ACCEPT": kgo.AckAccept, "RELEASE": kgo.AckRelease, "REJECT": kgo.AckReject}
)

func report(value any) {
	text, _ := json.Marshal(value)
	fmt.Println(string(text))
}

func record(words []string) *kgo.Record {
	partition, _ := strconv.Atoi(words[1])
	offset, _ := strconv.Atoi(words[2])
	return held[position{int32(partition), int64(offset)}]
}

func flush(client *kgo.Client) map[string]any {
	if err := client.FlushAcks(context.Background()); err != nil {
		return map[string]any{"error": err.Error()}
	}
	mutex.Lock()
	defer mutex.Unlock()
	result := map[string]any{"failed": append([]string{}, failed...)}
	failed = nil
	return result
}

func run(client *kgo.Client, words []string, implicit bool) map[string]any {
	switch words[0] {
	case "poll":
		wait, _ := strconv.Atoi(words[1])
		polling, cancel := context.WithTimeout(context.Background(), time.Duration(wait)*time.Millisecond)
		fetches := client.PollFetches(polling)
		cancel()
		held = map[position]*kgo.Record{}
		records := [][]any{}
		fetches.EachRecord(func(r *kgo.Record) {
			held[position{r.Partition, r.Offset}] = r
			records = append(records, []any{r.Partition, r.Offset, r.DeliveryCount(), string(r.Value)})
		})
		return map[string]any{"records": records}
	case "acknowledge":
		record(words).Ack(status[words[3]])
		return map[string]any{}
	case "renew":
		record(words).Ack(kgo.AckRenew)
		return flush(client)
	case "commit":
		if implicit {
			client.MarkAcks(kgo.AckAccept)
		}
		return flush(client)
	}
	client.Close()
	return map[string]any{}
}

func main() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ShareGroup(os.Args[2]),
		kgo.ConsumeTopics(os.Args[3]),
		kgo.MaxConcurrentFetches(0),
		kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			mutex.Lock()
			defer mutex.Unlock()
			for _, r := range results {
				if r.Err != nil {
					failed = append(failed, r.Err.Error())
				}
			}
		}),
	)
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		report(run(client, words, os.Args[4] == "implicit"))
		if words[0] == "close" {
			return
		}
	}
}

// franz-go: chains of three groups, each of which copies a topic into the next, while their members come and go. Prints a line of
// JSON for each chain: {"name": ..., "wrong": ""}. Arguments: address, prefix of topics and groups.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	records    = 1000
	partitions = 6
	levels     = 3
	members    = 3
	limit      = 90 * time.Second
)

var address = os.Args[1]

type chain struct {
	name         string
	balancer     kgo.GroupBalancer
	transactions bool
	lives        atomic.Int32
}

func (c *chain) topic(level int) string { return fmt.Sprintf("%s-%s-%d", os.Args[2], c.name, level) }

func (c *chain) options(level int) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(address),
		kgo.ConsumerGroup(c.topic(level)),
		kgo.ConsumeTopics(c.topic(level - 1)),
		kgo.Balancers(c.balancer),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	}
}

func (c *chain) copies(level int, fetches kgo.Fetches) []*kgo.Record {
	var copies []*kgo.Record
	fetches.EachRecord(func(r *kgo.Record) {
		copies = append(copies, &kgo.Record{Topic: c.topic(level), Key: r.Key, Value: r.Value})
	})
	return copies
}

func polled(ctx context.Context, poll func(context.Context, int) kgo.Fetches) kgo.Fetches {
	polling, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	return poll(polling, 50)
}

// A member copies for a while, and leaves.
func (c *chain) copy(ctx context.Context, level int, polls int) error {
	client, err := kgo.NewClient(append(c.options(level), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll())...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for ; polls > 0 && ctx.Err() == nil; polls-- {
		fetches := polled(ctx, client.PollRecords)
		if copies := c.copies(level, fetches); len(copies) > 0 {
			if err := client.ProduceSync(context.Background(), copies...).FirstErr(); err != nil {
				return err
			}
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				return err
			}
		}
		client.AllowRebalance()
	}
	return nil
}

func (c *chain) copyInTransactions(ctx context.Context, level int, polls int) error {
	id := kgo.TransactionalID(fmt.Sprintf("%s-%d", c.topic(level), c.lives.Add(1)))
	session, err := kgo.NewGroupTransactSession(append(c.options(level), id)...)
	if err != nil {
		return err
	}
	defer session.Close()
	for ; polls > 0 && ctx.Err() == nil; polls-- {
		fetches := polled(ctx, session.PollRecords)
		copies := c.copies(level, fetches)
		if len(copies) == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		err := session.ProduceSync(context.Background(), copies...).FirstErr()
		if _, ended := session.End(context.Background(), kgo.TransactionEndTry(err == nil)); ended != nil {
			return ended
		}
	}
	return nil
}

func (c *chain) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	for level := 0; level <= levels; level++ {
		if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, c.topic(level)); err != nil {
			return err
		}
	}
	for number := range records {
		record := &kgo.Record{Topic: c.topic(0), Key: []byte(strconv.Itoa(number)), Value: []byte("x")}
		client.Produce(ctx, record, nil)
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	copying, stop := context.WithCancel(ctx)
	var crews sync.WaitGroup
	work := c.copy
	if c.transactions {
		work = c.copyInTransactions
	}
	for level := 1; level <= levels; level++ {
		for range members {
			crews.Add(1)
			go func() {
				defer crews.Done()
				for copying.Err() == nil {
					_ = work(copying, level, 5+rand.Intn(20)) // a refused commit is made by the next member
				}
			}()
		}
	}
	err = c.read(ctx)
	stop()
	crews.Wait()
	return err
}

// All records come through; with transactions each of them once.
func (c *chain) read(ctx context.Context) error {
	reader, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(c.topic(levels)),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer reader.Close()
	seen := map[string]int{}
	for len(seen) < records {
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d records came through", len(seen), records)
		}
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { seen[string(r.Key)]++ })
	}
	polled(ctx, reader.PollRecords).EachRecord(func(r *kgo.Record) { seen[string(r.Key)]++ })
	for key, times := range seen {
		if c.transactions && times > 1 {
			return fmt.Errorf("record %s came through %d times", key, times)
		}
	}
	return nil
}

func main() {
	balancers := map[string]kgo.GroupBalancer{
		"range":              kgo.RangeBalancer(),
		"roundrobin":         kgo.RoundRobinBalancer(),
		"sticky":             kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	for name, balancer := range balancers {
		for _, transactions := range []bool{false, true} {
			c := &chain{name: name, balancer: balancer, transactions: transactions}
			if transactions {
				c.name += "-transactions"
			}
			wrong := ""
			if err := c.run(); err != nil {
				wrong = err.Error()
			}
			text, _ := json.Marshal(map[string]string{"name": "chain " + c.name, "wrong": wrong})
			fmt.Println(string(text))
		}
	}
}

// Prints the versions of Apache Kafka that franz-go takes the broker of the argument for.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	versions, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		panic(err)
	}
	versions.Each(func(v kadm.BrokerApiVersions) { fmt.Println(v.VersionGuess()) })
}

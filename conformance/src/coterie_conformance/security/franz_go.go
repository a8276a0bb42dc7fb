// franz-go: one call over SASL_SSL. The settings are JSON on the standard input; prints its error.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(given map[string]string) sasl.Mechanism {
	user, password := given["sasl.username"], given["sasl.password"]
	switch given["sasl.mechanism"] {
	case "OAUTHBEARER":
		return oauth.Auth{Token: given["sasl.token"]}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return plain.Auth{User: user, Pass: password}.AsMechanism()
}

func call(ctx context.Context, given map[string]string) error {
	pem, err := os.ReadFile(given["ssl.truststore.location"])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots}
	if file, ok := given["ssl.keystore.location"]; ok {
		pair, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			return err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(given["bootstrap.servers"]),
		kgo.DialTLSConfig(config),
		kgo.RequestRetries(0),
		kgo.AllowAutoTopicCreation(),
	}
	if given["security.protocol"] == "SASL_SSL" {
		options = append(options, kgo.SASL(mechanism(given)))
	}
	switch given["call"] {
	case "group":
		options = append(options, kgo.ConsumerGroup("denied"), kgo.ConsumeTopics("words"))
	case "transaction":
		options = append(options, kgo.TransactionalID("denied"))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	switch given["call"] {
	case "topic":
		return client.ProduceSync(ctx, &kgo.Record{Topic: "denied", Value: []byte("one")}).FirstErr()
	case "group":
		for ctx.Err() == nil {
			if err := client.PollFetches(ctx).Err(); err != nil {
				return err
			}
		}
		return ctx.Err()
	case "transaction":
		_, _, err := client.ProducerID(ctx)
		return err
	}
	_, err = kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	return err
}

func name(err error) string {
	var known *kerr.Error
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return "CertificateVerificationError"
	case errors.As(err, &known):
		return known.Message
	}
	return err.Error()
}

func main() {
	given := map[string]string{}
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := call(ctx, given); err != nil {
		fmt.Println(name(err))
	}
}

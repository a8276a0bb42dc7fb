// sarama: one call over SASL_SSL. The settings are JSON on the standard input; prints its error.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// A login by SCRAM, which sarama leaves to its user.
type exchange struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (e *exchange) Begin(user, password, authorization string) error {
	client, err := e.hash.NewClient(user, password, authorization)
	if err == nil {
		e.conversation = client.NewConversation()
	}
	return err
}

func (e *exchange) Step(challenge string) (string, error) { return e.conversation.Step(challenge) }

func (e *exchange) Done() bool { return e.conversation.Done() }

type provider struct{ token string }

func (p provider) Token() (*sarama.AccessToken, error) { return &sarama.AccessToken{Token: p.token}, nil }

type nothing struct{}

func (nothing) Setup(sarama.ConsumerGroupSession) error                                     { return nil }
func (nothing) Cleanup(sarama.ConsumerGroupSession) error                                   { return nil }
func (nothing) ConsumeClaim(sarama.ConsumerGroupSession, sarama.ConsumerGroupClaim) error { return nil }

func config(given map[string]string) (*sarama.Config, error) {
	pem, err := os.ReadFile(given["ssl.truststore.location"])
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Metadata.Retry.Max, c.Producer.Retry.Max, c.Admin.Retry.Max = 0, 0, 0
	c.Producer.Return.Successes = true
	c.Net.TLS.Enable, c.Net.TLS.Config = true, &tls.Config{RootCAs: roots}
	if file, ok := given["ssl.keystore.location"]; ok {
		pair, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			return nil, err
		}
		c.Net.TLS.Config.Certificates = []tls.Certificate{pair}
	}
	c.Net.SASL.Enable = given["security.protocol"] == "SASL_SSL"
	c.Net.SASL.User, c.Net.SASL.Password = given["sasl.username"], given["sasl.password"]
	c.Net.SASL.Mechanism = sarama.SASLMechanism(given["sasl.mechanism"])
	c.Net.SASL.TokenProvider = provider{given["sasl.token"]}
	hashes := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": sha256.New, "SCRAM-SHA-512": sha512.New}
	if hash, ok := hashes[given["sasl.mechanism"]]; ok {
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: hash} }
	}
	if given["call"] == "transaction" {
		c.Producer.Idempotent, c.Net.MaxOpenRequests, c.Producer.Retry.Max = true, 1, 1
		c.Producer.Transaction.ID, c.Producer.RequiredAcks = "denied", sarama.WaitForAll
	}
	return c, nil
}

func call(given map[string]string) error {
	c, err := config(given)
	if err != nil {
		return err
	}
	client, err := sarama.NewClient([]string{given["bootstrap.servers"]}, c)
	if err != nil {
		return err
	}
	defer client.Close()
	switch given["call"] {
	case "topic":
		producer, err := sarama.NewSyncProducerFromClient(client)
		if err != nil {
			return err
		}
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: "denied", Value: sarama.StringEncoder("one")})
		return err
	case "group":
		group, err := sarama.NewConsumerGroupFromClient("denied", client)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		return group.Consume(ctx, []string{"words"}, nothing{})
	case "transaction":
		_, err := sarama.NewSyncProducerFromClient(client)
		return err
	}
	_, err = client.Topics()
	return err
}

func name(err error) string {
	var code sarama.KError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return "CertificateVerificationError"
	case errors.As(err, &code):
		return code.Error()
	}
	return err.Error()
}

func main() {
	given := map[string]string{}
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	if err := call(given); err != nil {
		fmt.Println(name(err))
	}
}

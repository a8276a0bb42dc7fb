// Package coterie gives Go tests a Kafka broker that obeys: hold a SyncGroup, expire a member, move a coordinator, empty it.
//
//	broker := coterie.Start(t)
//	broker.Must(broker.CreateTopic("orders", nil))
//	... any Kafka client connects to broker.BootstrapServers ...
//
// Operations (operations.go) are those of coterie's control API.
package coterie

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Offset is a committed offset of a partition.
type Offset struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int    `json:"offset"`
}

// Lag is the number of records behind a group's committed offset.
type Lag struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Lag       int    `json:"lag"`
}

// Rule is what becomes of the next requests of an API, as it was when the broker returned it.
type Rule struct {
	Number    int    `json:"rule"`
	API       string `json:"api"`
	TimesLeft int    `json:"times_left"`
	Held      int    `json:"held"`
}

// Error is a refusal of the control API. Code is Kafka's, where the broker refused.
type Error struct {
	Status  int
	Message string `json:"error"`
	Code    string `json:"code"`
}

func (e *Error) Error() string { return e.Message }

// Broker is a broker in memory whose control API listens at URL.
type Broker struct {
	BootstrapAddress string
	url, token       string
	http             http.Client
	t                testing.TB
	process          *exec.Cmd
}

// Start runs `coterie broker` until the test ends; the environment variable COTERIE names another program than coterie on the
// PATH. The options are further ones of the command, such as --brokers 3 or --set num.partitions=6.
func Start(t testing.TB, options ...string) *Broker {
	t.Helper()
	program := strings.Fields(os.Getenv("COTERIE"))
	if len(program) == 0 {
		program = []string{"coterie"}
	}
	arguments := append(program[1:], "broker", "--memory", "--control", "127.0.0.1:0")
	if !contains(options, "--brokers") {
		arguments = append(arguments, "--listen", "127.0.0.1:0")
	}
	process := exec.Command(program[0], append(arguments, options...)...)
	process.Stderr = os.Stderr
	output, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatalf("coterie does not start: %v; pip install 'coterie[http]', or name the program in COTERIE", err)
	}
	broker := &Broker{t: t, process: process}
	t.Cleanup(broker.stop)
	lines := bufio.NewScanner(output)
	broker.url = afterPrefix(t, lines, "control API on ")
	broker.BootstrapAddress = afterPrefix(t, lines, "listening on ")
	return broker
}

// Connect controls a broker that runs elsewhere, empty from now on.
func Connect(t testing.TB, url, token string) *Broker {
	t.Helper()
	broker := &Broker{t: t, url: url, token: token}
	broker.Must(broker.Reset())
	address, err := broker.BootstrapServers()
	broker.Must(err)
	broker.BootstrapAddress = address
	return broker
}

// Must fails the test at an error.
func (b *Broker) Must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *Broker) stop() {
	_ = b.process.Process.Signal(os.Interrupt)
	_ = b.process.Wait()
}

func (b *Broker) call(operation string, arguments map[string]any, result any) error {
	body, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPost, b.url+"/v1/"+operation, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if b.token != "" {
		request.Header.Set("Authorization", "Bearer "+b.token)
	}
	response, err := b.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		refusal := &Error{Status: response.StatusCode}
		if json.Unmarshal(answer, refusal) != nil || refusal.Message == "" {
			refusal.Message = fmt.Sprintf("%s: HTTP %d", operation, response.StatusCode)
		}
		return refusal
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer, &struct {
		Result any `json:"result"`
	}{result})
}

// IsTimeout tells whether what was waited for did not come in time.
func IsTimeout(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) && refusal.Status == http.StatusGatewayTimeout
}

// Int is a pointer to a number, for an option whose absence is not zero.
func Int(number int) *int { return &number }

func text(value []byte) any {
	if value == nil {
		return nil
	}
	return map[string][]byte{"base64": value}
}

func texts(values [][]byte) []any {
	encoded := make([]any, len(values))
	for i, value := range values {
		encoded[i] = text(value)
	}
	return encoded
}

// set adds what is not the zero value: the broker's default stands for that.
func set(arguments map[string]any, name string, value any) {
	if value != nil && !reflect.ValueOf(value).IsZero() {
		arguments[name] = value
	}
}

func afterPrefix(t testing.TB, lines *bufio.Scanner, prefix string) string {
	t.Helper()
	started := time.Now()
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), prefix) {
		t.Fatalf("coterie broker printed %q after %v, not %q", lines.Text(), time.Since(started), prefix)
	}
	return strings.TrimPrefix(lines.Text(), prefix)
}

func contains(all []string, one string) bool {
	for _, each := range all {
		if each == one {
			return true
		}
	}
	return false
}

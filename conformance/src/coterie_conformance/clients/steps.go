// The shared part of the scripts in Go: steps with a name, each of which prints one JSON line with what the client returned. The
// words of the test (topic, group, settings) arrive on the standard input.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"time"
)

const (
	readTime    = 20 * time.Second
	settledTime = 10 * time.Second
)

// Of the standard input.
type testWords struct {
	Topic, Group, Transaction string
	Partitions, Records       int
	TooManyReplicas           int16 // for either side's brokers
	ConsumerProtocol          bool  // whether that Apache Kafka has it
	Settings                  map[string]string
}

var (
	words   testWords
	address string
	// The brokers' addresses differ, and an error may name them.
	anAddress = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	// Of an error that is the client's own, what names it; each client has its own way.
	nameOfError = func(err error) string { return anAddress.ReplaceAllString(err.Error(), "ADDRESS") }
	errNotAll   = errors.New("not all that was expected arrived in time")
)

func readWords() {
	address = os.Args[1]
	check(json.NewDecoder(os.Stdin).Decode(&words))
}

// The script itself cannot go on.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// Runs it, prints what it returned, and returns that.
func step[T any](name string, work func() (T, error)) T {
	result, err := work()
	line := map[string]any{"step": name, "returned": plain(reflect.ValueOf(result))}
	if err != nil {
		line = map[string]any{"step": name, "raised": nameOfError(err)}
	}
	fmt.Println(string(must(json.Marshal(line))))
	return result
}

// A step without a result.
func do(name string, work func() error) {
	step(name, func() (any, error) { return nil, work() })
}

// A step that returns the errors of what it does one by one.
func each(name string, works ...func() error) {
	step(name, func() ([]error, error) {
		results := []error{}
		for _, work := range works {
			results = append(results, work())
		}
		return results, nil
	})
}

// The result once it holds the text, or after some seconds: a change reaches the brokers of Apache Kafka a moment after its answer.
func until[T any](work func() (T, error), text string) func() (T, error) {
	return func() (T, error) {
		end := time.Now().Add(settledTime)
		for {
			result, err := work()
			if err == nil && strings.Contains(string(must(json.Marshal(plain(reflect.ValueOf(result))))), text) || time.Now().After(end) {
				return result, err
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// Whether it became true in time.
func awaited(condition func() bool) error {
	for end := time.Now().Add(readTime); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if condition() {
			return nil
		}
	}
	return errNotAll
}

// As JSON: structures by their public fields, errors by name, bytes as text, maps with words as keys.
func plain(value reflect.Value) any {
	if !value.IsValid() {
		return nil
	}
	if value.CanInterface() {
		switch known := value.Interface().(type) {
		case error:
			if value.Kind() == reflect.Pointer && value.IsNil() {
				return nil
			}
			return nameOfError(known)
		case []byte:
			if known == nil {
				return nil
			}
			return string(known)
		case time.Time:
			return known.UnixMilli()
		}
	}
	switch value.Kind() {
	case reflect.Interface, reflect.Pointer:
		return plain(value.Elem())
	case reflect.Struct:
		return fieldsOf(value)
	case reflect.Map:
		entries := map[string]any{}
		for _, key := range value.MapKeys() {
			entries[fmt.Sprint(key.Interface())] = plain(value.MapIndex(key))
		}
		return entries
	case reflect.Array:
		return map[bool]string{true: "none", false: "an id"}[value.IsZero()] // of a topic or a member, in bytes
	case reflect.Slice:
		items := make([]any, value.Len())
		for i := range items {
			items[i] = plain(value.Index(i))
		}
		return items
	case reflect.Func, reflect.Chan:
		return nil
	}
	return value.Interface()
}

func fieldsOf(value reflect.Value) any {
	fields := map[string]any{}
	for i := range value.NumField() {
		if field := value.Type().Field(i); field.IsExported() {
			fields[field.Name] = plain(value.Field(i))
		}
	}
	return fields
}

// In the order of their JSON: what arrives from several partitions has no other.
func sorted[T any](items []T) []T {
	text := func(i int) string { return string(must(json.Marshal(plain(reflect.ValueOf(items[i]))))) }
	sort.SliceStable(items, func(i, j int) bool { return text(i) < text(j) })
	return items
}

func pointer[T any](value T) *T { return &value }

// What the programs in Go share: their surroundings, and lines in and out.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

var (
	bootstrap = strings.Split(os.Getenv("COTERIE_BOOTSTRAP_SERVERS"), ",")
	topic     = os.Getenv("COTERIE_TOPIC")
	group     = os.Getenv("COTERIE_GROUP")
)

func processed(value []byte) { fmt.Println(strings.TrimSpace(string(value))) }

func report(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func eachLine(work func(value string)) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		work(lines.Text())
	}
}

func isConsumer() bool { return os.Args[1] == "consumer" }

// The same work in Go for a scene of the laboratory: `lab SCENE KEY=VALUE ...`.
//
// A server prints its address and serves until it is killed. Its client is that of the scene.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("usage: lab SCENE KEY=VALUE ...")
	}
	parameters := map[string]int{}
	for _, word := range words[1:] {
		key, text, _ := strings.Cut(word, "=")
		value, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s: %w", word, err)
		}
		parameters[key] = value
	}
	switch words[0] {
	case "eager":
		return eager(parameters["busy"], parameters["cpu_us"], parameters["backend"])
	}
	return fmt.Errorf("unknown scene %s", words[0])
}

// The same work on Go: `peers WORK [--scale F]` prints one JSON line, as every peer does.
// `peers serve_http` and `peers serve_readiness CONNECTIONS TASKS GIVE_WAY` are servers, which the program
// of the peers in Rust starts and asks.
//
// Goroutines and channels stand in the place of actors. Each work checks its own result; a wrong one
// ends with a message and a non-zero exit.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
)

// As many as the other peers have.
const workersCount = 2

// The fields of a measurement, or the reason why there is none.
type result map[string]any

func main() {
	runtime.GOMAXPROCS(workersCount)
	if isServer, err := serve(os.Args[1:]); isServer {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	work, scale, err := arguments(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	measured, err := run(work, scale)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", work, err)
		os.Exit(1)
	}
	measured["peer"] = "go"
	measured["work"] = work
	line, err := json.Marshal(measured)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", work, err)
		os.Exit(1)
	}
	fmt.Println(string(line))
}

// Whether these words ask for a server, and what became of it.
func serve(words []string) (bool, error) {
	switch {
	case len(words) == 1 && words[0] == "serve_http":
		return true, serveHTTP()
	case len(words) == 4 && words[0] == "serve_readiness":
		connections, err := strconv.Atoi(words[1])
		if err != nil {
			return true, err
		}
		tasks, err := strconv.Atoi(words[2])
		if err != nil {
			return true, err
		}
		givesWay, err := strconv.ParseBool(words[3])
		if err != nil {
			return true, err
		}
		return true, serveReadiness(connections, tasks, givesWay)
	}
	return false, nil
}

func run(work string, scale float64) (result, error) {
	switch work {
	case "balance_400":
		return balance(units(50, scale))
	case "balance_spread":
		return result{"skipped": "a goroutine is born on the queue of its parent"}, nil
	case "blocking":
		return blocking(units(100_000, scale))
	case "blocking_reply_300":
		return replies(units(300, scale)), nil
	case "blocking_reply_1k":
		return replies(units(1_000, scale)), nil
	case "blocking_reply_10k":
		return replies(units(10_000, scale)), nil
	case "goodput_1":
		return goodput(1, units(2_000, scale))
	case "goodput_2":
		return goodput(2, units(2_000, scale))
	case "goodput_5":
		return goodput(5, units(2_000, scale))
	case "goodput_10":
		return goodput(10, units(2_000, scale))
	case "blocking_declared":
		return result{"skipped": "every system call is declared: the plain call is this one"}, nil
	}
	return nil, fmt.Errorf("unknown work")
}

func arguments(words []string) (string, float64, error) {
	switch {
	case len(words) == 1:
		return words[0], 1, nil
	case len(words) == 3 && words[1] == "--scale":
		scale, err := strconv.ParseFloat(words[2], 64)
		if err != nil || scale <= 0 {
			return "", 0, fmt.Errorf("the scale is a number above 0")
		}
		return words[0], scale, nil
	}
	return "", 0, fmt.Errorf("usage: peers WORK [--scale F]")
}

// The scaled number of units: at least two, and even, as every peer takes it.
func units(full int, scale float64) int {
	scaled := int(float64(full)*scale+0.5) / 2 * 2
	if scaled < 2 {
		return 2
	}
	return scaled
}

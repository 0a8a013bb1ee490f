package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	messageBytes = 8
	// The same as in peers/rust/src/readiness.rs.
	sliceSteps     = 600_000
	clockMonotonic = 1
)

// Handlers of connections beside goroutines that compute without end. Those give way
// after each slice, or never, as is usual in Go: its preemption takes their processor after 10 ms. A
// message is the time just before it was written. Prints when the computing has begun, and the latencies
// once all connections have ended.
func serveReadiness(connectionsCount, tasksCount int, givesWay bool) error {
	listener, err := listen()
	if err != nil {
		return err
	}
	latencies := make([][]int64, connectionsCount)
	failures := make([]error, connectionsCount)
	var handlers sync.WaitGroup
	for i := range latencies {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		handlers.Add(1)
		go func(i int) {
			defer handlers.Done()
			latencies[i], failures[i] = handle(connection)
		}(i)
	}
	var slicesCount atomic.Int64
	begun := time.Now()
	for i := 0; i < tasksCount; i++ {
		go func() {
			for number := uint64(1); ; slicesCount.Add(1) {
				number = slice(number)
				if givesWay {
					runtime.Gosched()
				}
			}
		}()
	}
	fmt.Println("computing")
	handlers.Wait()
	rate := float64(slicesCount.Load()) / time.Since(begun).Seconds()
	all := []int64{}
	for i, some := range latencies {
		if failures[i] != nil {
			return failures[i]
		}
		all = append(all, some...)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"latencies_ns": all,
		"slices_per_s": rate,
	})
}

// One slice of computing: steps of a generator, each of which needs the one before.
//
//go:noinline
func slice(number uint64) uint64 {
	for i := 0; i < sliceSteps; i++ {
		number ^= number << 13
		number ^= number >> 7
		number ^= number << 17
	}
	return number
}

// Reads to the end of the connection; how old each message was.
func handle(connection net.Conn) ([]int64, error) {
	defer connection.Close()
	var latencies []int64
	message := make([]byte, messageBytes)
	for {
		_, err := io.ReadFull(connection, message)
		if err == io.EOF {
			return latencies, nil
		}
		if err != nil {
			return nil, err
		}
		now, err := monotonicNs()
		if err != nil {
			return nil, err
		}
		latencies = append(latencies, now-int64(binary.LittleEndian.Uint64(message)))
	}
}

// The clock that all processes of a machine share; time.Now shows its monotonic part to nobody.
func monotonicNs() (int64, error) {
	var now syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		return 0, errno
	}
	return now.Nano(), nil
}

package main

import (
	"context"
	"math"
	"math/rand"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	goodputCPU      = 200 * time.Microsecond
	goodputDeadline = 50 * time.Millisecond
	capacityFactor  = 3
	capacityTime    = 500 * time.Millisecond
	capacityBound   = 64
	// Nobody gives up while the capacity is measured.
	goodputPatience = time.Minute
	// CLOCK_THREAD_CPUTIME_ID
	threadClock = 3
)

type answer int

const (
	replied answer = iota
	refused
	givenUp
)

// Times count from the first.
type asked struct {
	due, ended time.Duration
	answer     answer
}

type request struct {
	ctx   context.Context
	reply chan struct{}
}

// A goroutine behind a buffered channel. A request that finds it full is refused; one whose context has
// ended is not handled. The goroutine has a thread for itself, since the work is a thread's processor time.
//
// The capacity is measured first, as with every peer: the answers a second when three times as much is asked
// for as the processor time of a request allows. The channel holds what can be answered within half a
// deadline.
func goodput(factor int, milliseconds int) (result, error) {
	flooded := ask(capacityFactor/goodputCPU.Seconds(), capacityTime, capacityBound, goodputPatience)
	var last time.Duration
	answers := 0
	for _, it := range flooded {
		if it.ended > last {
			last = it.ended
		}
		if it.answer == replied {
			answers++
		}
	}
	capacity := math.Max(1, float64(answers)/last.Seconds())
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return nil, err
	}
	total := time.Duration(milliseconds) * time.Millisecond
	bound := int(math.Max(1, capacity*goodputDeadline.Seconds()/2))
	all := ask(float64(factor)*capacity, total, bound, goodputDeadline)
	peak, err := peakBytes()
	if err != nil {
		return nil, err
	}
	first, end := total/5, total*4/5
	seconds := (end - first).Seconds()
	inTime, late, refusals := 0, 0, 0
	var latencies []time.Duration
	for _, it := range all {
		if it.due < first || it.due >= end {
			continue
		}
		latency := it.ended - it.due
		switch {
		case it.answer == refused:
			refusals++
			continue
		case it.answer == replied && latency <= goodputDeadline:
			inTime++
		default:
			late++
		}
		latencies = append(latencies, latency)
	}
	sort.Slice(latencies, func(i, j int) bool { return latencies[i] < latencies[j] })
	percentile := func(share float64) float64 {
		if len(latencies) == 0 {
			return 0
		}
		rank := math.Max(1, math.Ceil(float64(len(latencies))*share))
		return latencies[int(rank)-1].Seconds() * 1e3
	}
	offered := inTime + late + refusals
	rate := func(count int) float64 { return float64(count) / seconds }
	return result{
		"count":                 offered,
		"seconds":               seconds,
		"unit":                  "request",
		"capacity_per_s":        capacity,
		"offered_per_s":         rate(offered),
		"goodput_per_s":         rate(inTime),
		"goodput_over_capacity": rate(inTime) / capacity,
		"late_per_s":            rate(late),
		"refused_per_s":         rate(refusals),
		"p50_ms":                percentile(0.5),
		"p99_ms":                percentile(0.99),
		"rss_peak_mb":           peak / 1e6,
	}, nil
}

// Asks a service of its own at this rate for this time: a Poisson process.
func ask(rate float64, total time.Duration, bound int, deadline time.Duration) []asked {
	random := rand.New(rand.NewSource(1))
	var all []asked
	for at := random.ExpFloat64() / rate; at < total.Seconds(); at += random.ExpFloat64() / rate {
		all = append(all, asked{due: time.Duration(at * 1e9)})
	}
	requests := make(chan request, bound)
	var isOver atomic.Bool
	var server, clients sync.WaitGroup
	server.Add(1)
	go func() {
		defer server.Done()
		runtime.LockOSThread()
		for it := range requests {
			if it.ctx.Err() != nil || isOver.Load() {
				continue
			}
			compute()
			it.reply <- struct{}{}
		}
	}()
	clients.Add(len(all))
	begun := time.Now()
	for number := range all {
		it := &all[number]
		time.Sleep(it.due - time.Since(begun))
		go func() {
			defer clients.Done()
			it.answer = askOne(requests, begun.Add(it.due+deadline))
			it.ended = time.Since(begun)
		}()
	}
	clients.Wait()
	isOver.Store(true)
	close(requests)
	server.Wait()
	return all
}

func askOne(requests chan<- request, deadline time.Time) answer {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	it := request{ctx, make(chan struct{}, 1)}
	select {
	case requests <- it:
	default:
		return refused
	}
	select {
	case <-it.reply:
		return replied
	case <-ctx.Done():
		return givenUp
	}
}

// Computes until this thread has used so much processor time.
func compute() {
	begun := threadTime()
	for threadTime()-begun < goodputCPU {
	}
}

func threadTime() time.Duration {
	var it syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&it)), 0)
	if errno != 0 {
		panic(errno)
	}
	return time.Duration(it.Nano())
}

// The most memory since the peak was cleared.
func peakBytes() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kibibytes, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
	return kibibytes * 1024, err
}

package main

import (
	"bytes"
	"crypto/md5"
	"errors"
	"sort"
	"sync"
	"syscall"
	"time"
)

const (
	processesCount = 400
	hashedBytes    = 1 << 20
	spinIterations = 5
)

// 400 equal goroutines of long native calls, all born on one processor and released together.
//
// MD5 is assembly, which Go's preemption cannot interrupt; the loop around it can be.
func balance(repeats int) (result, error) {
	text := bytes.Repeat([]byte{0x5a}, hashedBytes)
	digest := md5.Sum(text)
	gate := make(chan struct{})
	ended := make(chan time.Time, processesCount)
	wrong := make(chan struct{}, processesCount)
	var ready sync.WaitGroup
	ready.Add(processesCount)
	for i := 0; i < processesCount; i++ {
		go func() {
			ready.Done()
			<-gate
			for j := 0; j < repeats; j++ {
				if md5.Sum(text) != digest {
					wrong <- struct{}{}
				}
				spin()
			}
			ended <- time.Now()
		}()
	}
	ready.Wait()
	cpuBefore, err := cpuSeconds()
	if err != nil {
		return nil, err
	}
	released := time.Now()
	close(gate)
	elapsed := make([]float64, 0, processesCount)
	for i := 0; i < processesCount; i++ {
		elapsed = append(elapsed, (<-ended).Sub(released).Seconds())
	}
	cpuAfter, err := cpuSeconds()
	if err != nil {
		return nil, err
	}
	if len(wrong) > 0 {
		return nil, errors.New("a digest is wrong")
	}
	sort.Float64s(elapsed)
	shortest, longest := elapsed[0], elapsed[processesCount-1]
	cpu := cpuAfter - cpuBefore
	return result{
		"count":               processesCount * repeats,
		"seconds":             longest,
		"unit":                "hash",
		"max_over_min":        longest / shortest,
		"elapsed_min_s":       shortest,
		"elapsed_median_s":    elapsed[processesCount/2],
		"elapsed_max_s":       longest,
		"makespan_over_ideal": longest / (cpu / workersCount),
		"utilisation":         cpu / (longest * workersCount),
		"cpu_s":               cpu,
		"workers":             workersCount,
	}, nil
}

//go:noinline
func spin() {
	for i := 0; i < spinIterations; i++ {
	}
}

// The processor time of this process, all its threads together.
func cpuSeconds() (float64, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return seconds(usage.Utime) + seconds(usage.Stime), nil
}

func seconds(value syscall.Timeval) float64 {
	return time.Duration(value.Nano()).Seconds()
}

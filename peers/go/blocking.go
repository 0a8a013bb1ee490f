package main

import (
	"errors"
	"sort"
	"sync"
	"syscall"
	"time"
)

const (
	// The first of them is the one that blocks.
	actorsCount     = 100
	letterPeriod    = 100 * time.Microsecond
	lettersPerBlock = 2_000
	// What the one that blocks sends just before, each to another.
	lettersBeforeBlock = 8
	blockTime          = 100 * time.Millisecond
	// Never filled: a goroutine gets a hundred letters a second.
	mailboxCapacity = 1_024
)

// The number is that of its latency; to the one that blocks, of the first letter that it sends.
type letter struct {
	scheduled time.Time
	number    int
}

type office struct {
	mailboxes []chan letter
	// Those of the generator's letters first.
	latencies []time.Duration
}

// One goroutine of a hundred blocks its thread in a system call; the figures are the latencies of the
// others, and apart from them those of the letters that it sends just before.
//
// time.Sleep would only set a goroutine aside, so the call is nanosleep itself. The generator is a
// goroutine that uses time.Sleep: a thread without a processor of the runtime could not send. An idle
// runtime wakes to the millisecond, so that much of the latency is the generator's.
func blocking(lettersCount int) (result, error) {
	blockedCount := (lettersCount + lettersPerBlock - 1) / lettersPerBlock
	o := office{
		mailboxes: make([]chan letter, actorsCount),
		latencies: make([]time.Duration, lettersCount+blockedCount*lettersBeforeBlock),
	}
	for actor := range o.mailboxes {
		o.mailboxes[actor] = make(chan letter, mailboxCapacity)
	}
	var others sync.WaitGroup
	others.Add(actorsCount - 1)
	for _, mailbox := range o.mailboxes[1:] {
		go func(mailbox chan letter) {
			defer others.Done()
			for l := range mailbox {
				o.latencies[l.number] = time.Since(l.scheduled)
			}
		}(mailbox)
	}
	blocker := make(chan error, 1)
	go func() { blocker <- o.blockOnEach() }()
	started := time.Now()
	o.generate(started, lettersCount)
	if err := <-blocker; err != nil {
		return nil, err
	}
	for _, mailbox := range o.mailboxes[1:] {
		close(mailbox)
	}
	others.Wait()
	elapsed := time.Since(started)
	noted, woken := o.latencies[:lettersCount], o.latencies[lettersCount:]
	for _, latencies := range [][]time.Duration{noted, woken} {
		sort.Slice(latencies, func(i, j int) bool { return latencies[i] < latencies[j] })
		if latencies[0] <= 0 {
			return nil, errors.New("a letter was not handled")
		}
	}
	return result{
		"count":         lettersCount,
		"seconds":       elapsed.Seconds(),
		"unit":          "msg",
		"p50_us":        quantile(noted, 500),
		"p99_us":        quantile(noted, 990),
		"p999_us":       quantile(noted, 999),
		"max_us":        quantile(noted, 1_000),
		"woken_p50_us":  quantile(woken, 500),
		"woken_p99_us":  quantile(woken, 990),
		"woken_max_us":  quantile(woken, 1_000),
		"blocked_count": blockedCount,
	}, nil
}

// Sends each letter at its time, whatever has become of the earlier ones.
func (o *office) generate(started time.Time, lettersCount int) {
	for number := 0; number < lettersCount; number++ {
		scheduled := started.Add(time.Duration(number+1) * letterPeriod)
		time.Sleep(time.Until(scheduled))
		if number%lettersPerBlock == 0 {
			first := lettersCount + number/lettersPerBlock*lettersBeforeBlock
			o.mailboxes[0] <- letter{scheduled, first}
		}
		o.mailboxes[1+number%(actorsCount-1)] <- letter{scheduled, number}
	}
	close(o.mailboxes[0])
}

func (o *office) blockOnEach() error {
	for l := range o.mailboxes[0] {
		for i := 0; i < lettersBeforeBlock; i++ {
			o.mailboxes[1+i] <- letter{time.Now(), l.number + i}
		}
		if err := block(); err != nil {
			return err
		}
	}
	return nil
}

// Keeps the thread asleep. Go's own signals interrupt the call, so what is left is slept too.
func block() error {
	left := syscall.NsecToTimespec(blockTime.Nanoseconds())
	for {
		err := syscall.Nanosleep(&left, &left)
		if err != syscall.EINTR {
			return err
		}
	}
}

// The smallest latency that at least this many in a thousand do not exceed, in microseconds.
func quantile(sorted []time.Duration, perMille int) float64 {
	rank := (len(sorted)*perMille + 999) / 1_000
	return float64(sorted[rank-1].Nanoseconds()) / 1e3
}

type question struct {
	value   int
	replyTo chan int
}

// So many goroutines ask one server, and wait.
func replies(callersCount int) result {
	questions := make(chan question, mailboxCapacity)
	go func() {
		for q := range questions {
			q.replyTo <- q.value + 1
		}
	}()
	var callers sync.WaitGroup
	callers.Add(callersCount)
	started := time.Now()
	for value := 0; value < callersCount; value++ {
		go func(value int) {
			defer callers.Done()
			replyTo := make(chan int, 1)
			questions <- question{value, replyTo}
			<-replyTo
		}(value)
	}
	callers.Wait()
	elapsed := time.Since(started)
	close(questions)
	return result{"count": callersCount, "seconds": elapsed.Seconds(), "unit": "ask"}
}

// SPDX-License-Identifier: MIT

// The peers in Go: `go-peers KIND SIZE INFLIGHT SECONDS [REQUESTS]`. It starts a server process,
// makes the calls, and prints one row as JSON. Payloads are compared in length on every call and in
// content on every hundredth, except for kinds that touch no payload.
//
//	golib          golib/uds, proto RPC, one connection
//	grpc-uds       grpc-go over a Unix socket, the handler echoes
//	grpc-tcp       the same over loopback TCP
//	health-uds     grpc-go's health service; SIZE is ignored
//	health-tcp     the same over loopback TCP
//	shmipc         shmipc-go, copied in and out at both ends, a stream per caller, tuned to SIZE
//	shmipc-notouch shmipc-go as in its own ping-pong: space is reserved and discarded untouched
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sampleEvery = 100
	samplesMax  = 2_000_000
)

// peer is one kind: its server and its client.
type peer struct {
	// serve listens at address and never returns.
	serve func(address string, size int) error
	// dial returns a function that makes callers; each makes one call at a time.
	dial    func(address string, size int) (func() (caller, error), error)
	isTCP   bool
	touches bool
}

// caller makes one call and returns the answer, which is valid until the next call.
type caller func(payload []byte) ([]byte, error)

var peers = map[string]peer{
	"golib":          {serveGolib, dialGolib, false, true},
	"grpc-uds":       {serveGRPC, dialGRPC, false, true},
	"grpc-tcp":       {serveGRPC, dialGRPC, true, true},
	"health-uds":     {serveHealth, dialHealth, false, false},
	"health-tcp":     {serveHealth, dialHealth, true, false},
	"shmipc":         {serveShmipc, dialShmipc(true), false, true},
	"shmipc-notouch": {serveShmipcNoTouch, dialShmipc(false), false, false},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "go-peers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 4 && args[0] == "serve" {
		return serve(args[1], args[2], args[3])
	}
	if len(args) != 4 && len(args) != 5 {
		return errors.New("usage: go-peers KIND SIZE INFLIGHT SECONDS [REQUESTS]")
	}
	kind, isKnown := peers[args[0]]
	if !isKnown {
		return fmt.Errorf("no kind %q", args[0])
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	inFlight, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(args[3], 64)
	if err != nil {
		return err
	}
	requests := 0
	if len(args) == 5 {
		if requests, err = strconv.Atoi(args[4]); err != nil {
			return err
		}
	}
	return measure(args[0], kind, size, inFlight, seconds, requests)
}

// serve is the server process. It answers each input line with its allocations so far.
func serve(name, address, size string) error {
	bytes, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			fmt.Println(mallocs())
		}
		os.Exit(0) // the client has ended
	}()
	return peers[name].serve(address, bytes)
}

func mallocs() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

// ready is called by servers as soon as they listen.
func ready(address string) { fmt.Println("ready " + address) }

type server struct {
	*exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	address string
}

func start(name, address string, size int) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self, "serve", name, address, strconv.Itoa(size))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	s := &server{Cmd: command, in: in, out: bufio.NewScanner(out)}
	for s.out.Scan() { // libraries print to the output, too
		if said, isReady := strings.CutPrefix(s.out.Text(), "ready "); isReady {
			s.address = said
			return s, nil
		}
	}
	return nil, errors.New("the server ended at once")
}

func (s *server) mallocs() uint64 {
	fmt.Fprintln(s.in, "?")
	for s.out.Scan() {
		if count, err := strconv.ParseUint(s.out.Text(), 10, 64); err == nil {
			return count
		}
	}
	return 0
}

// row has the names that all peers print.
type row struct {
	Codec            string  `json:"codec"`
	Size             int     `json:"size"`
	InFlight         int     `json:"inFlight"`
	CallsPerSecond   float64 `json:"callsPerSecond"`
	BytesPerSecond   float64 `json:"bytesPerSecond"`
	P50Us            float64 `json:"p50Us"`
	P90Us            float64 `json:"p90Us"`
	P99Us            float64 `json:"p99Us"`
	P999Us           float64 `json:"p999Us"`
	MaxUs            float64 `json:"maxUs"`
	CPUClientSeconds float64 `json:"cpuClientSeconds"`
	CPUServerSeconds float64 `json:"cpuServerSeconds"`
	CPUUserSeconds   float64 `json:"cpuUserSeconds"`
	CPUSystemSeconds float64 `json:"cpuSystemSeconds"`
	RSSClientBytes   int     `json:"rssClientBytes"`
	RSSServerBytes   int     `json:"rssServerBytes"`
	Calls            int     `json:"calls"`
	Errors           int     `json:"errors"`
	Touched          bool    `json:"touched"`
	MessageLimit     *int    `json:"messageLimitBytes"`
	MallocsPerCall   float64 `json:"mallocsPerCall"`
	Go               string  `json:"go"`
}

func measure(name string, kind peer, size, inFlight int, seconds float64, requests int) error {
	scratch, err := os.MkdirTemp("", "bench-go-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	address := filepath.Join(scratch, "socket")
	if kind.isTCP {
		address = "127.0.0.1:0"
	}
	serving, err := start(name, address, size)
	if err != nil {
		return err
	}
	defer func() {
		serving.in.Close()
		_ = serving.Process.Kill()
		_ = serving.Wait()
	}()
	makeCaller, err := kind.dial(serving.address, size)
	if err != nil {
		return err
	}
	callers := make([]caller, inFlight)
	for at := range callers {
		if callers[at], err = makeCaller(); err != nil {
			return err
		}
	}
	payload := make([]byte, size)
	for at := range payload {
		payload[at] = byte(at * 31 % 251)
	}
	warm := requests / 10
	if _, err := load(callers, payload, kind.touches, min(seconds/2, 1), warm); err != nil {
		return err
	}
	pids := []int{os.Getpid(), serving.Process.Pid}
	before := []cpu{cpuOf(pids[0]), cpuOf(pids[1])}
	mallocsBefore := mallocs() + serving.mallocs()
	done, err := load(callers, payload, kind.touches, seconds, requests)
	if err != nil {
		return err
	}
	allocated := mallocs() + serving.mallocs() - mallocsBefore
	client, server := cpuOf(pids[0]).since(before[0]), cpuOf(pids[1]).since(before[1])
	result := row{
		Codec: "bytes", Size: size, InFlight: inFlight,
		CallsPerSecond:   float64(done.calls) / done.seconds,
		BytesPerSecond:   2 * float64(size) * float64(done.calls) / done.seconds,
		CPUClientSeconds: client.user + client.system,
		CPUServerSeconds: server.user + server.system,
		CPUUserSeconds:   client.user + server.user,
		CPUSystemSeconds: client.system + server.system,
		RSSClientBytes:   rssOf(pids[0]), RSSServerBytes: rssOf(pids[1]),
		Calls: done.calls, Errors: done.errors, Touched: kind.touches,
		MallocsPerCall: float64(allocated) / float64(done.calls),
		Go:             runtime.Version(),
	}
	slices.Sort(done.latencies)
	at := func(share float64) float64 {
		last := len(done.latencies) - 1
		return done.latencies[min(last, int(share*float64(last+1)))]
	}
	result.P50Us, result.P90Us, result.P99Us = at(0.5), at(0.9), at(0.99)
	result.P999Us, result.MaxUs = at(0.999), at(1)
	return json.NewEncoder(os.Stdout).Encode(result)
}

type outcome struct {
	calls, errors int
	seconds       float64
	latencies     []float64
}

// load runs all callers until the time is over, or until `requests` calls, where it is positive.
func load(callers []caller, payload []byte, touches bool, seconds float64, requests int) (outcome, error) {
	begun := time.Now()
	until := begun.Add(time.Duration(seconds * float64(time.Second)))
	var taken atomic.Int64
	var mutex sync.Mutex
	var all outcome
	var failure error
	var group sync.WaitGroup
	for _, call := range callers {
		group.Go(func() {
			var own outcome
			own.latencies = make([]float64, 0, 1024)
			for now := time.Now(); ; {
				if requests > 0 && taken.Add(1) > int64(requests) || requests == 0 && !now.Before(until) {
					break
				}
				answer, err := call(payload)
				if err != nil {
					mutex.Lock()
					failure = err
					mutex.Unlock()
					return
				}
				after := time.Now()
				if len(own.latencies) < samplesMax/len(callers) {
					own.latencies = append(own.latencies, float64(after.Sub(now).Nanoseconds())/1000)
				}
				isWrong := touches && len(answer) != len(payload)
				if touches && own.calls%sampleEvery == 0 {
					isWrong = isWrong || !slices.Equal(answer, payload)
				}
				if isWrong {
					own.errors++
				}
				own.calls++
				now = after
			}
			mutex.Lock()
			defer mutex.Unlock()
			all.calls += own.calls
			all.errors += own.errors
			all.latencies = append(all.latencies, own.latencies...)
		})
	}
	group.Wait()
	all.seconds = time.Since(begun).Seconds()
	return all, failure
}

// cpu is time in the program and in the kernel, in seconds.
type cpu struct{ user, system float64 }

func (now cpu) since(before cpu) cpu {
	return cpu{now.user - before.user, now.system - before.system}
}

// cpuOf is the CPU time of a process, from /proc.
func cpuOf(pid int) cpu {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return cpu{}
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return cpu{float64(user) / 100, float64(system) / 100}
}

func rssOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(text))[1])
	return pages * os.Getpagesize()
}

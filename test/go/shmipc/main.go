// SPDX-License-Identifier: MIT

// A program that knows shmipc-go alone, in both roles, for tests: it echoes or calls at a path, and
// prints what it sees as lines of JSON.
//
//	shmipc serve PATH sync|callback
//	shmipc call PATH file|memfd SESSIONS STREAMS ROUNDS BYTES QUEUE
//	shmipc hold PATH file|memfd
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/cloudwego/shmipc-go"
)

func say(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func fail(err error) {
	say(map[string]any{"failed": err.Error()})
	os.Exit(1)
}

func main() {
	shmipc.SetLogLevel(5) // its log goes to the standard output, as our lines do
	if len(os.Args) < 4 {
		fail(errors.New("usage: shmipc serve|call|hold PATH KIND …"))
	}
	role, path, kind := os.Args[1], os.Args[2], os.Args[3]
	numbers := []int{}
	for _, text := range os.Args[4:] {
		number, err := strconv.Atoi(text)
		if err != nil {
			fail(err)
		}
		numbers = append(numbers, number)
	}
	var err error
	switch role {
	case "serve":
		err = serve(path, kind)
	case "call":
		err = call(path, kind, numbers)
	case "hold":
		err = hold(path, kind)
	default:
		err = fmt.Errorf("no such role: %s", role)
	}
	if err != nil {
		fail(err)
	}
}

// send writes a message; where the queue of the peer is full, shmipc-go has dropped it.
func send(stream *shmipc.Stream, message []byte) error {
	for {
		if _, err := stream.BufferWriter().WriteBytes(message); err != nil {
			return err
		}
		err := stream.Flush(false)
		if !errors.Is(err, shmipc.ErrQueueFull) {
			return err
		}
	}
}

// echo sends back what a stream receives until the peer closes it.
func echo(stream *shmipc.Stream) {
	defer stream.Close()
	reader := stream.BufferReader()
	for {
		if _, err := reader.Peek(1); err != nil {
			return
		}
		data, err := reader.ReadBytes(reader.Len())
		if err != nil {
			return
		}
		data = append([]byte{}, data...)
		reader.ReleasePreviousRead()
		if err := send(stream, data); err != nil {
			say(map[string]any{"echo": err.Error()})
			return
		}
	}
}

func serve(path, kind string) error {
	if kind == "callback" {
		config := shmipc.NewDefaultListenerConfig(path, "unix")
		listener, err := shmipc.NewListener(newStreams{}, config)
		if err != nil {
			return err
		}
		if err := os.Chmod(path, 0o700); err != nil {
			return err
		}
		say(map[string]any{"ready": true})
		return listener.Run()
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return err
	}
	say(map[string]any{"ready": true})
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			session, err := shmipc.Server(conn, shmipc.DefaultConfig())
			if err != nil {
				say(map[string]any{"refused": err.Error()})
				return
			}
			say(map[string]any{"session": true})
			for {
				stream, err := session.AcceptStream()
				if err != nil {
					say(map[string]any{"ended": err.Error()})
					return
				}
				go echo(stream)
			}
		}()
	}
}

type newStreams struct{}

func (newStreams) OnNewStream(stream *shmipc.Stream) {
	if err := stream.SetCallbacks(&echoing{stream}); err != nil {
		say(map[string]any{"callbacks": err.Error()})
	}
}

func (newStreams) OnShutdown(string) {}

type echoing struct{ stream *shmipc.Stream }

func (e *echoing) OnData(reader shmipc.BufferReader) {
	data, err := reader.ReadBytes(reader.Len())
	if err == nil {
		data = append([]byte{}, data...)
		reader.ReleasePreviousRead()
		err = send(e.stream, data)
	}
	if err != nil {
		say(map[string]any{"echo": err.Error()})
	}
}

func (e *echoing) OnLocalClose()  {}
func (e *echoing) OnRemoteClose() { e.stream.Close() }

func manager(path, kind string, sessions, queue int) (*shmipc.SessionManager, error) {
	config := shmipc.DefaultSessionManagerConfig()
	config.Network = "unix"
	config.Address = path
	config.SessionNum = sessions
	config.QueueCap = uint32(queue)
	config.ShareMemoryPathPrefix = fmt.Sprintf("/dev/shm/sidecall_test_%d", os.Getpid())
	if kind == "memfd" {
		config.MemMapType = shmipc.MemMapTypeMemFd
	}
	return shmipc.NewSessionManager(config)
}

func call(path, kind string, numbers []int) error {
	if len(numbers) != 5 {
		return errors.New("usage: shmipc call PATH KIND SESSIONS STREAMS ROUNDS BYTES QUEUE")
	}
	sessions, streams, rounds, size, queue := numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
	manager, err := manager(path, kind, sessions, queue)
	if err != nil {
		return err
	}
	failures := make(chan error, streams)
	var wait sync.WaitGroup
	for i := range streams {
		wait.Add(1)
		go func() {
			defer wait.Done()
			if err := repeat(manager, i, rounds, size); err != nil {
				failures <- err
			}
		}()
	}
	wait.Wait()
	close(failures)
	for err := range failures {
		return err
	}
	say(map[string]any{"streams": streams, "rounds": rounds, "bytes": size})
	return manager.Close()
}

// repeat sends messages on one stream, and compares what comes back.
func repeat(manager *shmipc.SessionManager, number, rounds, size int) error {
	stream, err := manager.GetStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := stream.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	message := make([]byte, size)
	for round := range rounds {
		for i := range message {
			message[i] = byte(i*7 + number*31 + round)
		}
		if err := send(stream, message); err != nil {
			return err
		}
		answer, err := stream.BufferReader().ReadBytes(size)
		if err != nil {
			return err
		}
		if !bytes.Equal(answer, message) {
			return fmt.Errorf("stream %d, round %d: other bytes came back", number, round)
		}
		stream.ReleaseReadAndReuse()
	}
	return nil
}

// hold opens a stream, sends a message, and waits to be killed.
func hold(path, kind string) error {
	manager, err := manager(path, kind, 1, 8192)
	if err != nil {
		return err
	}
	stream, err := manager.GetStream()
	if err != nil {
		return err
	}
	if err := send(stream, []byte("hello")); err != nil {
		return err
	}
	say(map[string]any{"ready": true})
	time.Sleep(time.Minute)
	return nil
}

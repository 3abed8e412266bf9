// SPDX-License-Identifier: MIT

// A program that knows golib alone, in both roles, for tests: it serves or calls at a path, and
// prints what it sees as lines of JSON.
//
//	golib serve KIND PATH UID GID MODE
//	golib call KIND PATH UID GID MODE…
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/johnsiilver/golib/ipc/uds"
	"github.com/johnsiilver/golib/ipc/uds/highlevel/chunk"
	chunkrpc "github.com/johnsiilver/golib/ipc/uds/highlevel/chunk/rpc"
	jsonrpc "github.com/johnsiilver/golib/ipc/uds/highlevel/json/rpc"
	jsonstream "github.com/johnsiilver/golib/ipc/uds/highlevel/json/stream"
	protorpc "github.com/johnsiilver/golib/ipc/uds/highlevel/proto/rpc"
	pb "github.com/johnsiilver/golib/ipc/uds/highlevel/proto/rpc/benchmark/proto"
	protostream "github.com/johnsiilver/golib/ipc/uds/highlevel/proto/stream"
	"google.golang.org/protobuf/proto"
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

type place struct {
	path     string
	uid, gid int
	modes    []os.FileMode
}

func main() {
	if len(os.Args) < 6 {
		fail(errors.New("usage: golib serve|call KIND PATH UID GID MODE…"))
	}
	role, kind := os.Args[1], os.Args[2]
	at := place{path: os.Args[3]}
	at.uid, _ = strconv.Atoi(os.Args[4])
	at.gid, _ = strconv.Atoi(os.Args[5])
	for _, text := range os.Args[6:] {
		mode, err := strconv.ParseUint(text, 8, 32)
		if err != nil {
			fail(err)
		}
		at.modes = append(at.modes, os.FileMode(mode))
	}
	var err error
	switch role + " " + kind {
	case "serve rpc":
		err = serveRPC(at)
	case "call rpc-bytes":
		err = callBytes(at)
	case "call rpc-json":
		err = callJSON(at)
	case "call rpc-proto":
		err = callProto(at)
	case "serve refusing":
		err = refuse(at)
	case "serve chunk", "serve json", "serve proto":
		err = serveStreams(at, kind)
	case "call chunk", "call json", "call proto":
		err = callStream(at, kind)
	default:
		err = errors.New("no such role")
	}
	if err != nil {
		fail(err)
	}
}

// Prints a line once the socket has its final mode.
func readyWhenMade(at place) {
	for {
		if found, err := os.Stat(at.path); err == nil && found.Mode().Perm() == at.modes[0].Perm() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	say(map[string]any{"ready": at.path})
}

type numbers struct{ Ints []int64 }
type total struct{ Sum int64 }

func sum(_ context.Context, request []byte) ([]byte, error) {
	var in numbers
	if err := json.Unmarshal(request, &in); err != nil {
		return nil, chunkrpc.Errorf(chunkrpc.ETBadData, "%s", "no numbers")
	}
	var out total
	for _, each := range in.Ints {
		out.Sum += each
	}
	return json.Marshal(out)
}

// One server for bytes, JSON and protobuf: they have the same wire.
func serveRPC(at place) error {
	server, err := chunkrpc.NewServer(at.path, at.uid, at.gid, at.modes[0])
	if err != nil {
		return err
	}
	server.RegisterMethod("/math/sum", sum)
	server.RegisterMethod("echo", func(_ context.Context, request []byte) ([]byte, error) {
		return request, nil
	})
	server.RegisterMethod("proto", func(_ context.Context, request []byte) ([]byte, error) {
		var in pb.BenchmarkReq
		if err := proto.Unmarshal(request, &in); err != nil {
			return nil, err
		}
		return proto.Marshal(&pb.BenchmarkResp{Data: in.Data})
	})
	server.RegisterMethod("fail", func(context.Context, []byte) ([]byte, error) {
		return nil, errors.New("it failed on purpose")
	})
	server.RegisterMethod("slow", func(ctx context.Context, request []byte) ([]byte, error) {
		deadline, _ := ctx.Deadline()
		say(map[string]any{"leftMs": time.Until(deadline).Milliseconds()})
		<-ctx.Done()
		return nil, ctx.Err()
	})
	server.RegisterMethod("who", func(ctx context.Context, _ []byte) ([]byte, error) {
		cred := chunkrpc.CredFromCtx(ctx)
		return json.Marshal(map[string]int{"pid": cred.PID.Int(), "uid": cred.UID.Int()})
	})
	go readyWhenMade(at)
	return server.Start()
}

func said(err error) any {
	if err == nil {
		return nil
	}
	return map[string]any{"type": fmt.Sprintf("%T", err), "text": err.Error(), "retryable": chunkrpc.Retryable(err)}
}

func callBytes(at place) error {
	client, err := chunkrpc.New(at.path, at.uid, at.gid, at.modes)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, size := range []int{0, 1, 63, 64, 8191, 8192, 1 << 20, 16 << 20} {
		request := make([]byte, size)
		for i := range request {
			request[i] = byte(i * 7)
		}
		var response []byte
		// golib takes no empty request.
		if size == 0 {
			request = []byte{0}
		}
		err := client.Call(context.Background(), "echo", request, &response)
		say(map[string]any{"size": size, "same": string(request) == string(response), "error": said(err)})
	}
	var none []byte
	for _, method := range []string{"missing", "fails", "unavailable", "bad", "hundred"} {
		err := client.Call(context.Background(), method, []byte("x"), &none)
		say(map[string]any{"method": method, "error": said(err)})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	say(map[string]any{"method": "slow", "error": said(client.Call(ctx, "slow", []byte("x"), &none))})
	return nil
}

func callJSON(at place) error {
	client, err := jsonrpc.New(at.path, at.uid, at.gid, at.modes)
	if err != nil {
		return err
	}
	defer client.Close()
	var wait sync.WaitGroup
	wrong := make(chan string, 1000)
	for i := int64(0); i < 1000; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			var out total
			err := client.Call(context.Background(), "/math/sum", numbers{Ints: []int64{i, 1, 2}}, &out)
			if err != nil || out.Sum != i+3 {
				wrong <- fmt.Sprint(i, out.Sum, err)
			}
		}()
	}
	wait.Wait()
	close(wrong)
	faults := []string{}
	for each := range wrong {
		faults = append(faults, each)
	}
	say(map[string]any{"wrong": faults})
	var out total
	say(map[string]any{"bad": said(client.Call(context.Background(), "/math/sum", "no numbers", &out))})
	return nil
}

func callProto(at place) error {
	client, err := protorpc.New(at.path, at.uid, at.gid, at.modes)
	if err != nil {
		return err
	}
	defer client.Close()
	var out pb.BenchmarkResp
	err = client.Call(context.Background(), "proto", &pb.BenchmarkReq{Data: []byte("payload")}, &out)
	say(map[string]any{"data": string(out.Data), "error": said(err)})
	return nil
}

type text struct{ Text string }

// Closes each connection of a user that is not the owner of the socket, as golib's documentation
// shows, and answers the others' chunks.
func refuse(at place) error {
	server, err := uds.NewServer(at.path, at.uid, at.gid, at.modes[0])
	if err != nil {
		return err
	}
	go readyWhenMade(at)
	for conn := range server.Conn() {
		if conn.Cred.UID.Int() != at.uid {
			say(map[string]any{"refused": conn.Cred.UID.Int()})
			conn.Close()
			continue
		}
		go func() { _ = echo(conn, "chunk") }()
	}
	return nil
}

// Answers each message of each connection with itself.
func serveStreams(at place, kind string) error {
	server, err := uds.NewServer(at.path, at.uid, at.gid, at.modes[0])
	if err != nil {
		return err
	}
	go readyWhenMade(at)
	for conn := range server.Conn() {
		go func() {
			err := echo(conn, kind)
			text := ""
			if err != nil {
				text = err.Error()
			}
			say(map[string]any{"ended": text, "uid": conn.Cred.UID.Int()})
		}()
	}
	return nil
}

func echo(conn io.ReadWriteCloser, kind string) error {
	defer conn.Close()
	ctx := context.Background()
	switch kind {
	case "chunk":
		client, err := chunk.New(conn)
		if err != nil {
			return err
		}
		for {
			message, err := client.Read()
			if err != nil {
				return orderly(err)
			}
			if err := client.Write(*message); err != nil {
				return err
			}
			client.Recycle(message)
		}
	case "json":
		client, err := jsonstream.New(conn)
		if err != nil {
			return err
		}
		for {
			var message text
			if err := client.Read(&message); err != nil {
				return orderly(err)
			}
			if err := client.Write(message); err != nil {
				return err
			}
		}
	default:
		client, err := protostream.New(conn)
		if err != nil {
			return err
		}
		for {
			var message pb.BenchmarkReq
			if err := client.Read(ctx, &message); err != nil {
				if !errors.Is(err, io.EOF) {
					return err
				}
				// The side that ends second waits for ever without a limit.
				limited, cancel := context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
				_ = client.CloseSend(limited)
				return nil
			}
			if err := client.Write(ctx, &message); err != nil {
				return err
			}
		}
	}
}

func orderly(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

const messages = 3

func callStream(at place, kind string) error {
	conn, err := uds.NewClient(at.path, at.uid, at.gid, at.modes)
	if err != nil {
		return err
	}
	ctx := context.Background()
	seen := []string{}
	switch kind {
	case "chunk":
		client, err := chunk.New(conn)
		if err != nil {
			return err
		}
		for i := 0; i < messages; i++ {
			if err := client.Write([]byte(fmt.Sprint("message ", i))); err != nil {
				return err
			}
		}
		for i := 0; i < messages; i++ {
			message, err := client.Read()
			if err != nil {
				return err
			}
			seen = append(seen, string(*message))
		}
	case "json":
		client, err := jsonstream.New(conn)
		if err != nil {
			return err
		}
		for i := 0; i < messages; i++ {
			if err := client.Write(text{fmt.Sprint("<message> ", i)}); err != nil {
				return err
			}
		}
		for i := 0; i < messages; i++ {
			var message text
			if err := client.Read(&message); err != nil {
				return err
			}
			seen = append(seen, message.Text)
		}
	default:
		client, err := protostream.New(conn)
		if err != nil {
			return err
		}
		go func() {
			for i := 0; i < 10_000; i++ {
				if err := client.Write(ctx, &pb.BenchmarkReq{Data: []byte(fmt.Sprint(i))}); err != nil {
					fail(err)
				}
			}
			if err := client.CloseSend(ctx); err != nil {
				fail(err)
			}
			say(map[string]any{"closed": true})
		}()
		for i := 0; ; i++ {
			var message pb.BenchmarkReq
			err := client.Read(ctx, &message)
			if errors.Is(err, io.EOF) {
				say(map[string]any{"received": i})
				break
			}
			if err != nil {
				return err
			}
			if string(message.Data) != fmt.Sprint(i) {
				return fmt.Errorf("message %d is %s", i, message.Data)
			}
		}
		time.Sleep(200 * time.Millisecond)
		return nil
	}
	say(map[string]any{"seen": seen})
	return conn.Close()
}

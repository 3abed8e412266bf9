// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"os"
	"time"

	"github.com/johnsiilver/golib/ipc/uds"
	"github.com/johnsiilver/golib/ipc/uds/highlevel/proto/rpc"
	pb "github.com/johnsiilver/golib/ipc/uds/highlevel/proto/rpc/benchmark/proto"
	"google.golang.org/protobuf/proto"
)

const golibMode = 0o770

func serveGolib(address string, _ int) error {
	own, _, err := uds.Current()
	if err != nil {
		return err
	}
	server, err := rpc.NewServer(address, own.UID.Int(), own.GID.Int(), golibMode)
	if err != nil {
		return err
	}
	server.RegisterMethod("echo", func(_ context.Context, request []byte) ([]byte, error) {
		var in pb.BenchmarkReq
		if err := proto.Unmarshal(request, &in); err != nil {
			return nil, err
		}
		return proto.Marshal(&pb.BenchmarkResp{Data: in.Data})
	})
	go func() {
		for { // Start listens and does not return; clients need the socket's final mode
			if found, err := os.Stat(address); err == nil && found.Mode().Perm() == golibMode {
				break
			}
			time.Sleep(time.Millisecond)
		}
		ready(address)
	}()
	return server.Start()
}

func dialGolib(address string, _ int) (func() (caller, error), error) {
	own, _, err := uds.Current()
	if err != nil {
		return nil, err
	}
	client, err := rpc.New(address, own.UID.Int(), own.GID.Int(), []os.FileMode{golibMode, 0o771})
	if err != nil {
		return nil, err
	}
	return func() (caller, error) {
		return func(payload []byte) ([]byte, error) {
			var response pb.BenchmarkResp
			err := client.Call(context.Background(), "echo", &pb.BenchmarkReq{Data: payload}, &response)
			return response.Data, err
		}, nil
	}, nil
}

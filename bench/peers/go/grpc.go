// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"math"
	"net"
	"strings"

	pb "github.com/johnsiilver/golib/ipc/uds/highlevel/proto/rpc/benchmark/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

type echo struct {
	pb.UnimplementedBenchmarkServer
}

func (echo) Benchmark(_ context.Context, request *pb.BenchmarkReq) (*pb.BenchmarkResp, error) {
	return &pb.BenchmarkResp{Data: request.Data}, nil
}

func serveOver(address string, register func(*grpc.Server)) error {
	network := "unix"
	if strings.Contains(address, ":") {
		network = "tcp"
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32))
	register(server)
	ready(listener.Addr().String())
	return server.Serve(listener)
}

func dialOver(address string) (*grpc.ClientConn, error) {
	target := "unix://" + address
	if strings.Contains(address, ":") {
		target = "passthrough:///" + address
	}
	limits := grpc.WithDefaultCallOptions(
		grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32))
	return grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), limits)
}

func serveGRPC(address string, _ int) error {
	return serveOver(address, func(server *grpc.Server) { pb.RegisterBenchmarkServer(server, echo{}) })
}

func dialGRPC(address string, _ int) (func() (caller, error), error) {
	connection, err := dialOver(address)
	if err != nil {
		return nil, err
	}
	client := pb.NewBenchmarkClient(connection)
	return func() (caller, error) {
		return func(payload []byte) ([]byte, error) {
			response, err := client.Benchmark(context.Background(), &pb.BenchmarkReq{Data: payload})
			return response.GetData(), err
		}, nil
	}, nil
}

func serveHealth(address string, _ int) error {
	return serveOver(address, func(server *grpc.Server) {
		healthpb.RegisterHealthServer(server, health.NewServer())
	})
}

func dialHealth(address string, _ int) (func() (caller, error), error) {
	connection, err := dialOver(address)
	if err != nil {
		return nil, err
	}
	client := healthpb.NewHealthClient(connection)
	return func() (caller, error) {
		return func([]byte) ([]byte, error) {
			_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
			return nil, err
		}, nil
	}, nil
}

// SPDX-License-Identifier: MIT

package main

import (
	"io"
	"net"
	"time"

	"github.com/cloudwego/shmipc-go"
)

// A level beyond the last: shmipc logs to the output, where rows are printed.
const silent = 5

// The settings of shmipc's own benchmark: a memfd, slices that hold a message, a long queue.
func tuned(config *shmipc.Config, size int) {
	shmipc.SetLogLevel(silent)
	config.LogOutput = io.Discard
	config.MemMapType = shmipc.MemMapTypeMemFd
	config.QueueCap = 65_536
	config.ShareMemoryBufferCap = 256 << 20
	if size >= 4<<20 {
		config.ShareMemoryBufferCap = 512 << 20
	}
	config.InitializeTimeout = 10 * time.Second
	config.BufferSliceSizes = []*shmipc.SizePercentPair{
		{Size: uint32(size) + 256, Percent: 70},
		{Size: 16 << 10, Percent: 20},
		{Size: 64 << 10, Percent: 10},
	}
}

func serveShmipcWith(answer func(*shmipc.Stream) error) func(string, int) error {
	return func(address string, size int) error {
		listener, err := net.Listen("unix", address)
		if err != nil {
			return err
		}
		ready(address)
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		config := shmipc.DefaultConfig()
		tuned(config, size)
		session, err := shmipc.Server(connection, config)
		if err != nil {
			return err
		}
		for {
			stream, err := session.AcceptStream()
			if err != nil {
				return err
			}
			go func() {
				for answer(stream) == nil {
				}
			}()
		}
	}
}

func serveShmipc(address string, size int) error {
	return serveShmipcWith(func() func(*shmipc.Stream) error {
		return func(stream *shmipc.Stream) error {
			own := make([]byte, size)
			for {
				in, err := stream.BufferReader().ReadBytes(size)
				if err != nil {
					return err
				}
				copy(own, in)
				stream.BufferReader().ReleasePreviousRead()
				if err := write(stream, own); err != nil {
					return err
				}
			}
		}
	}())(address, size)
}

func serveShmipcNoTouch(address string, size int) error {
	return serveShmipcWith(func(stream *shmipc.Stream) error {
		if _, err := stream.BufferReader().Discard(size); err != nil {
			return err
		}
		stream.BufferReader().ReleasePreviousRead()
		return reserve(stream, size)
	})(address, size)
}

func write(stream *shmipc.Stream, payload []byte) error {
	if _, err := stream.BufferWriter().WriteBytes(payload); err != nil {
		return err
	}
	return flush(stream)
}

func reserve(stream *shmipc.Stream, size int) error {
	if _, err := stream.BufferWriter().Reserve(size); err != nil {
		return err
	}
	return flush(stream)
}

func flush(stream *shmipc.Stream) error {
	for {
		err := stream.Flush(false)
		if err != shmipc.ErrQueueFull {
			return err
		}
		time.Sleep(time.Microsecond)
	}
}

func dialShmipc(touches bool) func(string, int) (func() (caller, error), error) {
	return func(address string, size int) (func() (caller, error), error) {
		config := shmipc.DefaultSessionManagerConfig()
		tuned(config.Config, size)
		config.Network = "unix"
		config.Address = address
		config.SessionNum = 1
		manager, err := shmipc.NewSessionManager(config)
		if err != nil {
			return nil, err
		}
		return func() (caller, error) {
			stream, err := manager.GetStream()
			if err != nil {
				return nil, err
			}
			own := make([]byte, size)
			return func(payload []byte) ([]byte, error) {
				if !touches {
					if err := reserve(stream, size); err != nil {
						return nil, err
					}
					_, err := stream.BufferReader().Discard(size)
					stream.ReleaseReadAndReuse()
					return nil, err
				}
				if err := write(stream, payload); err != nil {
					return nil, err
				}
				in, err := stream.BufferReader().ReadBytes(size)
				if err != nil {
					return nil, err
				}
				copy(own, in)
				stream.BufferReader().ReleasePreviousRead()
				return own, nil
			}, nil
		}, nil
	}
}

// JSON contracts over grpc-go: a caller that names the content subtype json, and a server whose
// codec is JSON. Usage: grpcjson call TARGET [AUTHORITY] | grpcjson serve PATH.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
)

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
func (jsonCodec) Name() string                       { return "json" }

type pair struct {
	A int `json:"a"`
	B int `json:"b"`
}

type sum struct {
	Sum int    `json:"sum"`
	By  string `json:"by"`
}

func main() {
	encoding.RegisterCodec(jsonCodec{})
	switch os.Args[1] {
	case "call":
		call(os.Args[2], os.Args[3:])
	case "serve":
		serve(os.Args[2])
	}
}

func call(target string, authority []string) {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if len(authority) > 0 {
		options = append(options, grpc.WithAuthority(authority[0]))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var answer sum
	subtype := grpc.CallContentSubtype("json")
	if err := conn.Invoke(ctx, "/Desk/add", pair{3, 4}, &answer, subtype); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Sum, answer.By)
	err = conn.Invoke(ctx, "/Desk/add", "no pair", &answer, subtype)
	fmt.Println(err)
}

func serve(path string) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(jsonCodec{}))
	add := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var request pair
		if err := decode(&request); err != nil {
			return nil, err
		}
		return sum{request.A + request.B, "go"}, nil
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "Desk",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "add", Handler: add}},
	}, nil)
	fmt.Println(`{"ready":true}`)
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}

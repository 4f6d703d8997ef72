// A fan-out server around the centrifuge library: every client that subscribes gets
// every publication of its channel, with history and recovery on, in memory.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/centrifugal/centrifuge"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve prints the address of a free port and serves on it until it is killed.
func serve() error {
	node, err := centrifuge.New(centrifuge.Config{ClientQueueMaxSize: 16 << 20}) // a burst must not drop a follower
	if err != nil {
		return err
	}
	node.OnConnecting(func(context.Context, centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		return centrifuge.ConnectReply{Credentials: &centrifuge.Credentials{UserID: "bench"}}, nil
	})
	node.OnConnect(func(client *centrifuge.Client) {
		client.OnSubscribe(func(_ centrifuge.SubscribeEvent, done centrifuge.SubscribeCallback) {
			done(centrifuge.SubscribeReply{Options: centrifuge.SubscribeOptions{EnableRecovery: true, EnablePositioning: true}}, nil)
		})
		client.OnPublish(func(_ centrifuge.PublishEvent, done centrifuge.PublishCallback) {
			done(centrifuge.PublishReply{Options: centrifuge.PublishOptions{HistorySize: 1000, HistoryTTL: time.Hour}}, nil)
		})
	})
	if err := node.Run(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	socket := centrifuge.NewWebsocketHandler(node, centrifuge.WebsocketConfig{UseWriteBufferPool: true, WriteTimeout: 10 * time.Second})
	return http.Serve(listener, socket)
}

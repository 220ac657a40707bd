// Command etcd is the store of the real control plane the tests are held against.
// It is etcd's own main, built from the module that Kubernetes itself pins.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}

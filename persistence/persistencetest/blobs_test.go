package persistencetest_test

import (
	"testing"

	"pgregory.net/rapid"

	"parley/persistence/blobstest"
	"parley/persistence/persistencetest"
)

func TestBlobsInMemory(t *testing.T) {
	blobstest.Run(t, func(*testing.T) blobstest.Pair {
		m := persistencetest.NewMemory()
		return blobstest.Pair{Sessions: m, Blobs: m.Blobs()}
	})
}

func TestBlobsInMemoryAreTheModel(t *testing.T) {
	blobstest.RunModel(t, func(*rapid.T) func() blobstest.Pair {
		m := persistencetest.NewMemory()
		return func() blobstest.Pair { m.Reopen(); return blobstest.Pair{Sessions: m, Blobs: m.Blobs()} }
	})
}

package main

import (
	"os"
	"testing"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine/enginetest"
)

var engines *enginetest.Engines

func TestMain(m *testing.M) {
	engines = enginetest.Main(m, clickhouse.Published())
	os.Exit(engines.Run(m))
}

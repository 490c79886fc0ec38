package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestMisconfigured(t *testing.T) {
	t.Parallel()
	ch := func(code int32) error { return &clickhouse.Exception{Code: code} }
	pg := func(code string) error { return &pgconn.PgError{Code: code} }
	tests := map[string]struct {
		err  error
		want bool
	}{
		"ClickHouse: authentication failed": {ch(516), true},
		"ClickHouse: unknown user":          {ch(192), true},
		"ClickHouse: not allowed":           {ch(497), true},
		"ClickHouse: out of memory":         {ch(241), false},
		"ClickHouse: too many queries":      {ch(202), false},
		"ClickHouse: a read-only table":     {ch(242), false},
		"Postgres: wrong password":          {pg("28P01"), true},
		"Postgres: no such database":        {pg("3D000"), true},
		"Postgres: too many connections":    {pg("53300"), false},
		"Postgres: starting":                {pg("57P03"), false},
		"a load balancer's 502":             {errors.New("bad gateway"), false},
		"the network":                       {&net.OpError{Op: "dial", Err: io.EOF}, false},
	}
	for name, tt := range tests {
		if got := misconfigured(fmt.Errorf("migrating: %w", tt.err)); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// One warning per trouble, not one per attempt.
func TestSymptom(t *testing.T) {
	t.Parallel()
	from := func(port int) error {
		return fmt.Errorf("migrating: %w", &net.OpError{Op: "read", Source: &net.TCPAddr{Port: port}, Err: io.EOF})
	}
	if a, b := symptom(from(1)), symptom(from(2)); a != b {
		t.Errorf("%q and %q are one trouble", a, b)
	}
	if a, b := symptom(&clickhouse.Exception{Code: 241}), symptom(&clickhouse.Exception{Code: 202}); a == b {
		t.Errorf("%q are two", a)
	}
}

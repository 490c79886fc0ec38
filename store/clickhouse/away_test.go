package clickhouse

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
)

func TestIsAway(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		away bool
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{sqldriver.ErrBadConn, true}, // a migration whose connection breaks
		{&clickhouse.Exception{Code: 60}, true},
		{&clickhouse.Exception{Code: 516}, false}, // a wrong password
		{errors.New("anything else"), false},
		{nil, false},
	} {
		if got := IsAway(fmt.Errorf("migrating: %w", test.err)); got != test.away {
			t.Errorf("IsAway(%v) is %v", test.err, got)
		}
	}
}

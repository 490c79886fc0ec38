package e2e

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// clickHouse is one account at ClickHouse's HTTP port.
type clickHouse struct {
	addr, user, password string
}

// owner is the account that may do everything.
func owner(t *testing.T, addr, dir string) clickHouse {
	t.Helper()
	return clickHouse{addr, "ledger", secret(t, dir, "clickhouse")}
}

// grafana is the restricted account.
func grafana(t *testing.T, addr, dir string) clickHouse {
	t.Helper()
	return clickHouse{addr, "grafana", secret(t, dir, "clickhouse-grafana")}
}

// do sends a statement as curl does.
func (c clickHouse) do(t *testing.T, sql string, params url.Values) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.addr+"/?database=tatara_ledger&"+params.Encode(), strings.NewReader(sql))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(c.user, c.password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// must sends a statement that must work.
func (c clickHouse) must(t *testing.T, sql string) string {
	t.Helper()
	status, answer := c.do(t, sql, nil)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", sql, status, answer)
	}
	return answer
}

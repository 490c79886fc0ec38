package engine

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	address := PostgresAddress{Addr: "127.0.0.1:1", User: "u", Password: NewSecret("hunter2"), Database: "d"}
	wrapped := struct{ inner PostgresAddress }{address} // fmt skips methods of unexported fields
	var printed strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&printed, verb+verb+verb, address.Password, address, wrapped)
	}
	encoded, err := json.Marshal(address)
	if err != nil {
		t.Fatal(err)
	}
	printed.Write(encoded)
	slog.New(slog.NewJSONHandler(&printed, nil)).Info("x", "secret", address.Password, "address", address)
	slog.New(slog.NewTextHandler(&printed, nil)).Info("x", "secret", address.Password, "address", address)
	if strings.Contains(printed.String(), "hunter2") || strings.Contains(printed.String(), fmt.Sprintf("%x", "hunter2")) {
		t.Errorf("printed: %s", &printed)
	}
	if !strings.Contains(address.DSN(), "u:hunter2@127.0.0.1:1/d") {
		t.Error("the DSN lacks the password")
	}
}

func TestSecretFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	first, err := secretFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := secretFile(path, nil)
	if err != nil || !first.Equal(second) {
		t.Errorf("not reused: %v", err)
	}
	if mode, _ := modeOf(t, path); mode != 0o600 {
		t.Errorf("mode %o stays", mode)
	}
	other, err := secretFile(path+"2", nil)
	if err != nil || first.Equal(other) || len(first.Reveal()) < 32 {
		t.Errorf("not random: %v", err)
	}
	write(t, path, "\n")
	if _, err := secretFile(path, nil); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty password: %v", err)
	}
}

func TestClickHouseChildRoundTrip(t *testing.T) {
	t.Parallel()
	want := ClickHouseChild{
		Library: "/l i b", Path: "/p=1", Listen: "127.0.0.1:8123", User: "u", PasswordFile: "/a",
		GrafanaUser: "g", GrafanaPasswordFile: "--b", Database: "d", DrainTimeout: 3 * time.Second, MemoryBytes: 5,
	}
	args := want.Arguments()
	if diff := cmp.Diff([]string{"engines", "clickhouse"}, args[:2]); diff != "" {
		t.Error(diff)
	}
	var got ClickHouseChild
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	got.Flags(fs)
	if err := fs.Parse(args[2:]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestConfigFlags(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	cfg.Flags(fs)
	err := fs.Parse([]string{"--data-dir=/d", "--engines-dir=/e", "--engines-user=u", "--clickhouse-port=1", "--clickhouse-library=/l", "--clickhouse-memory-bytes=7", "--postgres-port=1"})
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.DataDir, want.EnginesDir, want.User = "/d", "/e", "u"
	want.ClickHouse = ClickHouseConfig{Port: 1, Library: "/l", MemoryBytes: 7}
	want.Postgres = PostgresConfig{Port: 1}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Error(diff)
	}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "must differ") {
		t.Errorf("two engines on one port: %v", err)
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults are invalid: %v", err)
	}
}

func TestRelay(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newRelay(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), func(line string) record {
		if strings.HasPrefix(line, "{") {
			return parseJSON(line)
		}
		return parsePostgres(line)
	})
	for _, part := range []string{
		"LOG:  star", "ting\nFATAL:  the database system is starting up\n\nFATAL:  too many\nPANIC:  disk\n",
		`{"time":"now","level":"WARN","msg":"slow","component":"x","b":2,"a":"1"}` + "\n{not json\nodd \xff line\n",
		strings.Repeat("x", 3*relayLineBytes), "\nno end",
	} {
		if n, err := r.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	r.flush()
	want := []string{
		"level=DEBUG msg=starting", `level=DEBUG msg="the database system is starting up"`, `level=WARN msg="too many"`,
		"level=ERROR msg=disk", "level=WARN msg=slow a=1 b=2", `level=INFO msg="{not json"`, "level=INFO msg=\"odd \uFFFD line\"",
		"level=INFO msg=" + strings.Repeat("x", relayLineBytes), `level=INFO msg="no end"`, "",
	}
	if diff := cmp.Diff(want, strings.Split(out.String(), "\n")); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(r.last(), " | "); n != relayTailLines-1 {
		t.Errorf("the tail has %d separators", n)
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	if a, err := engineAccount(1000, "nobody"); a != nil || err != nil {
		t.Errorf("a user who is not root cannot choose: %+v, %v", a, err)
	}
	if _, err := engineAccount(0, "root"); err == nil {
		t.Error("root is taken")
	}
	if _, err := engineAccount(0, "no-such-user"); err == nil {
		t.Error("a user that is not there is taken")
	}
	byID, err := lookupAccount("65534")
	if err != nil {
		t.Skip(err)
	}
	if a, err := engineAccount(0, byID.name); err != nil || a.uid != 65534 {
		t.Errorf("got %+v, %v", a, err)
	}
	if os.Geteuid() != 0 {
		return
	}
	owned := filepath.Join(t.TempDir(), "postgres")
	if err := makeFolder(owned, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(owned, 4711, 4712); err != nil {
		t.Fatal(err)
	}
	if a, err := engineAccount(0, "", owned); err != nil || a.uid != 4711 || a.gid != 4712 {
		t.Errorf("the owner of the data is %+v, %v", a, err)
	}
	// t.TempDir has mode 0700, as /root has.
	if err := byID.reach(owned); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("a closed folder: %v", err)
	}
}

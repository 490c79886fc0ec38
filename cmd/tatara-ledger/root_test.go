package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlagsFromEnvironment(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		value   string
		want    int
		wantErr string
	}{
		"a number":                   {value: "8124", want: 8124},
		"a Service of Kubernetes":    {value: "tcp://10.0.0.1:8123", want: 8123},
		"a Service for datagrams":    {value: "udp://10.0.0.1:53", want: 8123},
		"neither number nor Service": {value: "http://ch:8123", wantErr: "environment variable TATARA_LEDGER_CLICKHOUSE_PORT"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			port := flags.Int("clickhouse-port", 8123, "")
			err := flagsFromEnvironment(flags, func(name string) (string, bool) {
				return tt.value, name == "TATARA_LEDGER_CLICKHOUSE_PORT"
			})
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || *port != tt.want {
				t.Errorf("port %d, %v", *port, err)
			}
		})
	}
	// An address is no port: what looks like a Service there is somebody's intent.
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	url := flags.String("url", "", "")
	err := flagsFromEnvironment(flags, func(string) (string, bool) { return "tcp://there", true })
	if err != nil || *url != "tcp://there" {
		t.Errorf("url %q, %v", *url, err)
	}
}

func TestMaxFlags(t *testing.T) {
	t.Parallel()
	cmd := newServeCommand()
	for _, name := range []string{"kinds", "repos", "projects", "models", "efforts", "agents"} {
		f := cmd.Flags().Lookup("max-" + name)
		if f == nil || f.DefValue == "0" {
			t.Errorf("--max-%s: %+v", name, f)
		}
	}
	cmd.SetArgs([]string{"--data-dir", t.TempDir(), "--max-kinds", "0"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.ExecuteContext(t.Context()); err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), "kind") {
		t.Errorf("no kinds at all: %v", err)
	}
}

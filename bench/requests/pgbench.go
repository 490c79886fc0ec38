package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// script is what pgbench does for one request.
type script struct {
	text string
	vars []string // name=value
}

// argument is a parameter in a statement of ours.
func argument() *regexp.Regexp { return regexp.MustCompile(`\$\d+`) }

// unique counts from a random number: ids that no other transaction has.
const unique = "\\if :unique = 0\n\\set unique random(1, 4000000000000000000)\n\\endif\n\\set unique :unique + 1\n"

func newScript(op *operation, statements []statement) script {
	out := script{text: op.draws, vars: []string{"unique=0", "to=0", "none=-"}}
	var all strings.Builder
	for n, s := range statements {
		all.WriteString(argument().ReplaceAllStringFunc(s.sql, func(a string) string {
			i, _ := strconv.Atoi(a[1:]) // digits, by the expression
			return out.expression(op, s.args[i-1], fmt.Sprintf("s%da%d", n, i))
		}))
		all.WriteString(";\n")
	}
	if strings.Contains(all.String(), ":unique") {
		out.text += unique
	}
	out.text += all.String()
	return out
}

// expression is an argument for pgbench: a value that is drawn, a new id, or
// the same in every request.
func (s *script) expression(op *operation, arg any, name string) string {
	if reflect.TypeOf(arg).Comparable() {
		if drawn, ok := op.values[arg]; ok {
			return drawn
		}
	}
	switch v := arg.(type) {
	case uuid.UUID:
		return asID("unique")
	case uuid.NullUUID:
		if !v.Valid {
			return `nullif(:none, '-')::uuid`
		}
	case *int64:
		if v == nil {
			return `nullif(:none, '-')::bigint`
		}
	}
	s.vars = append(s.vars, fmt.Sprint(name, "=", arg))
	return ":" + name
}

// pgbench returns how many transactions per second it gets done.
func (b *bench) pgbench(ctx context.Context, s script) (float64, error) {
	program, err := findPgbench()
	if err != nil {
		return 0, err
	}
	args := []string{
		"--no-vacuum", "--protocol=prepared", "--file=-", "--time=" + strconv.Itoa(b.seconds),
		"--client=" + strconv.Itoa(clients), "--jobs=" + strconv.Itoa(min(clients, runtime.NumCPU())),
		"--define=handoffs=" + strconv.Itoa(b.data.handoffs), "--define=rooms=" + strconv.Itoa(b.data.rooms),
	}
	for _, v := range s.vars {
		args = append(args, "--define="+v)
	}
	cmd := exec.CommandContext(ctx, program, append(args, b.postgres.Database)...)
	addr, port, err := net.SplitHostPort(b.postgres.Addr)
	if err != nil {
		return 0, err
	}
	cmd.Env = append(os.Environ(), "PGHOST="+addr, "PGPORT="+port, "PGUSER="+b.postgres.User, "PGPASSWORD="+b.postgres.Password.Reveal())
	cmd.Stdin = strings.NewReader(s.text)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil || strings.Contains(complaint.String(), "aborted") {
		return 0, fmt.Errorf("%w: %s\n%s", err, complaint.String(), s.text)
	}
	found := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("it said no rate: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// findPgbench looks where Debian puts it before it takes the one of the path,
// which may be a wrapper.
func findPgbench() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if err == nil && len(found) > 0 {
		return found[len(found)-1], nil
	}
	program, err := exec.LookPath("pgbench")
	if err != nil {
		return "", fmt.Errorf("finding pgbench, which Debian has in postgresql: %w", err)
	}
	return program, nil
}

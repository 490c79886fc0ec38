package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// alertmanager is the real one, Debian's, alone on a loopback port.
type alertmanager struct {
	url string
	cmd *exec.Cmd
}

// silent tells nobody.
const silent = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"

const startPatience = time.Minute

func startAlertmanager(ctx context.Context, dir string) (*alertmanager, error) {
	config := filepath.Join(dir, "alertmanager.yaml")
	if err := os.WriteFile(config, []byte(silent), 0o600); err != nil {
		return nil, err
	}
	// Whoever takes the port in between makes the bench fail, no more.
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := lis.Addr().String()
	if err := lis.Close(); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "alertmanager.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "prometheus-alertmanager", "--config.file="+config,
		"--storage.path="+filepath.Join(dir, "alertmanager"), "--web.listen-address="+addr, "--cluster.listen-address=")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting Alertmanager: %w", err)
	}
	a := &alertmanager{url: "http://" + addr, cmd: cmd}
	if err := a.await(ctx); err != nil {
		text, _ := os.ReadFile(log.Name()) // what there is of it
		return nil, errors.Join(fmt.Errorf("%w; its log:\n%s", err, text), a.stop())
	}
	return a, nil
}

func (a *alertmanager) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for ctx.Err() == nil {
		if resp, err := get(ctx, a.url+"/-/ready"); err == nil {
			resp.Body.Close() //nolint:errcheck // its status is all
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("Alertmanager did not become ready") //nolint:staticcheck // its name
}

func (a *alertmanager) stop() error {
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return a.cmd.Wait()
}

// count is how many alerts of a name and threshold it shows.
func (a *alertmanager) count(ctx context.Context, name, threshold string) (n int, err error) {
	resp, err := get(ctx, a.url+"/api/v2/alerts")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var all []struct{ Labels map[string]string }
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return 0, fmt.Errorf("reading Alertmanager's alerts: %w", err)
	}
	for _, alert := range all {
		if alert.Labels["alertname"] == name && alert.Labels["threshold"] == threshold {
			n++
		}
	}
	return n, nil
}

func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

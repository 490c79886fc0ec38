# Everything here works on a machine with Go, Node.js, make and a POSIX shell.

.DEFAULT_GOAL := help
.SUFFIXES:

GO      ?= go
BINARY  := bin/tatara-ledger
# Built by this Go, since golangci-lint cannot read what a newer one compiled.
LINTER  := bin/tools/$(shell $(GO) env GOVERSION)/golangci-lint
DATA    ?= ./data
ARGS    ?=

export GO BINARY

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## Build bin/tatara-ledger
	$(GO) build -o $(BINARY) ./cmd/tatara-ledger

.PHONY: test
test: build ## Run every test, with the real engines and the race detector (ARGS: flags of go test)
	@sh scripts/test.sh $(ARGS)

.PHONY: lint
lint: $(LINTER) ## Check the code and the import graph with golangci-lint
	$(LINTER) run ./...

$(LINTER): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

.PHONY: verify
verify: $(LINTER) ## Generate what is generated again, and fail on a difference
	@LINTER=$(LINTER) sh scripts/verify.sh

.PHONY: run
run: build ## Serve with embedded engines under ./data (DATA: another folder, ARGS: flags of serve)
	$(BINARY) engines install
	$(BINARY) serve --data-dir $(DATA) $(ARGS)

.PHONY: demo
demo: build ## Start everything in a throw-away folder, feed it, show the report, wait for Ctrl-C (ARGS: flags of serve)
	@sh scripts/demo.sh $(ARGS)

.PHONY: bench
bench: build ## Measure how much the pipeline takes and how fast it answers
	$(GO) run ./bench $(ARGS)

.PHONY: bench-api
bench-api: build ## Measure requests next to pgbench with the same statements (ARGS: flags of bench/requests, such as -large)
	@. scripts/packages.sh && need pgbench postgresql && $(GO) run ./bench/requests $(ARGS)

.PHONY: bench-alerts
bench-alerts: build ## Measure from a crossing to Alertmanager, how a task stands, and evaluations, with 100 000 live tasks
	@. scripts/packages.sh && need prometheus-alertmanager prometheus-alertmanager && $(GO) run ./bench/alerts $(ARGS)
	$(GO) test -run xxx -bench Evaluate -cpu 2 -benchtime 20x ./alerts/evaluate

.PHONY: soak
soak: build ## Run the hour-long tests too
	@TATARA_LEDGER_SOAK=1 sh scripts/test.sh -tags soak -run Soak -timeout 60m $(ARGS)

.PHONY: clean
clean: ## Remove what was built; data and downloaded engines stay
	rm -rf bin
	$(GO) clean -testcache

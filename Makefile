# Everything a developer or an operator types; "make help" lists it.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X github.com/coredns-ddns/ddns/internal/version.tag=$(VERSION)

# One set of build flags for binaries, tests and what tests build themselves, so
# that CoreDNS is compiled once. Without cgo the binaries are static, and no
# compiler for C is needed. The version comes from git describe, above.
export GOFLAGS := $(strip $(shell go env GOFLAGS 2>/dev/null) -trimpath -buildvcs=false)
export CGO_ENABLED := 0

# Servers of other projects live in sbin, the tools we build in bin/tools.
export PATH := $(CURDIR)/bin/tools:$(PATH):/usr/local/sbin:/usr/sbin:/sbin

# The floors where goroutines share data, without CoreDNS itself: compiling all
# of it once more for the race detector takes minutes.
RACE := ./internal/accept/... ./internal/zone/... ./internal/zonedb/... ./internal/store/... ./internal/policy/... ./internal/resident/... ./hooks/...

# The packages whose tests drive many processes at once, one after the other: two
# of them side by side on two cores would test each other's patience.
SERVERS := github.com/coredns-ddns/ddns|github.com/coredns-ddns/ddns/hooks|github.com/coredns-ddns/ddns/test|github.com/coredns-ddns/ddns/test/dns

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: go
go:
	@command -v go >/dev/null && go list -m >/dev/null || \
		{ echo "make: Go $$(sed -n 's/^go //p' go.mod) or newer is needed: https://go.dev/dl/" >&2; exit 1; }

.PHONY: build
build: go ## bin/coredns, bin/ddns-hookd and bin/ddns-token, static
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: run
run: build ## start it on loopback ports with data in ./run (or DATA=dir) and print lines to try
	@scripts/run.sh "$(or $(DATA),run)"

.PHONY: test
test: clients ## all tests, after installing what they need; with CI set no client may be missing
	go vet ./...
	go test -timeout 15m $$(go list ./... | grep -vxE '$(SERVERS)')
	go test -timeout 15m -p 1 $(subst |, ,$(SERVERS))
	$(MAKE) --no-print-directory test-race

.PHONY: test-race
test-race: go ## short tests of the concurrent packages under the race detector
	CGO_ENABLED=1 go test -race -short -timeout 10m $(RACE)

.PHONY: test-long
test-long: clients ## what takes too long for every change: the full plugin.cfg build, everything under the race detector, each fuzz target for a minute
	DDNS_TEST_LONG=1 go test -timeout 60m ./...
	CGO_ENABLED=1 go test -race -timeout 60m ./...
	scripts/fuzz.sh 60s

.PHONY: torture
torture: clients ## faults and hostile clients in their long form: the promises of docs/promises.md, for half an hour
	DDNS_TEST_LONG=1 go test -count 1 -timeout 60m -run '$(or $(RUN),.)' ./test ./internal/store/... ./internal/zonedb ./hooks

.PHONY: fuzz
fuzz: go ## each fuzz target for FUZZTIME (10s)
	scripts/fuzz.sh $(or $(FUZZTIME),10s)

.PHONY: bench
bench: go ## measure beside other servers, in some minutes; the table goes to bench/results (ROWS=updates,queries,syncs,curves)
	bench/install-peers.sh
	go run ./bench $(if $(ROWS),-rows $(ROWS))

.PHONY: bench-full
bench-full: go ## the same with all servers at all sizes, longer and more often
	bench/install-peers.sh
	go run ./bench -full $(if $(ROWS),-rows $(ROWS))

.PHONY: bench-go
bench-go: go ## Go benchmarks of lookup, plan, apply and commit; BASE=REVISION compares with it by benchstat
	bench/go.sh $(BASE)

.PHONY: lint
lint: go ## gofmt, go vet, staticcheck, and govulncheck when its database can be reached
	scripts/install-tools.sh lint
	scripts/lint.sh

.PHONY: proto
proto: go ## generate the Go code of proto/ (needs protoc)
	scripts/install-test-clients.sh
	go generate ./proto/...

.PHONY: clients
clients: go
	@scripts/install-test-clients.sh
	@scripts/install-tools.sh test

.PHONY: clean
clean: ## remove what was built; data in ./run stays
	rm -rf bin
